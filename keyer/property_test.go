package keyer_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// unit is one character of a component with all its spellings, the canonical
// one first.
type unit []string

// Units that every component may hold, and those with a meaning of their own in
// one of them.
var (
	plainUnits = []unit{
		{"a", "%61"}, {"B", "%42"}, {"7", "%37"}, {"~", "%7E", "%7e"}, {"-", "%2D", "%2d"}, {".", "%2E", "%2e"},
		{":", "%3A", "%3a"}, {"@", "%40"}, {"+", "%2B", "%2b"}, {",", "%2C", "%2c"}, {"*", "%2A", "%2a"},
		{"%2F", "%2f"}, {"%3F", "%3f"}, {"%23"}, {"%25"},
		{"%20", " "}, {"%22", `"`}, {"%5E", "%5e", "^"}, {"%00", "\x00"}, {"%C3%A9", "é", "%c3%a9"}, {"%FF", "%ff", "\xff"},
	}
	hostUnits  = slices.Concat(plainUnits, []unit{{"=", "%3D", "%3d"}, {"&", "%26"}, {"[", "%5B", "%5b"}, {"]", "%5D", "%5d"}})
	pathUnits  = slices.Concat(plainUnits, []unit{{"=", "%3D", "%3d"}, {"&", "%26"}, {"%5B", "%5b", "["}, {"%5D", "%5d", "]"}})
	keyUnits   = slices.Concat(plainUnits, []unit{{"/"}, {"?"}, {"%3D", "%3d"}, {"%26"}, {"%5B", "%5b", "["}})
	valueUnits = slices.Concat(keyUnits, []unit{{"="}})
	entryUnits = []unit{{"a", "%61"}, {"/", "%2F", "%2f"}, {"~"}, {":", "%3A"}, {"."}}
	startUnits = []unit{{"a", "%61"}, {"Z", "%5A", "%5a"}, {"0", "%30"}, {"_", "%5F"}, {"+", "%2B", "%2b"}}
)

type text []unit

func (x text) canonical() string {
	var b strings.Builder
	for _, u := range x {
		b.WriteString(u[0])
	}
	return b.String()
}

func (x text) spelled(t *rapid.T) string {
	var b strings.Builder
	for _, u := range x {
		b.WriteString(rapid.SampledFrom(u).Draw(t, "spelling"))
	}
	return b.String()
}

func drawText(t *rapid.T, label string, least int, units []unit) text {
	return rapid.SliceOfN(rapid.SampledFrom(units), least, 4).Draw(t, label)
}

// modelName is an xdstp name as the specification sees it: components.
type modelName struct {
	authority, typ text
	segments       []text
	keys, values   []text
	alt            *modelName
	entry          text
}

func drawName(t *rapid.T) modelName {
	m := modelName{
		authority: drawText(t, "authority", 0, hostUnits),
		typ:       drawText(t, "type", 1, pathUnits),
	}
	for range rapid.IntRange(1, 3).Draw(t, "segments") {
		m.segments = append(m.segments, drawText(t, "segment", 0, pathUnits))
	}
	if len(m.segments) == 1 && len(m.segments[0]) == 0 {
		m.segments[0] = text{{"x"}} // an empty id is refused
	}
	params := map[string]text{}
	for range rapid.IntRange(0, 10).Draw(t, "parameters") {
		start := drawText(t, "key starts", 1, startUnits)[:1]
		key := slices.Concat(start, drawText(t, "key", 0, keyUnits))
		params[key.canonical()] = key
	}
	for _, key := range slices.Sorted(maps.Keys(params)) {
		m.keys = append(m.keys, params[key])
		m.values = append(m.values, drawText(t, "value", 0, valueUnits))
	}
	return m
}

func (m modelName) canonical() string {
	var b strings.Builder
	b.WriteString("xdstp://" + m.authority.canonical() + "/" + m.typ.canonical())
	for _, segment := range m.segments {
		b.WriteString("/" + segment.canonical())
	}
	separator := "?"
	for i, key := range m.keys {
		b.WriteString(separator + key.canonical() + "=" + m.values[i].canonical())
		separator = "&"
	}
	return b.String()
}

// spelled gives any spelling of the name.
func (m modelName) spelled(t *rapid.T) string {
	var b strings.Builder
	b.WriteString(rapid.SampledFrom([]string{"xdstp://", "XDSTP://", "xDsTp://"}).Draw(t, "scheme"))
	b.WriteString(m.authority.spelled(t) + "/" + m.typ.spelled(t))
	for _, segment := range m.segments {
		b.WriteString("/" + segment.spelled(t))
	}
	var params []string
	for i, key := range m.keys {
		param := key.spelled(t)
		if len(m.values[i]) > 0 || rapid.Bool().Draw(t, "equals sign") {
			param += "=" + m.values[i].spelled(t)
		}
		params = append(params, param)
	}
	if len(params) > 0 || rapid.Bool().Draw(t, "question mark") {
		b.WriteString("?" + strings.Join(rapid.Permutation(params).Draw(t, "order"), "&"))
	}
	var directives []string
	if len(m.entry) > 0 {
		directives = append(directives, "entry="+m.entry.spelled(t))
	}
	if m.alt != nil {
		needed := rapid.SampledFrom([]string{"%#,", "%#,[]?/&=:", "%#,ab \x00"}).Draw(t, "encoded in the alternative")
		directives = append(directives, "alt="+encode(m.alt.spelled(t), func(c byte) bool { return strings.IndexByte(needed, c) < 0 }))
	}
	if len(directives) > 0 || rapid.Bool().Draw(t, "hash") {
		b.WriteString("#" + strings.Join(rapid.Permutation(directives).Draw(t, "order of directives"), ","))
	}
	return b.String()
}

