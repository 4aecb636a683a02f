package cache

import (
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// releaseDue releases all that the store holds when its time has come.
func (s *Store) releaseDue(now time.Time) {
	if until := s.due.held.clock.Until(); until.IsZero() || now.Before(until) {
		return
	}
	for _, t := range slices.SortedFunc(maps.Keys(s.due.held.tables), inOrder) {
		h := t.upstream.held
		if h.told {
			t.release(now, EndedByTime)
			continue
		}
		if h.of >= fewest && h.names.Losses() == h.of && t.leads() {
			s.changes.held = append(s.changes.held, t.held(EndedAlone))
		}
		window := h.window
		t.release(now, EndedByTime)
		h.window = window // it waited for others, which may go yet
	}
}

// release carries out what a table holds.
func (t *Table) release(now time.Time, ended Ending) {
	if t.upstream.held.told {
		t.store.changes.held = append(t.store.changes.held, t.held(ended))
	}
	t.store.due.held.leave(t)
	t.releaseKept(t.upstream.held.kept)
	names := t.upstream.held.end()
	u := &update{response: &wire.Response{TypeURL: t.typeURL}, received: now}
	for key, f := range names.Take() {
		switch stale := t.entries[key].unconfirmed(); {
		case !f.Removes():
			u.resource(t, key, f.Resource)
			t.awaitWord(t.entries[key], stale, now)
			if e := t.entries[key]; stale && e != nil && e.Member() {
				e.coll.quiet.distrust(e)
			}
		case f.Err != nil:
			u.fail(t, key, f.Err)
		default:
			u.remove(t, key, f.Name)
		}
	}
	if t.store.source.State {
		t.serverVersions.note()
	}
}

// awaitWord has the relay wait for the server's word of a released resource that is restored. What the
// server has confirmed by silence is not waited for: it was shown what was held, too.
func (t *Table) awaitWord(e *Entry, stale bool, now time.Time) {
	switch {
	case e == nil || !e.Restored():
	case e.Member():
		if e.coll.quiet.synced && !stale {
			t.confirm(e)
		}
	case e.extra.demand == nil || !e.extra.demand.subscribed:
	default:
		e.extra.demand.startClock(now)
	}
}

// reviewHeld tells the observer what a response began to hold. Where no loss is left to hold, the
// server has brought all of it back: what waited for it is released.
func (s *Store) reviewHeld() {
	if len(s.due.held.tables) == 0 {
		return
	}
	for _, t := range slices.SortedFunc(maps.Keys(s.due.held.tables), inOrder) {
		switch h := t.upstream.held; {
		case h.names.Losses() == 0:
			t.release(s.cache.Now(), EndedByReturn)
		case !h.told && !s.due.held.clock.Waits():
			h.told = true
			s.changes.held = append(s.changes.held, t.held(""))
		}
	}
}

func (t *Table) held(ended Ending) Held {
	h := t.upstream.held
	return Held{
		Upstream: t.store.source.Upstream, TypeURL: t.typeURL, Lost: h.names.Losses(), Of: h.of,
		Until: t.store.due.held.clock.Until(), Ended: ended,
	}
}
