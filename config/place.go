package config

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// scalars are the strings of a file, to find the place of an error in an expression.
type scalars struct {
	lines []string // without their breaks
	nodes map[string]*yaml.Node
}

func newScalars(data []byte) *scalars {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(data), "\ufeff"))
	return &scalars{strings.Split(text, "\n"), make(map[string]*yaml.Node)}
}

// place gives where in the file the character at a line and column of the string at path stands. All are counted
// from 1, columns in characters. ok is false if the file writes the string in another way than it reads: with escapes,
// or over several lines that are joined.
func (s *scalars) place(path string, line, column int) (atLine, atColumn int, ok bool) {
	before, _, ok := s.find(path, line)
	if !ok {
		return 0, 0, false
	}
	n := s.nodes[path]
	if n.Style&yaml.LiteralStyle == 0 {
		line = 0
	}
	return n.Line + line, utf8.RuneCountInString(before) + column, true
}

// find gives what stands in the file before and behind a line of the string at path.
func (s *scalars) find(path string, line int) (before, behind string, ok bool) {
	if s == nil || s.nodes[path] == nil || line < 1 {
		return "", "", false
	}
	n := s.nodes[path]
	texts, row, column := strings.Split(n.Value, "\n"), n.Line-1+line, 0
	if n.Style&yaml.LiteralStyle == 0 {
		row, column = n.Line-1, n.Column-1
		texts = texts[:1:1]
	}
	if line > len(texts) || row >= len(s.lines) || texts[line-1] == "" {
		return "", "", false
	}
	from := len(string([]rune(s.lines[row])[:min(column, utf8.RuneCountInString(s.lines[row]))]))
	before, behind, ok = strings.Cut(s.lines[row][from:], texts[line-1])
	return s.lines[row][:from] + before, behind, ok
}
