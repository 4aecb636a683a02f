package keyer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

type constraints = discoveryv3.DynamicParameterConstraints

func is(key, value string) *constraints {
	return &constraints{Type: &discoveryv3.DynamicParameterConstraints_Constraint{
		Constraint: &discoveryv3.DynamicParameterConstraints_SingleConstraint{
			Key: key, ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: value},
		},
	}}
}

func has(key string) *constraints {
	return &constraints{Type: &discoveryv3.DynamicParameterConstraints_Constraint{
		Constraint: &discoveryv3.DynamicParameterConstraints_SingleConstraint{
			Key: key, ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists_{
				Exists: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists{},
			},
		},
	}}
}

func all(list ...*constraints) *constraints {
	return &constraints{Type: &discoveryv3.DynamicParameterConstraints_AndConstraints{
		AndConstraints: &discoveryv3.DynamicParameterConstraints_ConstraintList{Constraints: list},
	}}
}

func anyOf(list ...*constraints) *constraints {
	return &constraints{Type: &discoveryv3.DynamicParameterConstraints_OrConstraints{
		OrConstraints: &discoveryv3.DynamicParameterConstraints_ConstraintList{Constraints: list},
	}}
}

func no(c *constraints) *constraints {
	return &constraints{Type: &discoveryv3.DynamicParameterConstraints_NotConstraints{NotConstraints: c}}
}

