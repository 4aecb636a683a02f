package cache

// A client of the state of the world has one version for all that it holds of a type,
// and takes a response of nothing but heartbeats for no list (TTL-3). They are sent on
// their own therefore, before what else is due, and only while no acknowledgement is
// awaited: until that has come nobody knows which version the client holds.

// tooLate owes the client the contents for which heartbeats wait that come too late
// (TTL-3), or have no place for what tells a variant (DYN-1). Heartbeats go out in the
// same pass, and leave these out.
func (w *watch) tooLate() {
	if !w.beatsDue() || (w.full && !w.listed) {
		return
	}
	now := w.client.store.cache.now()
	for _, sub := range w.dirty {
		if e := sub.entry; !sub.ended && sub.beat && w.hasContent(e) && (e.life.late(sub.missed, now) || e.constrained()) {
			sub.beat = false
		}
	}
	for f := range w.cursors() {
		for l := f.coll.beats.after(f.beats); l != nil; l = l.next {
			if e := l.entry; w.hasContent(e) && f.tells(e) && (l.late(l.before > f.beats, now) || e.constrained()) {
				w.owe(Name{Spelling: f.spell(e), Key: e.key})
			}
		}
	}
}

// heartbeats tells the client of renewed ttls of the contents that it has.
func (p *pass) heartbeats(w *watch) {
	if !w.beatsDue() || (w.full && !w.listed) {
		return
	}
	p.beating = true
	if p.turn(w, byName) {
		p.beatNames(w)
		for _, g := range w.globs {
			p.beatMembers(g)
		}
	}
	if p.turn(w, wholeType) {
		p.beatMembers(w.wildcard)
	}
	p.beating, p.watch, p.cur = false, nil, nil
}

func (p *pass) beatNames(w *watch) {
	left := w.dirty[:0]
	for _, sub := range w.dirty {
		if sub.ended {
			continue
		}
		name := sub.shown()
		if sub.entry.alias {
			name = sub.entry.servedName()
		}
		e := sub.entry
		late := sub.beat && e.life.late(sub.missed, p.time(w))
		if !sub.beat || (!w.loses(lost{sub: sub, entry: e}, late) && !p.heartbeat(e, name)) {
			left = append(left, sub)
			continue
		}
		sub.dirty, sub.beat = false, false
	}
	clear(w.dirty[len(left):])
	w.dirty, w.ended = left, 0
	if len(left) == 0 {
		w.dirty = nil
	}
}

func (p *pass) beatMembers(f *cursor) {
	for l := f.coll.beats.after(f.beats); l != nil; l = l.next {
		e, late := l.entry, l.late(l.before > f.beats, p.time(f.watch))
		if f.tells(e) && !f.watch.loses(lost{cursor: f, entry: e}, late) && !p.heartbeat(e, f.spell(e)) {
			return
		}
		f.beats = l.beat
	}
}

// heartbeat adds one; false if there is no room. What has no ttl any more is sent
// with its content.
func (p *pass) heartbeat(e *entry, name string) bool {
	ttl := p.remaining(e)
	if ttl == 0 {
		return true
	}
	version := e.version()
	if !p.room(len(name) + len(version) + 2*nameOverhead + ttlOverhead + wrapOverhead) {
		return false
	}
	if p.first(name) {
		p.cur.Body.AddWrappedHeartbeat(name, version, ttl)
	}
	return true
}

// ttls brings a cursor level with what happened to the ttls of its collection, as far
// as that goes out with contents.
func (p *pass) ttls(f *cursor) bool {
	if f.client.form.State {
		return p.lifted(f)
	}
	return p.lives(f)
}

// liftDue reports whether a ttl was taken back that the client may have: it needs the
// content without it (TTL-4).
func (f *cursor) liftDue() bool {
	return f.client.form.State && f.client.form.TTL && f.coll.lifted > f.lifted
}

// lifted sends the content of the members of which the ttl was taken back.
func (p *pass) lifted(f *cursor) bool {
	if !f.liftDue() {
		return true
	}
	for l := f.coll.beats.after(f.lifted); l != nil; l = l.next {
		e := l.entry
		if l.ttl == 0 && e.res != nil && f.tells(e) && !p.add(e, e.res, f.spell(e), false) {
			return false
		}
		f.lifted = l.beat
	}
	f.lifted = max(f.lifted, f.coll.lifted)
	return true
}

// repeat has a name's content sent again.
func (n *nameSub) repeat() {
	if n.lacks {
		return
	}
	if !n.dirty {
		n.dirty = true
		n.watch.dirty = append(n.watch.dirty, n)
	}
	n.beat = false
	n.watch.client.store.wake(n.watch)
}

// retimed notes that the client has a list, with the ttl of everything in it.
func (f *cursor) retimed() {
	f.beats = f.coll.table.store.beats
	f.lifted = f.beats
}

// owe notes that the client has to be told of what expired.
func (f *cursor) owe(key string) {
	if f.owed == nil {
		f.owed = make(map[string]bool)
	}
	f.owed[key] = true
}

// settled notes that it was.
func (f *cursor) settled(key string) {
	if f.owed != nil {
		f.owed = without(f.owed, key)
	}
}
