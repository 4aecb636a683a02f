package keyer

import "strings"

const (
	hexDigits       = "0123456789ABCDEF"
	badEscapeReason = "two hexadecimal digits must follow %%"
)

// escaped gives the byte that the percent-encoding at the start of s stands
// for; false if there is none.
func escaped(s string) (byte, bool) {
	if len(s) < len("%2F") || s[0] != '%' {
		return 0, false
	}
	high, highOK := unhex(s[1])
	low, lowOK := unhex(s[2])
	return high<<4 | low, highOK && lowOK
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	default:
		return 0, false
	}
}

// badEscape gives the position of the first "%" in s that begins no
// percent-encoding, or -1.
func badEscape(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		if _, ok := escaped(s[i:]); !ok {
			return i
		}
		i += len("2F")
	}
	return -1
}

// unescape decodes s, in which every escape is well-formed.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		c, ok := escaped(s[i:])
		if ok {
			i += len("2F")
		} else {
			c = s[i]
		}
		b.WriteByte(c)
	}
	return b.String()
}

// escape writes s with everything percent-encoded that is not allowed. A "%" is
// a character like any other here, to be allowed or not.
func escape(b *strings.Builder, s string, allowed charset) {
	for i := range len(s) {
		if allowed.has(s[i]) {
			b.WriteByte(s[i])
		} else {
			writeEscape(b, s[i])
		}
	}
}

// writeEscape writes the percent-encoding of a byte.
func writeEscape(b *strings.Builder, c byte) {
	b.WriteByte('%')
	b.WriteByte(hexDigits[c>>4])
	b.WriteByte(hexDigits[c&15])
}
