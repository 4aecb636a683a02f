package digest

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestACK4_Label(t *testing.T) {
	for version, want := range map[string]string{
		"":                              "",
		"7":                             "7/",
		"2026-11-22T10:00:00Z/12":       "2026-11-22T10:00:00Z/12/",
		"a\nb\x00c\xffd":                "a_b_c_d/",
		strings.Repeat("v", maxLabel+1): strings.Repeat("v", maxLabel) + "/",
	} {
		if got := Label(version); got != want {
			t.Errorf("%q before a digest is %q, want %q", version, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		version := string(rapid.SliceOfN(rapid.Byte(), 0, 2*maxLabel).Draw(t, "version"))
		label, sum := Label(version), Of(rapid.String().Draw(t, "content"))
		shown := sum.Behind(label)
		if len(label) > maxLabel+1 || !utf8.ValidString(label) || strings.ContainsFunc(label, unicode.IsControl) {
			t.Errorf("%q before a digest is %q", version, label)
		}
		if Plain(shown) != sum.String() || Plain(sum.String()) != sum.String() || shown != label+sum.String() {
			t.Errorf("%q is %q without its label", shown, Plain(shown))
		}
	})
}

func TestACK4_Plain(t *testing.T) {
	d := Of("x").String()
	for _, other := range []string{"", "/", "v1", "a/b", "x" + d, d + "/", "a/" + d[1:], "a/" + strings.ToUpper(d), "a/" + d + "0", "/x" + d} {
		if got := Plain(other); got != other {
			t.Errorf("%q became %q", other, got)
		}
	}
	if got := Plain("a/b/" + d); got != d {
		t.Errorf("%q without its label", got)
	}
}

func TestACK4_JoinWithoutLabels(t *testing.T) {
	a, b := Of("a").String(), Of("b").String()
	if Join([]string{"1/" + a, "2/" + b}) != Join([]string{b, "3/" + a}) {
		t.Error("labels count where parts are joined")
	}
	if got := Join([]string{"1/" + a}); got != "1/"+a {
		t.Errorf("one part is %q", got)
	}
}

func TestACK4_BehindAllocatesOnce(t *testing.T) {
	sum, label := Of("x"), Label(strings.Repeat("v", maxLabel))
	if n := testing.AllocsPerRun(100, func() { _ = sum.Behind(label) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
