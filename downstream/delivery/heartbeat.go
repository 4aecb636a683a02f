package delivery

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// heartbeat tells a client that has the content of e what became of its TTL. It sends a
// heartbeat; or the content, if the TTL is gone (TTL-4), or if the client may have dropped the
// content before the heartbeat comes (late, TTL-3). The content also goes where one response
// could hold the same name twice: the heartbeat would take the place of content under that name
// (RES-4).
func (wr *writer) heartbeat(e *cache.Entry, name string, late bool) bool {
	ttl, twice := wr.remaining(e), wr.table.HasAliases() || wr.typeSub.subs.globs.directives
	if ttl == 0 || twice || late {
		return wr.add(e, e.Resource(), name, false)
	}
	version := e.Version()
	if !wr.room(len(name) + len(version) + 2*nameOverhead + ttlOverhead) {
		return false
	}
	wr.cur.Body.AddHeartbeat(name, version, ttl)
	return true
}

// underWay is how long the relay believes what a client said that it holds: a message to the
// client may take so long.
const underWay = time.Second

// outlived reports whether a client may have dropped by itself a resource that it said it held
// when its stream began. That is so if the entry changed since, with a TTL like the one before,
// or if the stream began a while ago. The relay does not know which TTL the client was told on
// the stream before, and a heartbeat does not bring the content back (TTL-3).
func (wr *writer) outlived(e *cache.Entry, pushed bool) bool {
	if e.Lifetime() == nil || !wr.typeSub.place.form.TTL {
		return false
	}
	return pushed || wr.time(wr.typeSub).Sub(wr.typeSub.held.at) >= underWay
}

// known tells a client that holds the content of e the TTL, if the client can do TTL.
func (wr *writer) known(e *cache.Entry, name string) bool {
	return e.Lifetime() == nil || !wr.typeSub.place.form.TTL || wr.heartbeat(e, name, false)
}

// nameHeartbeat sends a heartbeat for a name.
func (wr *writer) nameHeartbeat(sub *nameSub) bool {
	e, w := sub.entry, sub.typeSub
	if e.Lifetime() == nil || w.again.lacks(e, e.Changed()) {
		return true
	}
	return wr.heartbeat(e, sub.sentName(), e.Lifetime().Late(sub.missedHeartbeat, wr.time(w)))
}

// memberHeartbeats sends the heartbeats of members. They go before the members: content that is
// still to be sent has its TTL with it. It returns false if there is no room.
func (p *delivery) memberHeartbeats(f *follower) bool {
	w := f.typeSub
	w.checkExpiry(f)
	if p.noHeartbeats {
		return true
	}
	for l := f.Collection().Heartbeats().After(f.ttl.heartbeat); l != nil; l = l.Next() {
		e, late := l.Entry(), l.Late(l.Before() > f.ttl.heartbeat, p.writer.time(w))
		if w.toldOf(f, e) && !p.writer.heartbeat(e, f.name.of(e), late) {
			return false
		}
		f.ttl.heartbeat = l.Number()
	}
	return true
}

// drops reports whether the client removed a member by itself, since its TTL ran out.
func (f *follower) drops(e *cache.Entry) bool {
	return f.typeSub.place.form.TTL && e.Lifetime() != nil && !f.ttl.untoldExpiry[e.Key()]
}

// heartbeatsDue reports whether there are heartbeats that the client was not told of. Nothing
// waits for them, and they overtake no acknowledgement.
func (w *typeSub) heartbeatsDue() bool {
	if !w.place.form.TTL {
		return false
	}
	if w.changed.has(func(sub *nameSub) bool { return sub.heartbeat }) {
		return true
	}
	return w.subs.hasFollower(func(f *follower) bool {
		return f.ttl.heartbeatsDue(f.Collection()) && (w.subs.screen == nil || f.visibleHeartbeat())
	})
}

// toldOf reports whether the client is sent the TTL of a member with the collection: it has the
// content, and by no other way.
func (w *typeSub) toldOf(f *follower, e *cache.Entry) bool {
	_, owed := w.answers[e.Key()]
	return !owed && !f.hides(e) && !w.subs.byName(f, e.Key()) && e.Changed() <= f.Sent() && !w.again.lacks(e, e.Changed())
}

// checkExpiry looks at the TTLs of a collection that ran out since the last Collect. A client
// that can do TTL drops the resource by itself if it knew the content and the TTL. Otherwise, or
// if it rejected the content, it may hold something older for longer, and is told of the removal.
func (w *typeSub) checkExpiry(f *follower) {
	c := f.Collection()
	for e := c.RemovedAfter(f.ttl.expiryChecked); e != nil; e = e.Next() {
		l := e.Lifetime()
		if l == nil || !f.mayHave(e) {
			continue
		}
		knew := l.Content() <= f.Sent() && l.Number() <= f.ttl.heartbeat
		switch {
		case knew && !w.list.refused && !w.again.lacks(e, l.Content()):
		case w.list.full:
			f.ttl.owe(e.Key())
		default:
			f.mayHold(e.Key())
		}
	}
	if c.LastRemoved() != nil {
		f.ttl.expiryChecked = c.LastRemoved().Changed()
	}
}

// visibleHeartbeat reports whether a heartbeat is due that the client may know of.
func (f *follower) visibleHeartbeat() bool {
	for l := f.Collection().Heartbeats().After(f.ttl.heartbeat); l != nil; l = l.Next() {
		if f.typeSub.toldOf(f, l.Entry()) {
			return true
		}
	}
	return false
}
