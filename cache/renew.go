package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// resent takes over the TTL with which the server sent content that an entry already
// holds (TTL-4).
func (t *table) resent(e *entry, r *wire.Resource, now time.Time) {
	switch {
	case r.HasTTL:
		t.renew(e, r.TTL(), now)
	case e.life.hasTTL():
		t.lifetimes.removeTTL(e, t.store.nextHeartbeat())
		t.tellHeartbeat(e)
	}
}

// renew lets a TTL begin anew, and tells the clients that can do TTL.
func (t *table) renew(e *entry, ttl time.Duration, now time.Time) {
	if e.life == nil && e.member() {
		e.coll.runs.drop() // clients are sent the TTL that remains for each of them
	}
	t.lifetimes.renew(e, ttl, now, t.store.nextHeartbeat())
	t.noteDeadline()
	t.tellHeartbeat(e)
}

// tellHeartbeat makes the last heartbeat of an entry due for its clients. It replaces
// those that they were not told yet.
func (t *table) tellHeartbeat(e *entry) {
	if e.member() {
		t.store.noteHeartbeat(e.coll, e.life)
	}
	for _, sub := range e.subs {
		switch form := sub.watch.client.form; {
		case !form.TTL:
		case form.State && !e.life.hasTTL():
			sub.repeat() // only the content says that the TTL is gone (TTL-4)
		default:
			sub.renew()
		}
	}
}

// heartbeat renews the TTL of the resource that r names. r has no payload. It reports
// whether the relay holds the resource. A heartbeat without a TTL renews the TTL that
// there is.
func (u *update) heartbeat(t *table, key string, r *wire.Resource) bool {
	held := false
	if e := t.entries[key]; e != nil && !e.alias {
		held = u.renewed(t, e, r)
	}
	for _, e := range t.aliases.of(key) {
		held = u.renewed(t, e, r) || held
	}
	return held
}

// renewed applies a heartbeat to an entry, and reports whether it is for the entry.
func (u *update) renewed(t *table, e *entry, r *wire.Resource) bool {
	if !u.speaksOf(t, e, r.Version) {
		return false
	}
	if e.member() {
		e.coll.quiet.confirm(e, false, u.received)
	}
	if r.HasTTL {
		t.renew(e, r.TTL(), u.received)
	} else if e.life.hasTTL() {
		t.renew(e, e.life.ttl, u.received)
	}
	return true
}

// holds reports whether an entry's content is what the server calls version v.
func (e *entry) holds(v string) bool { return e.res != nil && e.res.Version == v }

// speaksOf reports whether a heartbeat with version v is for the content of e: the content
// has that version. In the state of the world servers may send no version there, or the
// version_info. Then the heartbeat is for the content if the relay holds what that
// version_info stands for (TTL-3).
func (u *update) speaksOf(t *table, e *entry, v string) bool {
	has := func(v string) bool {
		return e.holds(v) || (e.state == transient && e.life.transient.hasVersion(t.serverVersions.hasher, v))
	}
	if has(v) {
		return true
	}
	if u.state == nil || !e.there() || u.state.VersionInfo == "" || u.state.VersionInfo != t.serverVersions.info {
		return false
	}
	return v == "" || v == u.state.VersionInfo || has("")
}
