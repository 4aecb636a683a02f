package cache

import (
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Some resources refer to others: redirects (LOC-1), and the directories of list
// collections (LIST-2). The store says which of them its clients have, for whoever
// reads them; it never looks into one itself. What becomes of an entry is merged until
// it is taken, so that nobody waits for who reads.

// Reference is an entry whose content may refer to others, as it is now.
type Reference struct {
	Store    *Store
	TypeURL  string // that its clients ask for it with
	Name     string // canonical
	Wildcard bool   // it stands in the type's table of "*"
	// Watched says that a client subscribes to it, by name or with a collection, and not
	// only the relay itself (Store.Read). What is only pinned is told of too.
	Watched bool
	// Number is that of its last change: another content has another one.
	Number   uint64
	Resource *wire.Resource // nil if there is none that refers to anything
}

// refKey names an entry whose reference is to be taken.
type refKey struct {
	tableKey

	key string
}

// attention is who has an entry that refers to others.
type attention uint8

const (
	plain   attention = iota // it refers to nothing
	ignored                  // nobody has it
	pinned                   // nobody but what refers to it
	watched                  // a client has it
)

// refersByType is the content of a directory, or of a redirect. A type that has the
// name of a directory's and is none is found out when it is read.
func refersByType(typeURL string) bool {
	return strings.HasSuffix(typeURL, "Collection") || typeURL == wire.RedirectTypeURL
}

// refers reports whether what an entry holds refers to others. What is not to be kept
// is not read either (TTL-5).
func (e *entry) refers() bool { return e.res != nil && refersByType(e.res.TypeURL()) }

// attention is who has the entry now.
func (e *entry) attention() attention {
	switch {
	case !e.refers():
		return plain
	case slices.ContainsFunc(e.subs, (*nameSub).ofClient), e.member() && e.coll.followed():
		return watched
	case e.pinned:
		return pinned
	}
	return ignored
}

// refer notes that who has an entry may have changed, if it refers to others.
func (t *table) refer(e *entry) {
	if e.told != plain {
		t.attend(e, false)
	}
}

// reread is refer after a change of the content.
func (t *table) reread(e *entry) {
	if t.store.source.References && (e.told != plain || e.refers()) {
		t.attend(e, true)
	}
}

// attend has a reference taken if it is news: what nobody has, nor had before, is none.
func (t *table) attend(e *entry, changed bool) {
	if !t.store.source.References {
		return
	}
	was, now := e.told, e.attention()
	switch e.told = now; {
	case now == plain:
		delete(t.referring, e)
	case was == plain:
		t.listReference(e)
	}
	if max(was, now) > ignored && (changed || was != now) {
		t.store.tellReference(refKey{tableKey{t.typeURL, t.kind}, e.key})
	}
}

// listReference notes that e refers to others.
func (t *table) listReference(e *entry) {
	if t.referring == nil {
		t.referring = make(map[*entry]struct{})
	}
	t.referring[e] = struct{}{}
}

// ofClient tells a client's subscription from the relay's own (Store.Read), which leads
// nobody further.
func (n *nameSub) ofClient() bool { return !n.watch.client.reads() }

// followed reports whether a client follows the collection.
func (c *collection) followed() bool {
	return slices.ContainsFunc(c.followers, func(f *cursor) bool { return !f.client.reads() })
}

// referMembers is refer for the members of a collection that got the first client that
// follows it, or lost the last one. before says whether there was one.
func (c *collection) referMembers(before bool) {
	if before == c.followed() {
		return
	}
	if c.live.len < len(c.table.referring) { // others in the table may have far more than c
		for e := c.live.head; e != nil; e = e.next {
			c.table.refer(e)
		}
		return
	}
	for e := range c.table.referring {
		if e.coll == c {
			c.table.refer(e)
		}
	}
}

func (s *Store) tellReference(k refKey) {
	if len(s.references) == 0 {
		s.references = make(map[refKey]struct{})
		s.cache.referring(s)
	}
	s.references[k] = struct{}{}
}

// referring notes that a store has references to be taken. The caller holds the lock of
// the store.
func (c *Cache) referring(s *Store) {
	c.mu.Lock()
	c.refers[s] = struct{}{}
	c.mu.Unlock()
	select {
	case c.references <- struct{}{}:
	default:
	}
}

// ReferencesChanged receives when there is something for TakeReferences.
func (c *Cache) ReferencesChanged() <-chan struct{} { return c.references }

// TakeReferences returns what has changed since it was called last about entries that
// refer to others, of all stores that are to tell (Source.References): which of them
// clients have, or pins keep, and what they hold. Who takes them may Pin what they
// refer to. Its cost is that of what has changed.
func (c *Cache) TakeReferences() []Reference {
	c.mu.Lock()
	stores := c.refers
	c.refers = make(map[*Store]struct{})
	c.mu.Unlock()
	var refs []Reference
	for s := range stores {
		refs = s.takeReferences(refs)
	}
	return refs
}

// TellReferences has TakeReferences return everything of the store that refers to others
// and that somebody has, as if it had just changed: for who reads it in another way.
func (s *Store) TellReferences() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		for e := range t.referring {
			if e.told > ignored {
				s.tellReference(refKey{tableKey{t.typeURL, t.kind}, e.key})
			}
		}
	}
}

func (s *Store) takeReferences(refs []Reference) []Reference {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.references {
		r := Reference{Store: s, TypeURL: k.typeURL, Name: strings.Clone(k.key), Wildcard: k.kind == wholeType}
		if t := s.tables[k.tableKey]; t != nil {
			if e := t.entries[k.key]; e != nil && e.refers() {
				r.Watched, r.Number, r.Resource = e.attention() == watched, e.changed, e.res
			}
		}
		refs = append(refs, r)
	}
	s.references = nil
	return refs
}

// checkReferences verifies that who reads knows what refers to others.
func (t *table) checkReferences(c *checker) {
	if !t.store.source.References {
		c.that(len(t.referring) == 0, "%d references that nobody reads", len(t.referring))
		return
	}
	n := 0
	for key, e := range t.entries {
		_, listed := t.referring[e]
		if listed {
			n++
		}
		c.that(listed == e.refers(), "%q refers to others: %t, listed %t", key, e.refers(), listed)
		c.that(e.told == e.attention(), "%q has the attention %d, told %d", key, e.attention(), e.told)
	}
	c.that(n == len(t.referring), "%d entries refer to others that are gone", len(t.referring)-n)
}