func encoded(tb testing.TB, c *constraints) []byte {
	tb.Helper()
	b, err := proto.Marshal(c)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func parsed(tb testing.TB, c *constraints) *Constraints {
	tb.Helper()
	p, err := ParseConstraints(encoded(tb, c))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func params(pairs string) map[string]string {
	p := make(map[string]string)
	for pair := range strings.FieldsSeq(pairs) {
		key, value, _ := strings.Cut(pair, "=")
		p[key] = value
	}
	return p
}

// The examples of the proposal: which parameters each variant is for.
func TestDYN1ProposalExamples(t *testing.T) {
	prod, test := is("env", "prod"), is("env", "test")
	v1, v2 := is("version", "v1"), is("version", "v2")
	for _, test := range []struct {
		name     string
		variants map[string]*constraints
		matches  map[string]string // parameters to the variants that match
	}{
		{
			"DYN-1 basic usage", map[string]*constraints{"prod": prod, "test": test},
			map[string]string{"env=prod": "prod", "env=test": "test", "env=qa": "", "": ""},
		},
		{
			"DYN-1 parameters without a constraint prevent nothing", map[string]*constraints{"prod": prod, "test": test},
			map[string]string{"env=prod version=v1": "prod", "env=prod version=v2": "prod", "env=test version=v1": "test"},
		},
		{
			"DYN-1 a variant without constraints is for everybody", map[string]*constraints{"only": {}},
			map[string]string{"": "only", "env=prod": "only", "env=test version=v1": "only"},
		},
		{
			"DYN-1 a key is added", map[string]*constraints{"prod1": all(prod, v1), "prod2": all(prod, v2), "test": test},
			map[string]string{"env=prod version=v1": "prod1", "env=prod version=v2": "prod2", "env=test version=v2": "test"},
		},
		{
			"DYN-1 the old variant is ambiguous with one for a new key", map[string]*constraints{"old": prod, "new": all(prod, v1)},
			map[string]string{"env=prod": "old", "env=prod version=v1": "new old"},
		},
		{
			"DYN-1 a default for clients without the key", map[string]*constraints{"old": all(prod, no(has("version"))), "new": all(prod, v1)},
			map[string]string{"env=prod": "old", "env=prod version=v1": "new", "env=prod version=v2": ""},
		},
		{
			"DYN-1 overlapping values", map[string]*constraints{
				"a": anyOf(prod, test), "b": anyOf(is("env", "qa"), test),
			},
			map[string]string{"env=prod": "a", "env=qa": "b", "env=test": "a b"},
		},
		{
			"DYN-1 four variants for nine clients", map[string]*constraints{
				"--": all(no(prod), no(v1)), "p-": all(prod, no(v1)), "-1": all(no(prod), v1), "p1": all(prod, v1),
			},
			map[string]string{
				"env=prod version=v1": "p1", "env=prod version=v2": "p-", "env=prod version=v3": "p-",
				"env=canary version=v1": "-1", "env=canary version=v2": "--", "env=test version=v3": "--", "env=test version=v1": "-1",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for given, want := range test.matches {
				var got []string
				for _, name := range slices.Sorted(maps.Keys(test.variants)) {
					if parsed(t, test.variants[name]).Match(params(given)) {
						got = append(got, name)
					}
				}
				if strings.Join(got, " ") != want {
					t.Errorf("{%s} matches %q, want %q", given, got, want)
				}
			}
		})
	}
}

func TestDYN1CanonicalConstraints(t *testing.T) {
	a, b, c := is("a", "1"), has("b"), no(is("c", ""))
	for _, test := range []struct {
		name string
		from *constraints
		want string
	}{
		{"DYN-1 nothing", &constraints{}, ""},
		{"DYN-1 no list of all", all(), ""},
		{"DYN-1 a value", a, `"a"="1"`},
		{"DYN-1 an empty value is not existence", is("a", ""), `"a"=""`},
		{"DYN-1 existence", b, `"b"`},
		{"DYN-1 the order does not matter", all(c, b, a), `and("a"="1","b",not("c"=""))`},
		{"DYN-1 nor do repetitions", anyOf(b, a, b), `or("a"="1","b")`},
		{"DYN-1 nor lists in lists", all(all(b), all(a, all(c))), `and("a"="1","b",not("c"=""))`},
		{"DYN-1 a list of one is that one", anyOf(all(a)), `"a"="1"`},
		{"DYN-1 other lists stay", anyOf(all(b, a), c), `or(and("a"="1","b"),not("c"=""))`},
		{"DYN-1 what matches nothing", no(&constraints{}), `not(and())`},
		{"DYN-1 an empty choice", anyOf(), `or()`},
		{"DYN-1 quotes in keys", is(`a"="1`, `,`), `"a\"=\"1"=","`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := parsed(t, test.from).Key(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestDYN1BadConstraints(t *testing.T) {
	deep := is("a", "1")
	for range maxConstraintDepth + 1 {
		deep = no(deep)
	}
	for _, test := range []struct {
		name string
		from []byte
		want string
	}{
		{"DYN-1 neither value nor exists", []byte{0x0a, 0x03, 0x0a, 0x01, 'a'}, "says neither value nor exists"},
		{"DYN-1 too deep", encoded(t, deep), "nested deeper than 32 levels"},
		{"DYN-1 too large", encoded(t, is("a", strings.Repeat("x", maxConstraintBytes))), "at most 16384 are taken"},
		{"DYN-1 malformed", []byte{0x0a, 0x7f}, "malformed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := ParseConstraints(test.from); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestDYN1OPS5Parameters(t *testing.T) {
	many := make(map[string]string)
	for i := range maxParameters + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for _, test := range []struct {
		name string
		from map[string]string
		want string
	}{
		{"OPS-5 none", nil, ""},
		{"OPS-5 some", params("env=prod version=v1"), ""},
		{"OPS-5 too many", many, "65 dynamic parameters, at most 64 are served"},
		{"OPS-5 too large", map[string]string{"a": strings.Repeat("x", maxParameterBytes)}, "at most 4096 are served"},
		{"OPS-5 no key", map[string]string{"": "x"}, "without a key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := CheckParameters(test.from)
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// drawConstraints draws a tree over few keys and values.
func drawConstraints(t *rapid.T, depth int) *constraints {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 {
		kind %= 3
	}
	key := rapid.SampledFrom([]string{"a", "b", `"`}).Draw(t, "key")
	list := func() []*constraints {
		l := make([]*constraints, rapid.IntRange(0, 3).Draw(t, "n"))
		for i := range l {
			l[i] = drawConstraints(t, depth-1)
		}
		return l
	}
	switch kind {
	case 0:
		return &constraints{}
	case 1:
		return is(key, rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "value"))
	case 2:
		return has(key)
	case 3:
		return all(list()...)
	case 4:
		return anyOf(list()...)
	default:
		return no(drawConstraints(t, depth-1))
	}
}

// shuffled writes the same tree in another way.
func shuffled(t *rapid.T, c *constraints) *constraints {
	mix := func(list []*constraints, wrap func(...*constraints) *constraints) *constraints {
		var out []*constraints
		for _, o := range list {
			o = shuffled(t, o)
			if rapid.Bool().Draw(t, "wrap") {
				o = wrap(o)
			}
			out = append(out, o)
		}
		if len(out) > 0 && rapid.Bool().Draw(t, "again") {
			out = append(out, out[0])
		}
		return wrap(rapid.Permutation(out).Draw(t, "order")...)
	}
	switch k := c.GetType().(type) {
	case *discoveryv3.DynamicParameterConstraints_AndConstraints:
		return mix(k.AndConstraints.GetConstraints(), all)
	case *discoveryv3.DynamicParameterConstraints_OrConstraints:
		return mix(k.OrConstraints.GetConstraints(), anyOf)
	case *discoveryv3.DynamicParameterConstraints_NotConstraints:
		return no(shuffled(t, k.NotConstraints))
	default:
		return c
	}
}

// matches is the meaning of constraints, word for word.
func matches(c *constraints, p map[string]string) bool {
	of := func(o *constraints) bool { return matches(o, p) }
	switch k := c.GetType().(type) {
	case *discoveryv3.DynamicParameterConstraints_Constraint:
		value, ok := p[k.Constraint.GetKey()]
		if k.Constraint.GetExists() != nil {
			return ok
		}
		return ok && value == k.Constraint.GetValue()
	case *discoveryv3.DynamicParameterConstraints_AndConstraints:
		return !slices.ContainsFunc(k.AndConstraints.GetConstraints(), func(o *constraints) bool { return !of(o) })
	case *discoveryv3.DynamicParameterConstraints_OrConstraints:
		return slices.ContainsFunc(k.OrConstraints.GetConstraints(), of)
	case *discoveryv3.DynamicParameterConstraints_NotConstraints:
		return !of(k.NotConstraints)
	default:
		return true
	}
}

func TestDYN1ConstraintProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawConstraints(rt, 3)
		p := parsed(t, c)
		for _, given := range []string{"", "a=", "a=1", "a=2", "b=1", "a=1 b=2", `"=1`, `a=1 b= "=2`} {
			if got, want := p.Match(params(given)), matches(c, params(given)); got != want {
				rt.Fatalf("%v matches {%s}: %t, want %t", c, given, got, want)
			}
		}
		if again := parsed(t, shuffled(rt, c)); again.Key() != p.Key() {
			rt.Fatalf("the same tree is %s and %s", p.Key(), again.Key())
		}
		o := drawConstraints(rt, 3)
		if q := parsed(t, o); q.Key() == p.Key() {
			for _, given := range []string{"", "a=", "a=1", "a=2", "b=1", "a=1 b=2", `"=1`} {
				if q.Match(params(given)) != p.Match(params(given)) {
					rt.Fatalf("%v and %v are both %s", c, o, p.Key())
				}
			}
		}
	})
}

func FuzzConstraints(f *testing.F) {
	for _, c := range []*constraints{{}, is("a", "1"), all(is("a", "1"), no(has("b"))), anyOf()} {
		f.Add(encoded(f, c))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseConstraints(b)
		if err != nil {
			return
		}
		raw := new(constraints)
		if err := proto.Unmarshal(b, raw); err != nil {
			t.Fatalf("taken, but malformed: %v", err)
		}
		for _, given := range []string{"", "a=1", "a=1 b=2"} {
			if c.Match(params(given)) != matches(raw, params(given)) {
				t.Fatalf("%s is wrong about {%s}", c.Key(), given)
			}
		}
	})
}
