package config

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// syntaxError makes an Error of one of the YAML parser, which gives the line in
// the text only: "yaml: line 3: mapping values are not allowed in this context".
func syntaxError(name string, data []byte, err error) *Error {
	bad := &Error{File: name, Message: strings.TrimPrefix(err.Error(), "yaml: ")}
	if m := regexp.MustCompile(`^line (\d+): (?s:(.*))$`).FindStringSubmatch(bad.Message); m != nil {
		bad.Line, _ = strconv.Atoi(m[1]) // digits; an absurd number of them leaves the line unknown
		bad.Message = m[2]
	}
	if countsFromZero(bad.Message) {
		bad.Line++
	}
	if bad.Line == 0 {
		bad.Line, bad.Column = lineWithout(data, bad.Message)
	}
	// The end of the file counts as a line of its own to the parser.
	bad.Line = min(bad.Line, lineOf(data, len(bytes.TrimRight(data, "\r\n"))))
	line, hint := expressionHint(data, bad.Line, bad.Message)
	bad.Line = line
	bad.Message += hint
	if hint == "" {
		bad.Column = cmp.Or(bad.Column, foreign(data, bad))
	}
	return bad
}

// foreign says what is not YAML at all, and gives the column where that is known.
func foreign(data []byte, bad *Error) (column int) {
	switch bad.Message {
	case "did not find expected <document start>":
		bad.Message += ": is this YAML?"
	case "found character that cannot start any token":
		line, _, _ := bytes.Cut(data[lineStart(data, bad.Line):], []byte("\n"))
		if tab := bytes.IndexByte(line, '\t'); tab >= 0 && len(bytes.TrimLeft(line[:tab], " -")) == 0 {
			bad.Message = "a tab: YAML wants spaces"
			return tab + 1
		}
	}
	return 0
}

// lineStart gives the index of the first byte of a line.
func lineStart(data []byte, line int) int {
	at := 0
	for ; line > 1; line-- {
		at += bytes.IndexByte(data[at:], '\n') + 1
	}
	return at
}

// countsFromZero says whether an error is one of the parser proper. Unlike those
// of the scanner below it they count lines from 0, and leave 0 out.
func countsFromZero(message string) bool {
	return slices.Contains([]string{
		"did not find expected key",
		"did not find expected '-' indicator",
		"did not find expected ',' or ']'",
		"did not find expected ',' or '}'",
		"did not find expected node content",
		"did not find expected <document start>",
		"found undefined tag handle",
	}, message)
}

// lineWithout finds the line, and where it is known the column, of an error that comes without: an alias of
// nothing, or bytes that are no text. Other errors leave out the first line.
func lineWithout(data []byte, message string) (line, column int) {
	if m := regexp.MustCompile(`^unknown anchor '(.*)' referenced$`).FindStringSubmatch(message); m != nil {
		at := max(0, bytes.Index(data, []byte("*"+m[1])))
		return lineOf(data, at), at - bytes.LastIndexByte(data[:at], '\n')
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 || r < ' ' && !strings.ContainsRune("\t\r\n", r) || r == 0x7f {
			return lineOf(data, i), 0
		}
		i += size
	}
	return 1, 0
}

// lineOf gives the line of the byte at i.
func lineOf(data []byte, i int) int {
	return 1 + bytes.Count(data[:max(0, i)], []byte("\n"))
}
