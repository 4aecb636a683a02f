package config

import (
	"strings"
	"testing"
)

func TestBalanced(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "a": true, "f(a, [b], {c: d})": true, `f(")")`: true, `"\""`: true, `'"'`: true, `f('\'')`: true,
		"f(a": false, "b)": false, "[a)": false, `"a`: false, `'a\'`: false, "a]": false, "{": false,
	} {
		if got := balanced(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestHintsElsewhere: YAML that is wrong outside of rules is no matter of quotes around
// expressions.
func TestHintsElsewhere(t *testing.T) {
	for data, want := range map[string]string{
		"server:\n  listen: \"a\" b\n":                                                  "f:2: did not find expected key",
		"aggregation:\n  rules:\n    - name: a\n  otherwise: \"share\" it\n":            "f:2: did not find expected key",
		"aggregation:\n  rules: []\n  linger: {\"a\" b}\n":                              "f:3: did not find expected ',' or '}'",
		"rules:\n- a\nnode: {id: \"a\" b}\n":                                            "f:3: did not find expected ',' or '}'",
		"aggregation:\n  rules:\n    - name: a\n      upstream: @b\n":                   "f:4: found character that cannot start any token",
		"aggregation:\n  rules:\n  # a comment\n\n  - match: \"a\" == b\n":              "f:5: did not find expected key" + quoteExpression,
		"aggregation:\n  rules: [{scope: [a.split(\"/\")[3]]}]\n":                       "f:2: did not find expected ',' or ']'" + quoteOrDashes,
		"aggregation: {rules: [{scope: [a.split(\"/\")[3]]}]}\n":                        "f:1: did not find expected ',' or ']'" + quoteExpression,
		"aggregation:\n  rules:\n  - scope: [\n      a(\"b\"),\n      c[\"d\"],\n    ]": "f:3: did not find expected ',' or ']'" + quoteOrDashes,
	} {
		_, err := Parse("f", []byte(data))
		if err == nil {
			t.Errorf("%q is valid", data)
			continue
		}
		if first, _, _ := strings.Cut(err.Error(), "\n"); first != want {
			t.Errorf("%q: %s, want %s", data, first, want)
		}
	}
}
