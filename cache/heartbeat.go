package cache

import "time"

// ttlOverhead is what a TTL takes in a response at most.
const ttlOverhead = 24

// remaining is the TTL that a client is sent with e now (TTL-2); 0: none.
func (p *pass) remaining(e *entry) time.Duration {
	if !e.life.hasTTL() || !p.watch.client.form.TTL {
		return 0
	}
	return max(minRemaining, e.life.deadline.Sub(p.time(p.watch)))
}

// time is that of the pass.
func (p *pass) time(w *watch) time.Time {
	if p.now.IsZero() {
		p.now = w.client.store.cache.now()
	}
	return p.now
}

// heartbeat tells a client that has the content of e what became of its TTL. It sends a
// heartbeat; or the content, if there is no TTL any more (TTL-4), or if the client may have
// dropped the content before the heartbeat comes (late, TTL-3). The content also goes where
// one response could hold the same name twice: the heartbeat would take the place of
// content that goes under that name (RES-4).
func (p *pass) heartbeat(e *entry, name string, late bool) bool {
	ttl, twice := p.remaining(e), p.table.aliases.used() || p.watch.directives || p.watch.located > 0
	late = late || e.constrained() // a heartbeat cannot say which variant it is for (DYN-1)
	switch {
	case e.state == present && (ttl == 0 || twice || late):
		return p.add(e, e.res, name, false)
	case ttl == 0:
		return true
	case twice:
		p.cur = nil // without the content it can only go into a response of its own
		defer func() { p.cur = nil }()
	}
	version := e.version()
	if !p.room(len(name) + len(version) + 2*nameOverhead + ttlOverhead) {
		return false
	}
	p.cur.Body.AddHeartbeat(name, version, ttl)
	return true
}

// underWay is how long the relay believes what a client said that it holds: a message to
// the client may take so long.
const underWay = time.Second

// outlived reports whether a client may have dropped by itself a resource that it said it
// held when its stream began. That is so if the entry changed since, with a TTL like the
// one before, or if the stream began a while ago. The relay does not know which TTL the
// client was told on the stream before, and a heartbeat does not bring the content back
// (TTL-3).
func (p *pass) outlived(e *entry, pushed bool) bool {
	if e.life == nil || !p.watch.client.form.TTL {
		return false
	}
	return pushed || p.time(p.watch).Sub(p.watch.heldAt) >= underWay
}

// known tells a client that holds the content of e the TTL, if the client can do TTL.
func (p *pass) known(e *entry, name string) bool {
	return e.life == nil || !p.watch.client.form.TTL || p.heartbeat(e, name, false)
}

// nameHeartbeat tells a name's client of a heartbeat.
func (p *pass) nameHeartbeat(sub *nameSub, name string) bool {
	e := sub.entry
	if e.life == nil || sub.watch.lacksChange(e, e.changed) {
		return true
	}
	late := e.life.late(sub.missedHeartbeat, p.time(sub.watch))
	return sub.watch.lapses(lapsed{sub: sub, entry: e}, late) || p.heartbeat(e, name, late)
}

// memberHeartbeats tells a cursor's client of the heartbeats of members. They go before the
// members: the content that is still to be sent has its TTL with it. It returns false if
// there is no room.
func (p *pass) memberHeartbeats(f *cursor) bool {
	f.checkExpiry()
	if p.forced {
		return true // heartbeats overtake no acknowledgement
	}
	for l := f.coll.heartbeats.after(f.ttl.heartbeat); l != nil; l = l.next {
		e, late := l.entry, l.late(l.before > f.ttl.heartbeat, p.time(f.watch))
		if f.toldOf(e) && !f.watch.lapses(lapsed{cursor: f, entry: e}, late) && !p.heartbeat(e, f.spell(e), late) {
			return false
		}
		f.ttl.heartbeat = l.heartbeat
	}
	return true
}

// toldOf reports whether the cursor's client is told the TTL of a member with the
// collection: it has the content, and by no other way.
func (f *cursor) toldOf(e *entry) bool {
	_, owed := f.watch.answers[e.key]
	return !owed && !f.byName(e.key) && e.changed <= f.sent && !f.missed(e) && !f.watch.lacksChange(e, e.changed)
}

// checkExpiry looks at the TTLs that ran out since the last pass. A client that can do TTL
// drops the resource by itself if it knew the content and the TTL that ran out. If not, or
// if the client rejected the content, it may hold something older for longer, and is told
// of the removal.
func (f *cursor) checkExpiry() {
	c := f.coll
	for e := c.tombs.after(f.ttl.expiryChecked, nil, c); e != nil; e = e.next {
		if l := e.life; l != nil && f.mayHave(e) && f.outlives(e, l) {
			if f.watch.full {
				f.ttl.owe(e.key)
			} else {
				f.mayHold(e.key)
			}
		}
	}
	if c.tombs.tail != nil {
		f.ttl.expiryChecked = c.tombs.tail.changed
	}
}

// outlives reports whether the client may hold a member for longer than its TTL ran.
func (f *cursor) outlives(e *entry, l *lifetime) bool {
	return l.content > f.sent || l.heartbeat > f.ttl.heartbeat || f.watch.refused || f.watch.lacksChange(e, l.content)
}

// drops reports whether the client removed a member by itself, since its TTL ran out.
func (f *cursor) drops(e *entry) bool {
	return f.client.form.TTL && e.life != nil && !f.ttl.untoldExpiry[e.key]
}

// heartbeatsDue reports whether there are heartbeats that the client was not told of.
// Nothing waits for them, and they overtake no acknowledgement.
func (w *watch) heartbeatsDue() bool {
	if !w.client.form.TTL {
		return false
	}
	for _, sub := range w.dirty {
		if !sub.ended && sub.heartbeat {
			return true
		}
	}
	for f := range w.each() {
		if f.heartbeatsDue() {
			return true
		}
	}
	return false
}

func (f *cursor) heartbeatsDue() bool { return f.coll.heartbeats.last() > f.ttl.heartbeat }
