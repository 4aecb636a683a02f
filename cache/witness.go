package cache

import "time"

// askedVersion is the version in which a witness, or a name (isWitness), is presented that the server
// must send, or say to be gone. Some servers say nothing of a name that does not exist and that they
// were shown no version of. No content has this version. "" would be that of a server without versions,
// of which restored content does not tell.
const askedVersion = "xdsrelay/asked"

// chooseWitness chooses a member that is not presented on a new stream, or, on one that began anew, in a
// version that no content has. It is another one than on the stream before, if there is one: that may be
// gone, and is presented now. Then the server must say so. Never is it one that the server removed: what is
// held of that is not presented anyway.
func chooseWitness(c *Collection) {
	w := &c.quiet.witness
	last := w.key
	w.key, w.asked = "", false
	if c.quiet.synced || !c.Restored() && !w.anew {
		return
	}
	for e := c.log.live.head; e != nil && (w.key == "" || w.key == last); e = e.next {
		if presentable(e) && !c.table.upstream.held.removes(e) {
			w.key, w.asked = e.key, w.anew
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
// gone. So it is if the server said nothing while the relay holds members, and there was no witness yet. It
// reports whether this was the first time.
func missWitness(c *Collection) bool {
	w := &c.quiet.witness
	holds := w.key != "" || c.Restored() || c.log.live.len > 0
	if c.table.store.source.State || c.quiet.synced || w.anew || !holds {
		return false
	}
	w.anew = true
	c.demand.ask()
	return true
}

// trustWitness ends the waiting for a witness that the server was shown, and has neither sent nor removed,
// though it has answered: it takes the versions of a client for names only, and has that one (RES-12).
func trustWitness(c *Collection) {
	if c.quiet.witness.asked {
		c.quiet.trust(c.table.entries[c.quiet.witness.key])
	}
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