// resolved gives the canonical form with directives.
func (m modelName) resolved() string {
	var directives []string
	if m.alt != nil {
		directives = append(directives, "alt="+encode(m.alt.resolved(), func(c byte) bool {
			return c < 0x80 && strings.IndexByte("%#,[]", c) < 0 // nothing else of a canonical name needs it
		}))
	}
	if len(m.entry) > 0 {
		directives = append(directives, "entry="+m.entry.canonical())
	}
	if len(directives) == 0 {
		return m.canonical()
	}
	return m.canonical() + "#" + strings.Join(directives, ",")
}

// encode percent-encodes the bytes of s that keep does not.
func encode(s string, keep func(byte) bool) string {
	var b strings.Builder
	for i := range len(s) {
		if keep(s[i]) {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}

// drawDirectives gives a name what directives it may have: alternatives of the
// same type, globs for globs, an entry for what is none.
func drawDirectives(t *rapid.T, m modelName, depth int) modelName {
	m.typ = slices.Concat(m.typ, text{{"T", "%54"}}) // "p.Collection" is no list collection's type
	glob := rapid.Bool().Draw(t, "glob")
	last := len(m.segments) - 1
	m.segments = slices.Clone(m.segments)
	if glob {
		m.segments[last] = text{{"*"}}
	} else if m.segments[last].canonical() == "*" {
		m.segments[last] = text{{"%2A", "%2a"}}
	}
	member := m.typ
	if !glob && rapid.Bool().Draw(t, "entry") {
		m.typ = slices.Concat(m.typ, text{{"Collection"}})
		m.entry = drawText(t, "entry name", 1, entryUnits)
	}
	if depth < 4 && rapid.Bool().Draw(t, "alternative") {
		alt := drawDirectives(t, drawName(t), depth+1)
		for alt.isGlob() != glob {
			alt = drawDirectives(t, drawName(t), depth+1)
		}
		alt.setMemberType(member)
		m.alt = &alt
	}
	return m
}

func (m modelName) isGlob() bool { return m.segments[len(m.segments)-1].canonical() == "*" }

// setMemberType gives a name and its alternatives the type of another name.
func (m *modelName) setMemberType(typ text) {
	m.typ = typ
	if len(m.entry) > 0 {
		m.typ = slices.Concat(typ, text{{"Collection"}})
	}
	if m.alt != nil {
		m.alt.setMemberType(typ)
	}
}

// alternatives gives the chain as far as names go.
func (m modelName) alternatives() []string {
	first := m
	first.alt = nil
	if m.alt == nil {
		return []string{first.resolved()}
	}
	return append([]string{first.resolved()}, m.alt.alternatives()...)
}

// NAME-6, LOC-5: whatever the spelling, a name's resolved form is that of its
// components, directives included, and leads to its alternatives.
func TestPropertyResolved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawDirectives(t, drawName(t), 0)
		name, want := m.spelled(t), m.resolved()
		n, err := keyer.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if n.Resolved() != want || n.Canonical() != m.canonical() {
			t.Fatalf("LOC-5: %q is resolved as %q, want %q", name, n.Resolved(), want)
		}
		var alternatives []string
		for alternative := range n.Alternatives() {
			alternatives = append(alternatives, alternative.Resolved())
		}
		if !slices.Equal(alternatives, m.alternatives()) {
			t.Fatalf("LOC-5: alternatives of %q: %q, want %q", name, alternatives, m.alternatives())
		}
		checkResolvedHolds(t, n)
		checkLocatorHolds(t, n)
	})
}

// NAME-1, NAME-3, NAME-8: whatever the spelling, the key is the canonical form
// of the components; so names are equal exactly if their components are.
func TestPropertyKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawDirectives(t, drawName(t), 0)
		name := m.spelled(t)
		key, err := keyer.Key(name)
		if err != nil {
			t.Fatal(err)
		}
		if want := m.canonical(); key != want {
			t.Fatalf("NAME-3: Key(%q) = %q, want %q", name, key, want)
		}
		checkKeyHolds(t, key)
	})
}

// GLOB-1, GLOB-3: a member's glob is its own components but for the last
// segment, and NAME-4: the client gets it in the spelling of its glob.
func TestPropertyGlob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		globModel := drawName(t)
		last := len(globModel.segments) - 1
		globModel.segments[last] = text{{"*"}}
		member := globModel
		member.segments = slices.Clone(globModel.segments)
		member.segments[last] = drawText(t, "member", 1, plainUnits)
		if member.segments[last].canonical() == "*" {
			member.segments[last] = text{{"%2A"}} // a glob is no member
		}

		glob := globModel.spelled(t)
		key := member.canonical()
		if got, want := keyer.GlobOf(key), globModel.canonical(); got != want {
			t.Fatalf("GLOB-1: GlobOf(%q) = %q, want %q", key, got, want)
		}
		respelled := keyer.Respell(glob, key)
		if got, err := keyer.Key(respelled); err != nil || got != key {
			t.Fatalf("NAME-4: %q has the key %q, %v, want %q", respelled, got, err, key)
		}
		client, _, _ := strings.Cut(glob, "#")
		path, query, _ := strings.Cut(client, "?")
		if !strings.HasPrefix(respelled, strings.TrimSuffix(path, "*")) || !strings.HasSuffix(respelled, query) {
			t.Fatalf("NAME-4: %q is not in the spelling of %q", respelled, glob)
		}
	})
}
