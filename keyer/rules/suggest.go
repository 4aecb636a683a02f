package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// didYouMean ends a message with the name that was probably meant, if there is one.
func didYouMean(name string, names []string) string {
	if meant := closest(name, names); meant != "" {
		return fmt.Sprintf(", did you mean %q?", meant)
	}
	return ""
}

// closest gives the name that one could have meant: the same in other letters, one that it
// begins, or the one with the fewest letters to change, of which there may be few.
func closest(name string, names []string) string {
	names = slices.Sorted(slices.Values(names))
	plain := plainName(name)
	for _, n := range names {
		if plainName(n) == plain {
			return n
		}
	}
	best, least := "", max(1, len(name)/3)+1
	for _, n := range names {
		if d := keyer.Edits([]rune(name), []rune(n), least); d < least {
			best, least = n, d
		}
	}
	const enough = 4
	if best == "" && len(name) >= enough {
		for _, n := range names {
			if strings.HasPrefix(n, name) {
				return n
			}
		}
	}
	return best
}
