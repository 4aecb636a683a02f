package delivery

// A relay takes a quiet time for the end of a first answer (RES-2). If the answer broke off before
// its end, silence follows all the same. So a client that is a relay is told an error of the
// collection: it waits for another answer then. When the collection is complete the relay is sent a
// member once more, which is that answer.

// tellBreak tells a relay that an answer broke off, or that all is there. It returns false if there
// is no room.
func (wr *writer) tellBreak(f *follower) bool {
	times, err := f.Collection().BrokenOff()
	if err != nil {
		if !wr.tellError(err, f.name.text) {
			return false
		}
	} else if !wr.tellAllThere(f) {
		return false
	}
	f.broken = times
	return true
}

// tellBreakAgain has a relay told once more, as it is sent a member that it names: it takes that for an
// answer to the glob, too.
func (w *typeSub) tellBreakAgain(key string) {
	if f := w.subs.globs.of(key); f != nil && f.broken != 0 {
		if _, err := f.Collection().BrokenOff(); err != nil {
			f.broken = 0
		}
	}
}

// tellAllThere sends a member again, in a response of its own: the last one may have it too (RES-4).
// Without any member, or any that it may have, the client is answered anew that there is nothing:
// for "*" by a response that has no removals either.
func (wr *writer) tellAllThere(f *follower) bool {
	for e := f.Collection().First(); e != nil; e = e.Next() {
		if r := e.Resource(); r != nil && !f.hides(e) {
			wr.cur = nil
			return wr.add(e, r, f.name.of(e), false)
		}
	}
	if !f.Collection().Wildcard() {
		f.answered = false
		return true
	}
	wr.cur = nil
	wrote := wr.room(0)
	wr.cur = nil
	return wrote
}
