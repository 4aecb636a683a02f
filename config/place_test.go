package config

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestAGG4_places marks a character of an expression with § in the file, for each way of
// writing it, and asks for its place in the string that the YAML stands for.
func TestAGG4_places(t *testing.T) {
	for _, tt := range []struct{ name, yaml string }{
		{"plain", "    - match: node.id == §x\n"},
		{"plain, at its beginning", "    - match: §node.id\n"},
		{"plain in a flow list", "    - scope: [node.id, a.§b ]\n"},
		{"plain in a flow mapping", "    - node: {id: a, cluster: b.§c}\n"},
		{"plain before a comment", "    - match: a.§b # no part of it\n"},
		{"plain over lines", "    - match: a ==\n        b &&\n        c.§d\n"},
		{"plain over lines, from the next line", "    - match:\n        a == b &&\n          c §== d\n"},
		{"plain over lines with blanks at their ends", "    - match: a ==   \n          \n\n        b.§c\n"},
		{"plain over lines in a flow list", "    - scope: [a,\n        b +\n   §c, d]\n"},
		{"plain with other letters before it", "    - match: größe 世界 🙂 §== x\n"},
		{"plain key with other letters", "    - node: {metadata: {größe: a.§b}}\n"},
		{"double quotes", "    - match: \"node.id == §x\"\n"},
		{"double quotes with escapes", `    - match: "\"\x41\u00e4\U0001F600\\ \t\n\" == §x"` + "\n"},
		{"double quotes, at an escape", `    - match: "a == §\"x\""` + "\n"},
		{"double quotes over lines", "    - match: \"a ==\n        b\n\n        == §c\"\n"},
		{"double quotes with an escaped break", "    - match: \"a == \\\n        b\\\n        == §c\"\n"},
		{"double quotes with an escaped break before empty lines", "    - match: \"a == \\\n\n\n        §c\"\n"},
		{"double quotes with an escaped blank", "    - match: \"a \\\n        \\  == §c\"\n"},
		{"single quotes", "    - match: 'node.id == §x'\n"},
		{"single quotes with quotes", "    - match: '''a'' == ''b'' == §x'\n"},
		{"single quotes, at a quote", "    - match: 'a == §''b'''\n"},
		{"single quotes over lines", "    - match: 'a ==\n\n\n        b == §c'\n"},
		{"quotes in a flow list", "    - scope: ['f(a, b)', \"g(\\\"k\\\", §c)\", d]\n"},
		{"literal", "    - match: |\n        a == b\n          && c.§d\n        && e\n"},
		{"literal, first line", "    - match: |\n        a == §b\n        c\n"},
		{"literal, stripped", "    - match: |-\n        a == b &&\n        c.§d\n"},
		{"literal, kept", "    - match: |+\n        a == b &&\n        c.§d\n\n\n"},
		{"literal, after empty lines", "    - match: |\n\n\n        a &&\n\n        §b\n"},
		{"literal with an indicator", "    - match: |2\n          a &&\n        §b\n"},
		{"literal with an indicator and chomping", "    - match: |-4 # and a comment\n            a &&\n          §b\n"},
		{"literal with blanks at a line's end", "    - match: |\n        a &&  \n          \n        §b\n"},
		{"literal in a list", "    - scope:\n        - |\n          a +\n          §b\n"},
		{"literal at the end of the file", "    - match: |\n        a &&\n        §b"},
		{"folded", "    - match: >\n        a ==\n        b\n\n        && §c\n"},
		{"folded, indented further", "    - match: >-\n        a ==\n          b ==\n          c\n        && §d\n"},
		{"folded, empty lines around what is indented further", "    - match: >\n        a\n\n          b\n\n\n        && §d\n"},
		{"folded with an indicator", "    - match: >2\n          a\n        §b\n"},
		{"anchor", "    - match: &a node.id == §x\n"},
		{"anchor and tag", "    - match: !!str &a  'node.id == §x'\n"},
		{"anchor of a block", "    - match: &a |\n        a &&\n        §b\n"},
		{"anchor before the line", "    - match: &a\n        # a comment\n        a && §b\n"},
	} {
		for end, breaks := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
			t.Run(tt.name+" "+end, func(t *testing.T) {
				head := "# größe\naggregation:\n  rules:\n"
				testPlace(t, head+tt.yaml, breaks)
				testPlace(t, "\ufeff"+head+tt.yaml, breaks)
			})
		}
	}
}

func testPlace(t *testing.T, marked, breaks string) {
	t.Helper()
	before, _, _ := strings.Cut(strings.TrimPrefix(marked, "\ufeff"), "§")
	want := point{line: 1 + strings.Count(before, "\n"), column: 1 + utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:])}
	// Where the string has the mark is where the character is that it stands before.
	path, value := markedString(t, strings.ReplaceAll(marked, "\n", breaks))
	head, _, _ := strings.Cut(value, "§")
	line, column := 1+strings.Count(head, "\n"), 1+utf8.RuneCountInString(head[strings.LastIndex(head, "\n")+1:])

	d := decoder{file: "f", from: make(origins)}
	d.decode([]byte(strings.ReplaceAll(strings.Replace(marked, "§", "", 1), "\n", breaks)), Default())
	if len(d.errs) > 0 {
		t.Fatal(d.errs)
	}
	at, ok := d.texts.place(path, line, column)
	if !ok || at.line != want.line || at.column != want.column {
		t.Errorf("%d:%d of %q is at %+v, %v, want %+v", line, column, value, at, ok, want)
	}
}

