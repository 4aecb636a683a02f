package config

import "strconv"

// reader reads a scalar that is plain or in quotes, over several lines if need be: the
// blanks around a line's end do not count, and breaks are folded.
type reader struct {
	lines [][]rune
	at    point
	want  int // characters that there should be
	marked

	// next reads the character at a column of a line and gives the column behind it; more
	// is false at the end of the scalar. A character of -1 is none: an escaped line break.
	next func(line []rune, column int) (r rune, behind int, more bool)
}

// read goes on until there are as many characters as there should be, or the scalar ends.
func (r *reader) read() {
	for r.at.line < len(r.lines) {
		line := trimmed(r.lines[r.at.line])
		escaped := false
		for r.at.column < len(line) {
			c, behind, more := r.next(line, r.at.column)
			if !more || len(r.runes) == r.want {
				return
			}
			if escaped = c < 0; !escaped {
				r.add(c, point{r.at.line, r.at.column, behind})
			}
			r.at.column = behind
		}
		if len(r.runes) >= r.want {
			return
		}
		r.lineEnd(len(line), escaped)
	}
}

// lineEnd goes to the next line that is not empty.
func (r *reader) lineEnd(length int, escaped bool) {
	breaks := []point{{r.at.line, length, length}}
	for r.at.line++; r.at.line < len(r.lines); r.at.line++ {
		line := r.lines[r.at.line]
		r.at.column = len(line) - len(unindented(line))
		if r.at.column < len(line) {
			break
		}
		breaks = append(breaks, point{r.at.line, len(line), len(line)})
	}
	if !escaped {
		r.fold(breaks)
		return
	}
	for _, at := range breaks[1:] {
		r.add('\n', at)
	}
}

func trimmed(line []rune) []rune {
	for len(line) > 0 && blank(line[len(line)-1]) {
		line = line[:len(line)-1]
	}
	return line
}

func unindented(line []rune) []rune {
	for len(line) > 0 && blank(line[0]) {
		line = line[1:]
	}
	return line
}

// plain ends where the caller has all the characters.
func (*reader) plain(line []rune, column int) (rune, int, bool) {
	return line[column], column + 1, true
}

// single is text in single quotes, where two of them stand for one.
func (*reader) single(line []rune, column int) (rune, int, bool) {
	if line[column] != '\'' {
		return line[column], column + 1, true
	}
	return '\'', column + 2, column+1 < len(line) && line[column+1] == '\''
}

// escapes are those of double quotes that are one character long.
var escapes = map[rune]rune{
	'0': 0, 'a': '\a', 'b': '\b', 't': '\t', '\t': '\t', 'n': '\n', 'v': '\v', 'f': '\f', 'r': '\r', 'e': 0x1b,
	' ': ' ', '"': '"', '\'': '\'', '\\': '\\', 'N': 0x85, '_': 0xa0, 'L': 0x2028, 'P': 0x2029,
}

// double is text in double quotes, with escapes.
func (*reader) double(line []rune, column int) (rune, int, bool) {
	switch {
	case line[column] == '"':
		return 0, column, false
	case line[column] != '\\':
		return line[column], column + 1, true
	case column+1 == len(line):
		return -1, column + 1, true
	}
	digits := map[rune]int{'x': 2, 'u': 4, 'U': 8}[line[column+1]]
	if digits == 0 {
		r, known := escapes[line[column+1]]
		return r, column + 2, known
	}
	behind := column + 2 + digits
	if behind > len(line) {
		return 0, column, false
	}
	code, err := strconv.ParseUint(string(line[column+2:behind]), 16, 32)
	return rune(code), behind, err == nil
}
