package config

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzPlace: where a character of a string has a place in the file, the file has this character there.
func FuzzPlace(f *testing.F) {
	for _, seed := range []string{"a", "'it''s'", `"\x41\n"`, "|\n  größe\n  b", "|2\n   a\n\n  b\n", ">\n  a\n  b\n\n  c\n   d", "&a !!str x\n y", "\"a\\\n  b\"", "& a"} {
		f.Add(seed, 1, 1)
		f.Add(seed, 2, 1)
	}
	f.Fuzz(func(t *testing.T, text string, line, column int) {
		data := "k: " + text
		root, bad := parseTree("f", []byte(data))
		if bad != nil || len(root.Content) != 2 || scalarTag(root.Content[1]) != "!!str" {
			return
		}
		s := newScalars([]byte(data))
		value := strings.Split(root.Content[1].Value, "\n")
		if line < 1 || line > len(value) || column < 1 || column > utf8.RuneCountInString(value[line-1]) {
			return
		}
		s.nodes["k"] = root.Content[1]
		atLine, atColumn, ok := s.place("k", line, column)
		if !ok {
			return
		}
		there := []rune(s.lines[atLine-1])
		if want := []rune(value[line-1])[column-1]; atColumn > len(there) || there[atColumn-1] != want {
			t.Errorf("%q at %d:%d: not %q", data, atLine, atColumn, want)
		}
	})
}
