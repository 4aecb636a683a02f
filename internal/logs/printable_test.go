package logs

import "testing"

func TestPrintable(t *testing.T) {
	for text, want := range map[string][2]string{
		"":                   {"", ""},
		"größe 5":            {"größe 5", "größe 5"},
		"a\x1b[31mb":         {`"a\x1b[31mb"`, `a\x1b[31mb`},
		"a\nb\tc":            {`"a\nb\tc"`, "a\nb\tc"},
		"a\r\"b\"":           {`"a\r\"b\""`, `a\r"b"`},
		"a\u009b31m\u202e":   {`"a\u009b31m\u202e"`, `a\u009b31m\u202e`},
		"a\xff\x7f and more": {`"a\xff\x7f and more"`, `a\xff\x7f and more`},
	} {
		if got := [2]string{Printable(text), PrintableLines(text)}; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
