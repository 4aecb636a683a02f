package cache

// answers tells what the collections of a kind hold under names whose own
// subscription ended (SUB-8), or that they do not.
func (p *pass) answers(w *watch, k kind, away bool) {
	for key, n := range w.answers {
		e, known := w.lookup(n)
		switch {
		case p.full:
			return
		case !known || away != (e == nil):
			continue
		case e == nil:
			if !w.leavesToGlob(n) && !p.remove(n.Spelling) {
				return
			}
		case e.coll.table.kind != k:
			continue
		case !p.add(e, e.res, w.answerName(e, n), false):
			return
		}
		for _, f := range []*cursor{w.wildcard, w.globFor(key)} {
			if f != nil {
				f.compared(key)
			}
		}
		w.answered(key)
		p.look() // there may be as many as the members of a large glob
	}
}

// leavesToGlob has a glob of another store answer for a name that "*" does not have. A glob of
// this store was asked before "*" (lookup).
func (w *watch) leavesToGlob(n Name) bool {
	return w.wildcard != nil && w.globFor(n.Key) == nil && w.wildcard.leaveToGlob(n.Key, n.Spelling)
}

// answered notes that nothing is owed for a key any more.
func (w *watch) answered(key string) {
	if w.answers != nil {
		w.answers = without(w.answers, key)
	}
}

// cursorOf is the one that follows the collection of a member.
func (w *watch) cursorOf(e *entry) *cursor {
	if e.coll.wildcard() {
		return w.wildcard
	}
	return w.globFor(e.key)
}

// answerName is the name under which a member is told in place of another subscription: that
// of the one that ended, if a glob has it too.
func (w *watch) answerName(e *entry, n Name) string {
	if !e.coll.wildcard() && w.globCalling(e.key, n.Spelling) != nil {
		return n.Spelling
	}
	return w.cursorOf(e).spell(e)
}

// lookup finds a name in the collections that the client follows. known is false
// as long as the wildcard's members may still be on their way, and where the
// removal is told by the cursor.
func (w *watch) lookup(n Name) (e *entry, known bool) {
	g := w.globFor(n.Key)
	if g != nil {
		if e, told := g.lookup(n.Key); e != nil || told {
			return e, e != nil
		}
	}
	switch {
	case w.wildcard == nil:
		return nil, g != nil && g.coll.synced
	case w.namedElsewhere(n.Key):
		return nil, false // it was named again
	}
	e, told := w.wildcard.lookup(n.Key)
	return e, e != nil || (!told && w.wildcard.coll.synced)
}

// lookup finds a member; willTell reports that it was one, and that the cursor is
// still to tell of its removal.
func (f *cursor) lookup(key string) (e *entry, willTell bool) {
	e = f.coll.table.entries[key]
	switch {
	case e == nil || e.coll != f.coll:
		return nil, false
	case e.dead:
		return nil, e.changed > f.removed
	case e.state == transient && !(f.watch.full && e.listed() != nil):
		return nil, true // with the content, which the server was asked for
	}
	return e, false
}
