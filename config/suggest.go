package config

import (
	"fmt"
	"strings"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// unknown is the message for a key that is not among known, and the key that
// was probably meant, "" if none is near.
func unknown(key string, known []string) (message, meant string) {
	if meant = nearest(key, known, min(3, max(1, len(key)/3))); meant != "" {
		return fmt.Sprintf("unknown key, did you mean %q?", meant), meant
	}
	return "unknown key, expected one of: " + strings.Join(known, ", "), ""
}

// nearest gives the candidate that key is most likely a misspelling of: the one
// with the fewest edits, "" if all need more than most. Case and the difference
// between "-" and "_" are no edits.
func nearest(key string, candidates []string, most int) string {
	fold := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	best, least := "", most+1
	for _, c := range candidates {
		if d := keyer.Edits([]byte(fold(key)), []byte(fold(c)), least); d < least {
			best, least = c, d
		}
	}
	return best
}
