package config

import "slices"

// block reads a literal or folded block whose text begins in the line first. Its
// indentation is that of the first line of text, or less, if there is an indicator of it:
// the one is right with which the text is read as it should be.
func (s *scalars) block(first int, folded bool, value []rune) ([]point, bool) {
	most := 0
	for _, line := range s.lines[min(first, len(s.lines)):] {
		if most = indentation(line); most < len(line) {
			break
		}
	}
	for indent := most; indent >= 0; indent-- {
		b := blockReader{indent: indent, folded: folded}
		b.read(s.lines, first)
		// How the block ends depends on its chomping: all there may be is read.
		if len(b.runes) >= len(value) && slices.Equal(b.runes[:len(value)], value) {
			return b.marks, true
		}
	}
	return nil, false
}

func indentation(line []rune) int {
	i := slices.IndexFunc(line, func(r rune) bool { return r != ' ' })
	if i < 0 {
		return len(line)
	}
	return i
}

type blockReader struct {
	indent int
	folded bool
	marked
}

func (b *blockReader) read(lines [][]rune, first int) {
	var breaks []point          // since the last line of text: its own, and those of empty lines
	begun, more := false, false // whether there was a line of text, and one that is indented further
	for i, line := range lines[min(first, len(lines)):] {
		behind := point{first + i, len(line), len(line)}
		switch spaces := indentation(line); {
		case spaces == len(line) && len(line) <= b.indent:
			breaks = append(breaks, behind)
			continue
		case spaces < b.indent:
			b.breaks(breaks)
			return
		}
		further := blank(line[b.indent])
		if b.folded && begun && !more && !further {
			b.fold(breaks)
		} else {
			b.breaks(breaks)
		}
		begun, more = true, further
		for column := b.indent; column < len(line); column++ {
			b.add(line[column], point{first + i, column, column + 1})
		}
		breaks = []point{behind}
	}
	b.breaks(breaks)
}

func (b *blockReader) breaks(all []point) {
	for _, at := range all {
		b.add('\n', at)
	}
}

// fold makes a space of a single break, and drops the first of several.
func (m *marked) fold(breaks []point) {
	if len(breaks) == 1 {
		m.add(' ', breaks[0])
		return
	}
	for _, at := range breaks[1:] {
		m.add('\n', at)
	}
}
