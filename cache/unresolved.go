package cache

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// An incremental server may answer a name that stands for nothing with a resource that has
// the name as an alias, and no payload (RES-16). It means that an on-demand virtual host does
// not exist. Envoy waits for just this answer, and not for a removal. So the entry is absent,
// and keeps the answer while clients subscribe to the name. The server need not say when the
// resource appears. So each later subscription has the server asked again.

// askPause is how often the server is asked again for a name at most.
const askPause = time.Second

// bareAliases applies a resource without payload that has aliases.
func (u *update) bareAliases(t *Table, r *wire.Resource) {
	if key, err := keyer.Key(r.Name); err == nil && t.upstream.held.frozen() && !u.restored && t.servesAny(r) {
		t.upstream.held.names.Put(key, hold.Fate{Resource: r})
		return
	}
	known := false
	for _, alias := range r.Aliases() {
		key, err := keyer.Key(alias)
		if err != nil {
			continue
		}
		e := t.entries[key]
		if e == nil || (e.extra.demand == nil && !e.wanted()) {
			continue
		}
		known = true
		e.response = t.upstream.response
		t.unresolve(e, r, u.received)
	}
	if !known {
		u.unsolicited++
	}
}

// servesAny reports whether an alias of a resource has content.
func (t *Table) servesAny(r *wire.Resource) bool {
	return slices.ContainsFunc(r.Aliases(), func(alias string) bool {
		key, err := keyer.Key(alias)
		return err == nil && t.entries[key] != nil && t.entries[key].Exists()
	})
}

// unresolve records that a name stands for nothing, with the server's answer. Clients that were
// told before are not told again.
func (t *Table) unresolve(e *Entry, r *wire.Resource, now time.Time) {
	if e.extra.absence.Answer() == nil {
		t.become(e, content{state: Absent}, said, now)
		if !e.wanted() {
			return // and is not kept (RES-17)
		}
	}
	t.absences.answer(e, r, now)
}

// AskAgain has the server asked once more for a name that stood for nothing, for a later
// subscriber.
func (e *Entry) AskAgain(clock func() time.Time) {
	if e.extra.absence.Answer() == nil || e.extra.demand == nil {
		return
	}
	if now := clock(); now.Sub(e.extra.absence.asked) >= askPause {
		e.extra.absence.asked = now
		e.extra.demand.repeat()
	}
}
