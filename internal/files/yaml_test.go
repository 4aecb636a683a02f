package files

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestConvert(t *testing.T) {
	for name, tt := range map[string]struct{ yaml, json string }{
		"scalars":    {"[a, 'b', 1, 0x10, 1_000, -3, 18446744073709551615, 1.5, true, yes, ~, '', 2026-01-02, !!str 7]", `["a","b",1,16,1000,-3,18446744073709551615,1.5,true,"yes",null,"","2026-01-02","7"]`},
		"floats":     {"[.nan, .inf, -.inf, 1e3]", `["NaN","Infinity","-Infinity",1000]`},
		"binary":     {"[!!binary 'YWJj\n  ZGVm']", `["YWJjZGVm"]`},
		"empty":      {"{a: [], b: {}, c: }", `{"a":[],"b":{},"c":null}`},
		"keys":       {"{1: a, true: b, \"x y\": c}", `{"1":"a","true":"b","x y":"c"}`},
		"aliases":    {"a: &x {y: 1}\nb: *x\nc: [*x]\n", `{"a":{"y":1},"b":{"y":1},"c":[{"y":1}]}`},
		"merge keys": {"a: &a {x: 1, y: 2}\nb: &b {<<: *a, y: 3}\nc: {<<: [*b, {x: 9, z: 4}], w: 5}\n", `{"a":{"x":1,"y":2},"b":{"y":3,"x":1},"c":{"w":5,"y":3,"x":1,"z":4}}`},
		"key twice":  {"{a: 1, a: 2}", `{"a":1,"a":2}`},
		"block text": {"a: |\n  x\n  \"y\"\n", `{"a":"x\n\"y\"\n"}`},
	} {
		text, _, bad := YAMLToJSON([]byte(tt.yaml), 1<<10)
		if bad != nil {
			t.Errorf("%s: %v", name, bad)
			continue
		}
		if got := strings.ReplaceAll(string(text), "\n", ""); got != tt.json {
			t.Errorf("%s: %s, want %s", name, got, tt.json)
		}
	}
}

// TestBombs: a few lines that stand for a lot are refused in no time, however large
// a file may be.
func TestBombs(t *testing.T) {
	aliases, merges := "a0: &a0 [x]\n", "a0: &a0 {x: y}\n"
	for i := range 60 {
		aliases += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
		merges += fmt.Sprintf("a%d: &a%d {<<: [*a%d, *a%d]}\n", i+1, i+1, i, i)
	}
	for text, want := range map[string]string{
		aliases:                   "too large once its aliases are followed",
		merges:                    "too large or too deep once its merge keys are followed",
		"a: &a [*a]\n":            "nested too deep",
		"a: &a {<<: *a}\n":        "too large or too deep once its merge keys are followed",
		strings.Repeat("[", 2000): "did not find expected node content",
		strings.Repeat("[", 2000) + strings.Repeat("]", 2000): "nested too deep",
	} {
		if _, _, bad := YAMLToJSON([]byte(text), 64<<20); bad == nil || bad.Message != want {
			t.Errorf("%.40s: %v, want %s", text, bad, want)
		}
	}
}

// TestPlaces: each line of the JSON knows the key or value that it comes from.
func TestPlaces(t *testing.T) {
	const text = "a: [x,\n  yy]\nb:\n  c: &v z\n  d: *v\n"
	data, places, bad := YAMLToJSON([]byte(text), 1<<10)
	if bad != nil {
		t.Fatal(bad)
	}
	want := map[string][2]int{
		`"a":`: {1, 1}, `"x"`: {1, 5}, `,"yy"`: {2, 3}, `,"b":`: {3, 1}, `"c":`: {4, 3}, `,"d":`: {5, 3},
		`"z"`: {4, 6}, // where the alias leads, too
	}
	found := 0
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		w, ok := want[line]
		if !ok {
			continue
		}
		found++
		if l, c := places.Of(i + 1); l != w[0] || c != w[1] {
			t.Errorf("%s is at %d:%d, want %v", line, l, c, w)
		}
	}
	if found != len(want)+1 {
		t.Errorf("%d lines found in\n%s", found, data)
	}
	for _, line := range []int{0, -1, 1000} {
		if l, c := places.Of(line); l != 0 || c != 0 {
			t.Errorf("line %d is at %d:%d", line, l, c)
		}
	}
}

func TestFromNode(t *testing.T) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte("x: 1\nnode:\n  id: a\n"), &document); err != nil {
		t.Fatal(err)
	}
	n := document.Content[0].Content[3]
	data, places, bad := YAMLNodeToJSON(n, 100)
	if bad != nil || strings.ReplaceAll(string(data), "\n", "") != `{"id":"a"}` {
		t.Fatalf("%s, %v", data, bad)
	}
	if l, c := places.Of(2); l != 3 || c != 3 {
		t.Errorf("the key is at %d:%d", l, c)
	}
	if _, _, bad = YAMLNodeToJSON(n, 5); bad == nil || bad.Error() != "3:3: too large once its aliases are followed" {
		t.Errorf("error %v", bad)
	}
}

func TestError(t *testing.T) {
	for text, want := range map[string]string{
		"":                "is empty",
		"a: [":            "1: did not find expected node content",
		"a: !mine x":      "1:4: a tag that JSON has no type for",
		"a: 1\n---\nb: 2": "2:1: a second document: a file holds one",
	} {
		if _, _, bad := YAMLToJSON([]byte(text), 100); bad == nil || bad.Error() != want {
			t.Errorf("%q: %v, want %s", text, bad, want)
		}
	}
}
