package logs

import (
	"fmt"
	"strings"
)

// ReasonBytes is how many bytes the head and the tail of a rejection's reason have, each: Envoy
// prints the resource first and the reason last (ACK-7).
const ReasonBytes = 2 << 10

// Excerpt gives a text if it has at most twice as many bytes, else that many of its head and of
// its tail, and says how many lie between them. What looks like a secret is masked (see
// [Mask]), what is no UTF-8 is replaced, since no message could carry it. Nothing else of
// the text stays in memory.
func Excerpt(text string, each int) string {
	if len(text) <= 2*each {
		return Mask(strings.ToValidUTF8(text, "\uFFFD"))
	}
	// A cut may go through a character, of which the text has nothing wrong then.
	head := Head(text, each)
	tail := strings.ToValidUTF8(trimStart(text[len(text)-each:]), "\uFFFD")
	if begin := strings.LastIndex(text[:len(text)-each], "-----BEGIN "); begin >= 0 && !strings.Contains(text[begin:len(text)-each], "-----END ") && !strings.Contains(tail, "-----END ") {
		tail = masked
	}
	return fmt.Sprintf("%s … (%d bytes left out) … %s", Mask(head), len(text)-2*each, Mask(tail))
}

// Head gives the beginning of a text, at most that many bytes of it, with what is no UTF-8
// replaced.
func Head(text string, most int) string {
	if len(text) > most {
		text = trimEnd(text[:most])
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// trimEnd takes off a character that a cut has left without its end.
func trimEnd(s string) string {
	for n := 1; n <= 4 && n <= len(s); n++ {
		c := s[len(s)-n]
		switch {
		case c < 0x80:
			return s // ASCII: nothing was cut
		case c >= 0xC0: // a character begins here
			if n < width(c) {
				return s[:len(s)-n]
			}
			return s
		}
	}
	return s
}

// trimStart takes off what a cut has left of a character without its beginning.
func trimStart(s string) string {
	n := 0
	for n < 3 && n < len(s) && s[n]&0xC0 == 0x80 {
		n++
	}
	return s[n:]
}

// width is how many bytes a character has that begins with c.
func width(c byte) int {
	switch {
	case c >= 0xF0:
		return 4
	case c >= 0xE0:
		return 3
	}
	return 2
}
