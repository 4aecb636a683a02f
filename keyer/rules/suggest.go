package rules

import (
	"fmt"
	"slices"
	"strings"
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
		if d := distance(name, n); d < least {
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

// distance counts the letters to add, leave out, change, or exchange with their neighbour
// to make b of a.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	rows := make([][]int, len(from)+1)
	for i := range rows {
		rows[i] = make([]int, len(to)+1)
		rows[i][0] = i
	}
	for j := range to {
		rows[0][j+1] = j + 1
	}
	for i := 1; i <= len(from); i++ {
		for j := 1; j <= len(to); j++ {
			change := rows[i-1][j-1]
			if from[i-1] != to[j-1] {
				change++
			}
			rows[i][j] = min(change, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && from[i-1] == to[j-2] && from[i-2] == to[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(from)][len(to)]
}
