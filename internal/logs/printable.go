package logs

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable quotes what others sent if a terminal could take it for more than text, or a
// reader for more than one word's worth of it.
func Printable(s string) string {
	if strings.IndexFunc(s, unprintable) >= 0 {
		return strconv.QuoteToGraphic(s)
	}
	return s
}

// PrintableLines is the same for a text of several lines, with tabs: it escapes the characters
// alone, and quotes nothing.
func PrintableLines(s string) string {
	odd := func(r rune) bool { return unprintable(r) && r != '\n' && r != '\t' }
	if strings.IndexFunc(s, odd) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if odd(r) {
			quoted := strconv.QuoteToGraphic(s[i : i+n])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
