package logs

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestOf_ACK7(t *testing.T) {
	long := "Proto constraint validation failed: " + strings.Repeat("x", 10_000) + ": value must be above 0"
	for _, tt := range []struct{ name, text, want string }{
		{"what is short stays", "no", "no"},
		{"what just fits stays", strings.Repeat("é", ReasonBytes), strings.Repeat("é", ReasonBytes)},
		{"ACK-7 head and tail stay", long, long[:ReasonBytes] + fmt.Sprintf(" … (%d bytes left out) … ", len(long)-2*ReasonBytes) + long[len(long)-ReasonBytes:]},
		{"what is no UTF-8 is replaced", "a\xffb", "a\uFFFDb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Excerpt(tt.text, ReasonBytes); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A cut goes through no character, whatever its width.
func TestOf_Characters(t *testing.T) {
	for _, c := range []string{"a", "é", "…", "𝛂"} {
		for each := range 9 {
			text := strings.Repeat(c, 40)
			got := Excerpt(text, each)
			if !utf8.ValidString(got) || strings.ContainsRune(got, utf8.RuneError) {
				t.Errorf("%d bytes of each end of %q: %q", each, c, got)
			}
		}
	}
}

func TestHead_ABS2(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
		most             int
	}{
		{"ABS-2 what fits stays", "cause", "cause", 5},
		{"ABS-2 no longer than may be", "causes", "cause", 5},
		{"ABS-2 a cut goes through no character", "caé", "ca", 3},
		{"ABS-2 what is no UTF-8 is replaced, and the rest stays", "a\xffbcdef", "a\uFFFDbcd", 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Head(tt.text, tt.most); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
