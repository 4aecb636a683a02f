package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scalars are the strings of a file, to find the place of each of their characters: an
// error in an expression is somewhere in the scalar that holds it, and what stands there
// depends on how it was written.
type scalars struct {
	lines [][]rune // without their breaks
	nodes map[string]*yaml.Node
}

func newScalars(data []byte) *scalars {
	s := &scalars{nodes: make(map[string]*yaml.Node)}
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(data), "\ufeff"))
	for line := range strings.SplitSeq(text, "\n") {
		s.lines = append(s.lines, []rune(line))
	}
	return s
}

// place gives where in the file the character at a line and column of the string at path
// stands, all of them counted from 1. What is behind the end is at the end of the text.
// ok is false where it cannot be told: what the file holds there does not read as the
// string, or there is no such string.
func (s *scalars) place(path string, line, column int) (at point, ok bool) {
	if s == nil || s.nodes[path] == nil || line < 1 || column < 1 {
		return point{}, false
	}
	value := []rune(s.nodes[path].Value)
	marks, ok := s.marks(s.nodes[path], value)
	if !ok {
		return point{}, false
	}
	// The end of a text is the end of its last word: a block ends with a line break.
	end := len([]rune(strings.TrimRight(string(value), " \t\n")))
	if end == 0 {
		return point{}, false
	}
	i := min(offset(value, line, column), end)
	if i == end {
		return point{marks[i-1].line, marks[i-1].end, 0}.counted(), true
	}
	return marks[i].counted(), true
}

// offset gives the index of a line and column.
func offset(text []rune, line, column int) int {
	i := 0
	for ; line > 1; line-- {
		next := slices.Index(text[i:], '\n')
		if next < 0 {
			return len(text)
		}
		i += next + 1
	}
	length := slices.Index(text[i:], '\n')
	if length < 0 {
		length = len(text) - i
	}
	return i + min(column-1, length)
}

// point is where a character was written: its line, its column, and the column behind it,
// which is more than one further where it was escaped. Here they are counted from 0.
type point struct{ line, column, end int }

// counted gives the point as people count.
func (p point) counted() point { return point{p.line + 1, p.column + 1, p.end + 1} }

// marks gives where each character of a scalar was written. The scalar is read again in
// the way that its style asks for, and whatever this comes to has to be what the parser
// made of it.
func (s *scalars) marks(n *yaml.Node, value []rune) ([]point, bool) {
	start, ok := s.skipProperties(point{line: n.Line - 1, column: n.Column - 1})
	if !ok {
		return nil, false
	}
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return s.block(start.line+1, n.Style&yaml.FoldedStyle != 0, value)
	}
	r := reader{lines: s.lines, at: start, want: len(value)}
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0:
		r.at.column++
		r.next = r.double
	case n.Style&yaml.SingleQuotedStyle != 0:
		r.at.column++
		r.next = r.single
	default:
		r.next = r.plain
	}
	r.read()
	return r.marks, slices.Equal(r.runes, value)
}

// skipProperties goes from the beginning of a node over its anchor and its tag.
func (s *scalars) skipProperties(at point) (point, bool) {
	for at.line < len(s.lines) {
		line := s.lines[at.line]
		for at.column < len(line) && blank(line[at.column]) {
			at.column++
		}
		switch {
		case at.column >= len(line) || line[at.column] == '#':
			at = point{line: at.line + 1}
		case line[at.column] == '&' || line[at.column] == '!':
			for at.column < len(line) && !blank(line[at.column]) {
				at.column++
			}
		default:
			return at, true
		}
	}
	return at, false
}

func blank(r rune) bool { return r == ' ' || r == '\t' }

// marked collects characters and where they were written.
type marked struct {
	runes []rune
	marks []point
}

func (m *marked) add(r rune, at point) {
	m.runes, m.marks = append(m.runes, r), append(m.marks, at)
}
