package cache

import "time"

// ttlOverhead is what a ttl takes in a response at most.
const ttlOverhead = 24

// remaining is the ttl that a client is sent with e now (TTL-2); 0: none.
func (p *pass) remaining(e *entry) time.Duration {
	if e.life == nil || e.life.ttl == 0 || !p.watch.client.form.TTL {
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

// late reports whether a client may have dropped by itself, at now, what the last
// heartbeat renewed: it ran out by what the client was told. Who missed the heartbeat
// before that too is not followed any further (TTL-3).
func (l *lifetime) late(missed bool, now time.Time) bool {
	return missed || (!l.until.IsZero() && !now.Before(l.until))
}

// renew tells a client that has the content of e what became of its ttl: with a
// heartbeat, or with the content if it has none any more (TTL-4), or if the heartbeat
// comes too late for the client to have the content still (TTL-3). The content also
// goes where one response could hold the same name twice, and the heartbeat would
// take the place of content that is on its way under that name (RES-4).
func (p *pass) renew(e *entry, name string, late bool) bool {
	ttl, twice := p.remaining(e), p.table.aliases.used() || p.watch.directives || p.watch.located > 0
	late = late || e.constrained() // a heartbeat has no place for what tells a variant (DYN-1)
	switch {
	case e.state == present && (ttl == 0 || twice || late):
		return p.add(e, e.res, name, false)
	case ttl == 0:
		return true
	case twice:
		p.cur = nil // what is not here can only go into a response of its own
		defer func() { p.cur = nil }()
	}
	version := e.version()
	if !p.room(len(name) + len(version) + 2*nameOverhead + ttlOverhead) {
		return false
	}
	p.cur.Body.AddHeartbeat(name, version, ttl)
	return true
}

// underWay is how long what a client said that it holds is taken for true: as a message
// to it may take.
const underWay = time.Second

// outlived reports whether a client may have dropped by itself what it said that it
// held when its stream began: e came after that, with a ttl like the one before it, or
// that was a while ago. Nobody knows which ttl it was told on the stream before, and a
// heartbeat does not bring the content back (TTL-3).
func (p *pass) outlived(e *entry, pushed bool) bool {
	if e.life == nil || !p.watch.client.form.TTL {
		return false
	}
	return pushed || p.time(p.watch).Sub(p.watch.heldAt) >= underWay
}

// known tells what a client that holds the content of e already must know: the
// ttl, if it can do that.
func (p *pass) known(e *entry, name string) bool {
	return e.life == nil || !p.watch.client.form.TTL || p.renew(e, name, false)
}

// beaten tells a name of a heartbeat.
func (p *pass) beaten(sub *nameSub, name string) bool {
	e := sub.entry
	if e.life == nil || sub.watch.lacksChange(e, e.changed) {
		return true
	}
	late := e.life.late(sub.missed, p.time(sub.watch))
	return sub.watch.loses(lost{sub: sub, entry: e}, late) || p.renew(e, name, late)
}

// lives brings a cursor level with what happened to the ttls of its collection.
// That comes before its members: what is still to be sent of them says its ttl
// itself. False if there is no room.
func (p *pass) lives(f *cursor) bool {
	f.judge()
	if p.forced {
		return true // heartbeats overtake no acknowledgement
	}
	for l := f.coll.beats.after(f.beats); l != nil; l = l.next {
		e, late := l.entry, l.late(l.before > f.beats, p.time(f.watch))
		if f.tells(e) && !f.watch.loses(lost{cursor: f, entry: e}, late) && !p.renew(e, f.spell(e), late) {
			return false
		}
		f.beats = l.beat
	}
	return true
}

// tells reports whether a cursor has a word for the ttl of a member: its client has
// the content, and by no other way.
func (f *cursor) tells(e *entry) bool {
	_, owed := f.watch.answers[e.key]
	return !owed && !f.byName(e.key) && e.changed <= f.sent && !f.lacks(e) && !f.watch.lacksChange(e, e.changed)
}

// judge looks at what expired since the last pass. A client that can do ttl drops
// it by itself if it knew the content and the ttl that ran out; if not, or if it rejected
// the content, it may hold something older for longer, and is told.
func (f *cursor) judge() {
	c := f.coll
	for e := c.tombs.after(f.judged, nil, c); e != nil; e = e.next {
		if l := e.life; l != nil && f.mayHave(e) && (l.content > f.sent || l.beat > f.beats || f.watch.refused || f.watch.lacksChange(e, l.content)) {
			if f.watch.full {
				f.owe(e.key)
			} else {
				f.mayHold(e.key)
			}
		}
	}
	if c.tombs.tail != nil {
		f.judged = c.tombs.tail.changed
	}
}

// drops reports whether the client drops the member that e was by itself.
func (f *cursor) drops(e *entry) bool {
	return f.client.form.TTL && e.life != nil && !f.owed[e.key]
}

// beatsDue reports whether there are heartbeats that a client was not told of. Nothing waits
// for them, and they go before no acknowledgement.
func (w *watch) beatsDue() bool {
	if !w.client.form.TTL {
		return false
	}
	for _, sub := range w.dirty {
		if !sub.ended && sub.beat {
			return true
		}
	}
	for f := range w.each() {
		if f.beatsDue() {
			return true
		}
	}
	return false
}

func (f *cursor) beatsDue() bool {
	t := f.coll.beats.tail
	return t != nil && t.beat > f.beats
}
