package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// resent takes over the TTL with which the server sent content that an entry already holds (TTL-4).
func (t *Table) resent(e *Entry, r *wire.Resource, now time.Time) {
	switch {
	case r.HasTTL:
		t.renew(e, r.TTL(), now)
	case e.extra.life.HasTTL():
		t.lifetimes.removeTTL(e, t.store.journal.nextHeartbeat())
		t.tellHeartbeat(e)
	}
}

// renew lets a TTL begin anew, and tells the clients that can do TTL.
func (t *Table) renew(e *Entry, ttl time.Duration, now time.Time) {
	if e.extra.life == nil && e.Member() {
		e.coll.encoded.chunks.drop() // clients are sent the TTL that remains for each of them
	}
	t.lifetimes.renew(e, ttl, now, t.store.journal.nextHeartbeat())
	t.noteDeadline()
	t.tellHeartbeat(e)
}

// tellHeartbeat makes the last heartbeat of an entry due for its clients. It replaces
// those that they were not told yet.
func (t *Table) tellHeartbeat(e *Entry) {
	if e.Member() {
		t.store.changes.addHeartbeat(e.coll, e.extra.life)
	}
	e.notify(Notice{Event: Renewed, TTLRemoved: !e.extra.life.HasTTL()})
}

// heartbeat renews the TTL of the resource that r names. r has no payload. It reports whether the
// relay holds the resource. A heartbeat without a TTL renews the TTL that there is.
func (u *update) heartbeat(t *Table, key string, r *wire.Resource) bool {
	if u.heldHeartbeat(t, key, r) {
		return true
	}
	held := false
	if e := t.entries[key]; e != nil && !e.marks.Alias {
		held = u.renewed(t, e, r)
	}
	for _, e := range t.aliases.of(key) {
		held = u.renewed(t, e, r) || held
	}
	return held
}

// renewed applies a heartbeat to an entry, and reports whether it is for the entry.
func (u *update) renewed(t *Table, e *Entry, r *wire.Resource) bool {
	if !u.speaksOf(t, e, r.Version) {
		return false
	}
	t.upstream.held.drop(e)
	t.confirm(e)
	if e.Member() {
		e.coll.quiet.confirm(e, false, u.received)
	}
	u.renewTTL(t, e, r)
	return true
}

// renewTTL renews the ttl of an entry by a heartbeat. One without a ttl renews the one that there is.
func (u *update) renewTTL(t *Table, e *Entry, r *wire.Resource) {
	if r.HasTTL {
		t.renew(e, r.TTL(), u.received)
	} else if e.extra.life.HasTTL() {
		t.renew(e, e.extra.life.ttl, u.received)
	}
}

// speaksOf reports whether a heartbeat with version v is for the content of e: the content has
// that version. In the state of the world servers may send no version there, or the version_info.
// Then the relay must hold the content of that version_info (TTL-3).
func (u *update) speaksOf(t *Table, e *Entry, v string) bool {
	has := func(v string) bool { return e.res != nil && e.res.Version == v }
	if has(v) {
		return true
	}
	if !u.response.State || !e.Exists() || u.response.Version == "" || u.response.Version != t.serverVersions.info {
		return false
	}
	return v == "" || v == u.response.Version || has("")
}

// spoken records that the server has spoken of an entry whose content stays.
func (u *update) spoken(t *Table, e *Entry) {
	e.response = t.upstream.response
	if e.Member() {
		e.coll.quiet.confirm(e, false, u.received)
	}
	if t.upstream.held.frozen() {
		t.confirm(e) // clients get what was released, by an operator's word
	}
}

// heldHeartbeat reports whether a heartbeat is for content that is held. The name lives, so what
// clients have of it does.
func (u *update) heldHeartbeat(t *Table, key string, r *wire.Resource) bool {
	if !t.upstream.held.any() {
		return false
	}
	f, held := t.upstream.held.names.Get(key)
	if !held || f.Removes() {
		return false
	}
	ofList := u.response.State && (r.Version == "" || r.Version == u.response.Version)
	if f.Resource.Version != r.Version && !ofList {
		return false
	}
	if e := t.entries[key]; e != nil && e.Exists() {
		u.spoken(t, e)
		u.renewTTL(t, e, r)
	}
	return true
}
