package delivery

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer"
	"pgregory.net/rapid"
)

// refKey names a resource that refers to others.
type refKey struct {
	kind cache.Kind
	key  string
}

// modelReader is who pins and takes references: it remembers what it was told.
type modelReader struct {
	server *modelServer
	pins   map[string]int // by key
	knows  map[refKey]cache.Reference
}

func (m *modelReader) pin(spellings []string) {
	m.server.store.Pin(clusterType, names(spellings)...)
	for _, s := range spellings {
		m.pins[keyOf(s)]++
	}
}

func (m *modelReader) unpin(spellings []string, unlisted bool) {
	if unlisted {
		m.server.store.Unlist(clusterType, names(spellings)...)
	} else {
		m.server.store.Unpin(clusterType, names(spellings)...)
	}
	for _, s := range spellings {
		if m.pins[keyOf(s)]--; m.pins[keyOf(s)] <= 0 {
			delete(m.pins, keyOf(s))
		}
	}
}

// take takes the references. None may come twice (LIST-2).
func (m *modelReader) take(t *rapid.T) {
	seen := map[refKey]bool{}
	for _, r := range m.server.cache.TakeReferences() {
		k := refKey{cache.ByName, r.Name}
		if r.Wildcard {
			k.kind = cache.WholeType
		}
		if seen[k] {
			t.Fatalf("LIST-2: told of %v twice", k)
		}
		seen[k] = true
		m.knows[k] = r
	}
}

// check compares what is pinned, and what it knows of what refers to others, with what
// exists, once all is quiet.
func (m *modelReader) check(t *rapid.T, when string, exists func(content) bool) {
	m.take(t)
	for key := range m.pins {
		if m.server.passed[key] {
			continue // no pin keeps what is not to be cached (TTL-5)
		}
		m.checkPinned(t, when, key, exists)
	}
	for k, r := range m.knows {
		if r.Resource == nil {
			continue
		}
		if x, ok := m.server.exists[k.key]; ok && x.leads && exists(x) {
			want := m.server.source.resource(k.key, x)
			if r.Watched && !m.unsaid(k.kind, x) && !r.Resource.SameContent(want) {
				t.Fatalf("LIST-2: %s %v is known as %q, and is %q", when, k, r.Resource.Raw(), want.Raw())
			}
		} else if r.Watched && m.tells() {
			t.Fatalf("LIST-2: %s %v is known to refer to others, and is %+v", when, k, x)
		}
	}
	for name, x := range m.server.exists {
		if !x.leads || !exists(x) {
			continue
		}
		for _, k := range []cache.Kind{cache.WholeType, cache.ByName} {
			key := refKey{k, name}
			if m.unsaid(k, x) {
				continue
			}
			switch r, has := m.knows[key], m.has(k, name, x); {
			case has && !(r.Watched && r.Resource != nil):
				t.Fatalf("LIST-2: %s a client has %v, the reader knows %+v", when, key, r)
			case !has && r.Watched && r.Resource != nil:
				t.Fatalf("LIST-3: %s no client has %v any more, the reader knows %+v", when, key, r)
			case k == cache.ByName && m.pins[name] > 0 && !m.server.passed[name] && r.Resource == nil:
				t.Fatalf("LIST-2: %s %v is pinned, the reader knows %+v", when, key, r)
			}
		}
	}
}

// tells reports whether the source has a word for what does not exist any more (RES-8).
func (m *modelReader) tells() bool { return !m.server.source.state || m.server.source.full }

// unsaid reports whether a table may go on holding something in an older form: "*" does
// not mean it any more, and the source has no word for that.
func (m *modelReader) unsaid(k cache.Kind, x content) bool {
	return !m.tells() && k == cache.WholeType && !x.inStar
}

// has reports whether a client has what is in one of the two tables.
func (m *modelReader) has(k cache.Kind, name string, x content) bool {
	return slices.ContainsFunc(m.server.clients, func(c *modelClient) bool {
		subs := c.keys()
		if k == cache.WholeType {
			return subs[cache.Wildcard] && x.inStar
		}
		delete(subs, cache.Wildcard)
		return covered(subs, name, x)
	})
}

// checkPinned holds what is pinned to what a client would hold that subscribes to it.
func (m *modelReader) checkPinned(t *rapid.T, when, key string, exists func(content) bool) {
	for name, x := range m.server.exists {
		if name != key && keyer.GlobOf(name) != key {
			continue
		}
		state, want := "absent", "present" // tombstones are not shown
		if !exists(x) {
			want = "absent"
		}
		for _, i := range m.server.store.Resources(clusterType, name) {
			if i.Kind != cache.ByName.String() {
				continue // "*" may go on holding what is no part of it any more (RES-8)
			}
			if i.State != "failed" { // that it is not there was said with a reason
				state = i.State
			}
			if state == "present" && i.Version != m.server.source.version(name, x) {
				t.Fatalf("LIST-2: %s pinned %q has version %q of %q", when, name, i.Version, m.server.source.version(name, x))
			}
		}
		if state != want {
			t.Fatalf("LIST-2: %s pinned %q is %s, wanted %s", when, name, state, want)
		}
	}
	if x, ok := m.server.exists[key]; keyer.IsGlob(key) || (ok && exists(x)) || !m.tells() {
		return
	}
	for _, i := range m.server.store.Resources(clusterType, key) {
		if i.Kind == cache.ByName.String() && (i.Pins != m.pins[key] || (i.State != "absent" && i.State != "failed")) {
			t.Fatalf("LIST-2: %s %q does not exist, and is %s with %d pins", when, key, i.State, i.Pins)
		}
	}
}
