package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Resolved is what the relay found out by itself about names of one type
// (Source.Resolved).
type Resolved struct {
	TypeURL string
	// Found are resources under the keys of names, or of members of globs, that they
	// stand for: what they are called where they come from plays no part.
	Found   []Found
	Removed []string // keys that do not exist; a glob's: it has no members (GLOB-4)
	// Failed are keys that there is an error to tell of. As with a server's, NOT_FOUND
	// and PERMISSION_DENIED drop the resource and others keep what is held (ERR-1).
	Failed []Failure
	Synced []string // globs whose members are all here
	Late   []string // keys of what nobody should wait for any longer (RES-2)
}

// Empty reports whether there is nothing in it.
func (r *Resolved) Empty() bool {
	return len(r.Found)+len(r.Removed)+len(r.Failed)+len(r.Synced)+len(r.Late) == 0
}

// Resolved reports whether the relay itself fills the store (Source.Resolved).
func (s *Store) Resolved() bool { return s.source.Resolved }

// ApplyResolved is Apply for what the relay resolved itself. All of it is seen by
// clients at once. It cannot fail: what nobody wants any more is passed over.
func (s *Store) ApplyResolved(all []*Resolved, received time.Time) {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	s.mu.Lock()
	for _, r := range all {
		for _, t := range s.carried(wire.StreamID{}, r.TypeURL, nil) {
			r.apply(t, received)
		}
	}
	s.finish()
	s.mu.Unlock()
	s.flushWakes()
	s.cache.trim()
}

func (r *Resolved) apply(t *table, received time.Time) {
	u := &update{
		response: &wire.DeltaResponse{TypeURL: r.TypeURL, Removed: r.Removed},
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
		if c := t.colls[key]; c != nil && !c.synced {
			c.overdue = false
			t.sync(c)
		}
	}
	for _, key := range r.Late {
		t.giveUp(key)
	}
}

// giveUp has nobody wait for a name or a collection any longer.
func (t *table) giveUp(key string) {
	var i *interest
	if c := t.colls[key]; c != nil {
		i = c.interest
	} else if e := t.entries[key]; e != nil {
		i = e.interest
	}
	if i != nil && i.open() {
		t.expire(i, time.Time{})
	}
}

// Members lists the keys of a glob's members.
func (s *Store) Members(typeURL, glob string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.tables[tableKey{typeURL, byName}]
	if t == nil || t.colls[glob] == nil {
		return nil
	}
	live := &t.colls[glob].live
	keys := make([]string, 0, live.len)
	for e := live.head; e != nil; e = e.next {
		keys = append(keys, e.key)
	}
	return keys
}