// markedString gives the string of the file that has the mark.
func markedString(t *testing.T, data string) (path, value string) {
	t.Helper()
	d := decoder{file: "f", from: make(origins)}
	d.decode([]byte(data), Default())
	for path, n := range d.texts.nodes {
		if strings.Contains(n.Value, "§") {
			return path, n.Value
		}
	}
	t.Fatalf("no mark: %v", d.errs)
	return "", ""
}

// TestAGG4_placesOfAliases: an alias leads to where the text is.
func TestAGG4_placesOfAliases(t *testing.T) {
	const data = `aggregation:
  rules:
    - {name: a, match: &m "a == \"b\" && c", scope: [&p 'x.y']}
    - {name: b, match: *m, scope: [*p]}
    - {<<: {match: a.b}, scope: []}
`
	d := decoder{file: "f", from: make(origins)}
	d.decode([]byte(data), Default())
	for _, tt := range []struct {
		path   string
		column int
		want   string
	}{
		{"aggregation.rules[0].match", 13, "3:42"},
		{"aggregation.rules[1].match", 13, "3:42"},
		{"aggregation.rules[1].scope[0]", 3, "3:60"},
		{"aggregation.rules[2].match", 3, "5:22"},
	} {
		at, ok := d.texts.place(tt.path, 1, tt.column)
		if got := fmt.Sprintf("%d:%d", at.line, at.column); !ok || got != tt.want {
			t.Errorf("%s is at %s, %v, want %s", tt.path, got, ok, tt.want)
		}
	}
}

// TestAGG4_placesBehindTheEnd: what is missing is missing behind the last word.
func TestAGG4_placesBehindTheEnd(t *testing.T) {
	for yaml, want := range map[string]point{
		"a: x &&\n":                 {1, 8, 0},
		"a: 'x &&'\n":               {1, 9, 0},
		"a: |\n  x\n  y &&\n\nb: c": {3, 7, 0},
		"a: \"x \\u0026\"\n":        {1, 13, 0},
		"a: 'x'''\n":                {1, 8, 0},
	} {
		d := decoder{file: "f", from: make(origins), texts: newScalars([]byte(yaml))}
		root, bad := parseTree("f", []byte(yaml))
		if bad != nil {
			t.Fatal(bad)
		}
		d.texts.nodes["a"] = root.Content[1]
		for _, line := range []int{strings.Count(root.Content[1].Value, "\n") + 1, 7} {
			at, ok := d.texts.place("a", line, 100)
			if !ok || at.line != want.line || at.column != want.column {
				t.Errorf("%q: %+v, %v, want %+v", yaml, at, ok, want)
			}
		}
	}
}

func TestAGG4_placesUnknown(t *testing.T) {
	s := newScalars([]byte("a: x\n"))
	root, _ := parseTree("f", []byte("a: y\n"))
	s.nodes["a"] = root.Content[1]
	s.nodes["far"] = root.Content[1]
	for _, tt := range []struct {
		of           *scalars
		path         string
		line, column int
	}{{nil, "a", 1, 1}, {s, "b", 1, 1}, {s, "a", 0, 1}, {s, "a", 1, 0}, {s, "a", 1, 1}} {
		if at, ok := tt.of.place(tt.path, tt.line, tt.column); ok {
			t.Errorf("%s:%d:%d is at %+v", tt.path, tt.line, tt.column, at)
		}
	}
}

// FuzzPlace: every character of every string that a file can hold has a place, and
// nothing else than it stands there.
func FuzzPlace(f *testing.F) {
	for _, seed := range []string{"a", "'it''s'", `"\x41\n"`, "|\n  a\n  b", ">\n  a\n  b\n\n  c\n   d", "&a !!str x\n y", "\"a\\\n  b\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data := "k: " + text
		root, bad := parseTree("f", []byte(data))
		if bad != nil || len(root.Content) != 2 || scalarTag(root.Content[1]) != "!!str" {
			return
		}
		s := newScalars([]byte(data))
		s.nodes["k"] = root.Content[1]
		at, ok := s.place("k", 1, 1)
		// What ends an anchor's name, and which breaks count, is a matter of parsers.
		if !ok && !strings.ContainsAny(data, "&!\u0085\u2028\u2029\ufeff") && strings.Trim(root.Content[1].Value, " \t\n") != "" {
			t.Fatalf("%q: %q has no place", data, root.Content[1].Value)
		}
		if !ok {
			return
		}
		if at.line < 1 || at.line > len(s.lines) || at.column < 1 || at.column > len(s.lines[at.line-1])+1 {
			t.Fatalf("%q: %+v", data, at)
		}
	})
}
