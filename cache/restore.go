package cache

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Restore puts an image of an earlier process into the store, all at once: no client sees a part
// of it. The session must not run yet. asOf is when the image was last known to be current. The
// resources are marked (wire.Restore). The server will be asked for the names and collections of
// the image as if clients had left them. Content whose ttl ran out by wall clock is left out, and
// so is what the server does not speak for any more (Source.Speaks).
//
// Clients may have come already. What they present stays with them: see Entry.Restored.
func (k Snapshots) Restore(i *Image, asOf time.Time) (restored int) {
	s := k.store
	now := s.cache.Now()
	updates := make([]*update, len(i.Tables))
	for n := range i.Tables {
		updates[n] = s.cache.restoring(&i.Tables[n], now)
	}
	s.change(func() {
		s.changes.begin()
		s.restored.asOf = asOf
		s.changes.past.restore(&i.Past, s.cache)
		for n, u := range updates {
			if u != nil {
				restored += u.restore(s, &i.Tables[n])
			}
		}
	})
	return restored
}

// restoring makes a response of a table's image, before any lock is taken; nil if the image is
// of no use.
func (c *Cache) restoring(i *TableImage, now time.Time) *update {
	alive := i.Resources[:0]
	for _, r := range i.Resources {
		if r.Received.After(now) {
			r.Received = now
		}
		if r.Deadline.IsZero() || now.Before(r.Deadline) {
			alive = append(alive, r)
		}
	}
	i.Resources = alive
	r := &wire.Response{TypeURL: i.TypeURL, Resources: make([]*wire.Resource, len(alive)), Version: i.SystemVersion}
	for n := range alive {
		alive[n].Resource = c.shares(alive[n].Resource)
		r.Resources[n] = alive[n].Resource
	}
	u, err := newUpdate(r, now)
	if err != nil {
		return nil
	}
	u.restored = true
	return u
}

// restore applies the response. The caller holds the locks.
func (u *update) restore(s *Store, i *TableImage) int {
	t := s.Table(i.TypeURL, i.Kind)
	before := t.upstream.restored
	begun := t.begin(i)
	for _, key := range i.Collections {
		if c := t.colls[key]; c != nil {
			c.restored.is, c.restored.whole = true, !slices.Contains(i.Lacking, key)
		}
	}
	u.apply(t)
	for n := range i.Resources {
		t.date(u.keys[n], &i.Resources[n])
	}
	if s.source.State {
		t.serverVersions.info = i.VersionInfo
		t.serverVersions.note()
	}
	for _, c := range t.colls {
		c.holdsPart()
	}
	releaseIdle(begun)
	return t.upstream.restored - before
}

// begin has the server asked for the names and collections of an image, as if clients wanted them. What it begins is for
// releaseIdle, once the image is applied.
func (t *Table) begin(i *TableImage) (begun []*demand) {
	for _, key := range i.Collections {
		if t.colls[key] == nil && (key == Wildcard) == (t.kind == WholeType) {
			begun = append(begun, t.Collection(key).demand)
		}
	}
	if t.kind != ByName {
		return begun
	}
	for _, key := range i.Names {
		if e := t.Entry(key); e.extra.demand == nil {
			e.setDemand(t.newDemand(e, nil))
			begun = append(begun, e.extra.demand)
		}
	}
	return begun
}

// releaseIdle has demand be idle that no client has.
func releaseIdle(begun []*demand) {
	for _, i := range begun {
		if i.alive() && !i.subscribedTo() {
			i.release()
		}
	}
}

// date gives the entries that a restored resource serves the times that it had.
func (t *Table) date(key string, i *ResourceImage) {
	at := func(e *Entry) {
		if e == nil || e.res != i.Resource {
			return
		}
		e.received = i.Received.UnixNano()
		if l := e.extra.life; l.HasTTL() && i.Deadline.Before(l.deadline) { // the wall clock may have been set back
			t.lifetimes.run(l, l.ttl, i.Deadline.Add(-l.ttl))
		}
	}
	at(t.entries[key])
	for _, e := range t.aliases.of(key) {
		at(e)
	}
}
