package cache

import "time"

// chooseWitness chooses a member that is not presented on a new stream. It is another one than on
// the stream before, if there is one: that may be gone. Then the server must say so. Never is it one that
// the server did not send when it was asked to, nor one that the server removed: what is held of that is
// not presented anyway.
func chooseWitness(c *Collection) {
	w := &c.quiet.witness
	last := w.key
	w.key = ""
	if c.quiet.synced || !c.Restored() && !w.anew {
		return
	}
	for e := c.log.live.head; e != nil && (w.key == "" || w.key == last); e = e.next {
		if presentable(e) && e.key != w.missed && !c.table.upstream.held.removes(e) {
			w.key = e.key
		}
	}
}

// lacksWitness reports whether the server has not sent the witness on the present stream.
func lacksWitness(c *Collection) bool {
	if c.quiet.synced || c.quiet.witness.key == "" {
		return false
	}
	e := c.table.entries[c.quiet.witness.key]
	return e != nil && e.coll == c && e.Member() && c.quiet.isStale(e)
}

// missWitness has the stream begin anew, once, as the server did not send the witness: it may be
// gone. Then it is presented, and another one is not if there is one. So it is if the server said nothing
// while the relay holds members, and there was no witness yet. It reports whether this was the first time.
func missWitness(c *Collection) bool {
	w := &c.quiet.witness
	first := w.missed == "" && (w.key != "" || !w.anew && (c.Restored() || c.log.live.len > 0))
	if c.table.store.source.State || c.quiet.synced || !first {
		return false
	}
	w.missed, w.anew = w.key, true
	c.demand.ask()
	return true
}

// settlesAt is when the quiet time of a collection ends; zero if there is none. The server has long
// to send the witness.
func settlesAt(c *Collection) time.Time {
	source := &c.table.store.source
	if lacksWitness(c) {
		return c.quiet.end(source.longQuiet(), source.longQuiet())
	}
	return c.quiet.end(source.Quiet, source.longQuiet())
}
