package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Resolved is a part of the resolver's result, for names of one type (Source.Resolved).
type Resolved struct {
	TypeURL string
	// Found are resources under the keys of names, or of members of globs. Their own names
	// play no part.
	Found   []Found
	Removed []string // keys that do not exist; a glob's: it has no members (GLOB-4)
	// Failed are keys that there is an error to tell of. As with a server's, NOT_FOUND
	// and PERMISSION_DENIED drop the resource, and others keep the content (ERR-1).
	Failed []Failure
	Synced []string // globs whose members are all here
	Late   []string // keys that clients should not wait for any longer (RES-2)
	// Passing are names and globs for which the resolver reads something that is not to be cached. They go
	// with their last client (TTL-5).
	Passing []string
}

// Found is a resource under its key.
type Found struct {
	Key      string
	Resource *wire.Resource
}

// Empty reports whether there is nothing in it.
func (r *Resolved) Empty() bool {
	return len(r.Found)+len(r.Removed)+len(r.Failed)+len(r.Synced)+len(r.Late)+len(r.Passing) == 0
}

// ApplyResolved is Apply for the resolver's results. Clients see all of them at once. It cannot
// fail: it skips names that are not asked for any more.
func (s Session) ApplyResolved(all []*Resolved, received time.Time) {
	s.store.change(func() {
		for _, r := range all {
			for _, t := range s.carried(wire.StreamID{}, r.TypeURL, nil) {
				r.apply(t, received)
			}
		}
	})
}

func (r *Resolved) apply(t *Table, received time.Time) {
	u := &update{
		response: &wire.Response{TypeURL: r.TypeURL, Removed: r.Removed},
		removed:  r.Removed, resolved: true, received: received,
	}
	for _, f := range r.Found {
		u.keys = append(u.keys, f.Key)
		u.response.Resources = append(u.response.Resources, f.Resource)
	}
	for _, f := range r.Failed {
		if u.failing == nil {
			u.failing = make(map[string]bool, len(r.Failed))
		}
		u.failing[f.Key] = true
		u.failed = append(u.failed, f.Key)
		u.response.Errors = append(u.response.Errors, f.Error)
	}
	u.apply(t)
	for _, key := range r.Synced {
		if c := t.colls[key]; c != nil && !c.quiet.synced {
			c.quiet.overdue = false
			t.completed(c)
		}
	}
	for _, key := range r.Late {
		if i := t.demandFor(key); i != nil && i.open() {
			t.expireDemand(i, time.Time{}) // nobody waits any longer
		}
	}
	for _, key := range r.Passing {
		if i := t.demandFor(key); i != nil {
			i.passes = true
			i.passOn()
		}
	}
}

// demandFor is the demand for a name or a collection, nil if there is none.
func (t *Table) demandFor(key string) *demand {
	if c := t.colls[key]; c != nil {
		return c.demand
	}
	if e := t.entries[key]; e != nil {
		return e.extra.demand
	}
	return nil
}

// Members lists the keys of a glob's members.
func (s Session) Members(typeURL, glob string) []string {
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	t := s.store.tables[tableKey{typeURL, ByName}]
	if t == nil || t.colls[glob] == nil {
		return nil
	}
	live := &t.colls[glob].log.live
	keys := make([]string, 0, live.len)
	for e := live.head; e != nil; e = e.next {
		keys = append(keys, e.key)
	}
	return keys
}
