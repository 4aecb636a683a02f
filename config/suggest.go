package config

import (
	"fmt"
	"strings"
)

// unknown is the message for a key that is not among known, and the key that
// was probably meant, "" if none is near.
func unknown(key string, known []string) (message, meant string) {
	if meant = nearest(key, known, min(3, max(1, len(key)/3))); meant != "" {
		return fmt.Sprintf("unknown key, did you mean %q?", meant), meant
	}
	return "unknown key, known here: " + strings.Join(known, ", "), ""
}

// nearest gives the candidate that key is most likely a misspelling of: the one
// with the fewest edits, "" if all need more than most. Case and the difference
// between "-" and "_" are no edits.
func nearest(key string, candidates []string, most int) string {
	fold := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	best, least := "", most+1
	for _, c := range candidates {
		if d := edits(fold(key), fold(c), least); d < least {
			best, least = c, d
		}
	}
	return best
}

// edits counts the insertions, deletions, replacements and swaps of neighbours
// that make b of a (optimal string alignment). It gives limit or more without
// counting where the lengths alone need that many, so that a key as long as a
// file costs nothing.
func edits(a, b string, limit int) int {
	if diff := len(a) - len(b); diff >= limit || -diff >= limit {
		return limit
	}
	var before, last []int // the rows for a[:i-2] and a[:i-1]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
