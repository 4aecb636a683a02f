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
	// only the relay itself (Store.Read). An entry that is only pinned is told too.
	Watched bool
	// Number is that of its last change: another content has another one.
	Number   uint64
	Resource *wire.Resource // nil if there is none that refers to anything
}

// ReferencesChanged receives when there is something for TakeReferences.
func (c *Cache) ReferencesChanged() <-chan struct{} { return c.references }

// TakeReferences returns the changes since its last call, of entries that refer to others, in all
// stores that tell (Source.References): whether clients or pins have the entry, and its content.
// The caller may Pin the names that they refer to. The cost is that of the changes.
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

// TellReferences has TakeReferences return all entries of the store that refer to others and that
// clients or pins have, as if they had just changed.
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
		r := Reference{Store: s, TypeURL: k.typeURL, Name: strings.Clone(k.key), Wildcard: k.kind == WholeType}
		if t := s.tables[k.tableKey]; t != nil {
			if e := t.entries[k.key]; e != nil && e.refersToOthers() {
				r.Watched, r.Number, r.Resource = e.attentionTo() == watched, e.changed, e.res
			}
		}
		refs = append(refs, r)
	}
	s.references.changed = nil
	return refs
}
