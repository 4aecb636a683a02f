package keyer_test

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/keyer"
)

func TestEdits(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"node", "node", 0},
		{"nod", "node", 1},
		{"nodes", "node", 1},
		{"nude", "node", 1},
		{"ndoe", "node", 1},
		{"nöde", "node", 1}, // in characters
		{"clutser", "clusters", 2},
		{"", "abc", 3},
	} {
		if got := keyer.Edits([]rune(tt.a), []rune(tt.b), 10); got != tt.want {
			t.Errorf("%q and %q are %d apart, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := keyer.Edits([]rune(tt.b), []rune(tt.a), 10); got != tt.want {
			t.Errorf("%q and %q are %d apart, want %d", tt.b, tt.a, got, tt.want)
		}
	}
	if got := keyer.Edits([]byte("nöde"), []byte("node"), 10); got != 2 {
		t.Errorf("in bytes they are %d apart, want 2", got)
	}
	if got := keyer.Edits(make([]byte, 1<<20), []byte("node"), 3); got < 3 {
		t.Errorf("a long word is %d away", got)
	}
}
