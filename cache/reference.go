package cache

import (
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

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
		t.references.tellAll()
	}
}

func (s *Store) takeReferences(refs []Reference) []Reference {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.references.changed {
		r := Reference{Store: s, TypeURL: k.typeURL, Name: strings.Clone(k.key), Wildcard: k.kind == wholeType}
		if t := s.tables[k.tableKey]; t != nil {
			if e := t.entries[k.key]; e != nil && refersToOthers(e) {
				r.Watched, r.Number, r.Resource = attentionTo(e) == watched, e.changed, e.res
			}
		}
		refs = append(refs, r)
	}
	s.references.changed = nil
	return refs
}
