package docs

import (
	"strings"
	"testing"
)

// TestGlossary sees that each word has one row, in order.
func TestGlossary(t *testing.T) {
	var words []string
	for _, row := range cells(page(t, "docs/glossary.md")) {
		if len(row) != 4 {
			t.Errorf("%q is no row of a word, its meaning, the specification's term and a place in the code", row)
			continue
		}
		word := strings.ToLower(row[0])
		if len(words) > 0 && words[len(words)-1] >= word {
			t.Errorf("%q does not belong behind %q", word, words[len(words)-1])
		}
		words = append(words, word)
	}
}
