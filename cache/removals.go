package cache

// removals takes removals up to a number.
func (p *pass) removals(w *watch, upTo uint64) {
	if p.turn(w, byName) {
		p.dirtyNames(w, true, upTo)
		for _, g := range w.globs {
			if p.full {
				return
			}
			p.bury(w, g, upTo)
			p.collectionErrors(g, upTo)
		}
		if w.wildcard == nil {
			p.answers(w, byName, true)
		}
	}
	if p.turn(w, wholeType) {
		p.bury(w, w.wildcard, upTo)
		p.collectionErrors(w.wildcard, upTo)
		p.answers(w, wholeType, true)
	}
}

// bury takes the members that were removed since the cursor, up to a number, and what the
// client said it holds and the collection has not (RES-11).
func (p *pass) bury(w *watch, f *cursor, upTo uint64) {
	c := f.coll
	for e := c.tombs.after(f.removed, f.tomb, c); e != nil && e.changed <= upTo; e = e.next {
		if !p.look() {
			return
		}
		held := f.versions.has(e.key)
		_, owed := w.answers[e.key]
		switch {
		case f.byName(e.key), w.leaveToName(e.key, held || owed || e.added <= f.reached): // the name's answer tells what became of it
			f.since++
		case (held || owed || f.mayHave(e)) && f.leaveToGlob(e.key, f.spell(e)):
			f.since++
		case f.drops(e) && !held && !owed: // TTL-2
			f.since++
		case held || owed || e.added <= f.reached:
			if !p.removeVariant(e, false, f.spell(e)) {
				return
			}
			p.taken(e, true)
			w.unheld(e.key, f.spell(e))
			f.since++
		default: // what came and went between two passes needs no word
		}
		f.compared(e.key)
		f.handedOver.drop(e)
		w.answered(e.key)
		f.removed, f.tomb = e.changed, e
	}
	if f.claimsLeft() && w.claimsGo() {
		for _, key := range f.versions.sorted() {
			if f.lacksClaimed(key) && !p.remove(f.spellKey(key)) {
				return
			}
			f.compared(key)
		}
	}
	p.level(w, f)
}

// lacksClaimed reports whether the client is to be told that there is no member of a key that
// it said it holds: not where a name, another subscription's answer or a glob says what there is.
func (f *cursor) lacksClaimed(key string) bool {
	w := f.watch
	if w.named(key) || f.byName(key) || w.hasByAlias(key) {
		return false
	}
	name := f.spellKey(key)
	if n, owed := w.answers[key]; owed && n.Spelling == name {
		return false
	}
	return !f.leaveToGlob(key, name)
}
