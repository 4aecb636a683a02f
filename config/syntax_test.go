package config

import "testing"

// TestSyntaxErrorLines holds the parser to the way in which it counts lines, and
// makes sure that no error is without one.
func TestSyntaxErrorLines(t *testing.T) {
	for data, want := range map[string]string{
		"a: [b":                  "f:1: did not find expected ',' or ']'",
		"x: 1\na: [b,\nc\n":      "f:2: did not find expected ',' or ']'",
		"x: 1\na: {b: c\nd: e\n": "f:2: did not find expected ',' or '}'",
		"x: 1\n- a\n":            "f:2: did not find expected key",
		"x:\n  - a\n  b: c\n":    "f:2: did not find expected '-' indicator",
		"x: 1\ny: !a!b c\n":      "f:2: found undefined tag handle",
		"}":                      "f:1: did not find expected node content",
		"a: \"x":                 "f:1: found unexpected end of stream",
		"a: b: c":                "f:1: mapping values are not allowed in this context",
		"x: 1\na: b: c\n":        "f:2: mapping values are not allowed in this context",
		"\n@a":                   "f:2: found character that cannot start any token",
		"x: 1\na: *b\n":          "f:2:4: unknown anchor 'b' referenced",
		"x: 1\na: \x01\n":        "f:2: control characters are not allowed",
		"x: 1\na: \xff\n":        "f:2: invalid leading UTF-8 octet",
	} {
		_, err := Parse("f", []byte(data))
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", data, err, want)
		}
	}
}

func TestTagsThatDoNotFit(t *testing.T) {
	for data, want := range map[string]string{
		"upstreams: !!seq x":            "f:1:12: upstreams: expected a list, got a value tagged !!seq",
		"upstreams: []\nlog: !!map foo": "f:2:6: log: expected a mapping, got a value tagged !!map",
		"node: {id: !!str {a: b}}":      "f:1:12: node.id: expected a string, got a value tagged !!str",
		"node: {id: !mine x}":           "f:1:12: node.id: expected a string, got a value tagged !mine",
		"cache: {idle: !mine 10m}":      "f:1:15: cache.idle: expected a duration such as 30s, 5ms or 1h30m, got a value tagged !mine",
		"? [a]\n: b":                    "f:1:3: expected a string as key, got a list",
	} {
		_, err := Parse("f", []byte(data))
		if err == nil {
			t.Errorf("%q is valid", data)
			continue
		}
		found := false
		if list, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range list.Unwrap() {
				found = found || e.Error() == want
			}
		}
		if !found {
			t.Errorf("%q: %v, want %s", data, err, want)
		}
	}
}
