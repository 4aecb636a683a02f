package digest

import (
	"strings"
	"unicode"
)

// Label returns what stands before a digest for people to read, who know the content by
// another version of a server's: that version, shortened and printable, and a slash; "" for
// none. It says nothing of the content (ACK-4): [Plain] takes it off.
func Label(version string) string {
	if version == "" {
		return ""
	}
	printable := func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}
	return strings.ToValidUTF8(strings.Map(printable, version[:min(len(version), maxLabel)])+"/", "")
}
