package cache

import "github.com/xdsrelay/xdsrelay/keyer"

// checkError verifies what an entry says of errors.
func (e *entry) checkError(c *checker, t *table) {
	c.that(e.state != failed || e.err != nil, "%q is failed without an error", e.key)
	c.that(e.err == nil || e.state == failed || e.there(), "%q is %s and has an error", e.key, e.state)
	c.that(e.err == nil || e.state == failed || e.err.Transient(), "%q is %s in spite of its error", e.key, e.state)
	_, excused := t.excused[e]
	c.that(!excused || (e.err != nil && e.there()), "%q is excused for nothing", e.key)
}

// checkFailures verifies what a collection remembers of errors.
func (coll *collection) checkFailures(c *checker) {
	fs := coll.fails
	if fs == nil {
		return
	}
	last, n := uint64(0), 0
	for el := fs.order.Front(); el != nil; el = el.Next() {
		x := failureOf(el)
		n++
		c.that(fs.byKey[x.key] == el, "%q: the error of %q is not found", coll.key, x.key)
		c.that(x.number > last && x.number <= coll.table.store.seq, "%q: the error of %q is out of order", coll.key, x.key)
		last = x.number
		member := coll.wildcard() || keyer.GlobOf(x.key) == coll.key
		c.that(x.key == coll.key || member, "%q: the error of %q is another collection's", coll.key, x.key)
		e := coll.table.entries[x.key]
		c.that(e == nil || e.coll != coll || !e.there() || (e.err != nil && *e.err == *x.err),
			"%q: %q is there, and its error is another one", coll.key, x.key)
	}
	c.that(n > 0 && n == len(fs.byKey), "%q: %d errors, %d by key", coll.key, n, len(fs.byKey))
	c.that(!fs.standing || coll.whole() != nil, "%q stands without an error", coll.key)
}

// checkFailures verifies the number of collections with an error of the whole, and that
// nothing is kept of entries that are gone.
func (t *table) checkFailures(c *checker) {
	failing := 0
	for _, coll := range t.colls {
		if coll.whole() != nil {
			failing++
		}
		_, waits := t.unanswered[coll]
		c.that(!coll.standing() || !coll.interest.subscribed || waits, "%q has no members for now, and its answer is not awaited", coll.key)
	}
	c.that(failing == t.failing, "%d collections with errors counted as %d", failing, t.failing)
	for e := range t.excused {
		c.that(t.entries[e.key] == e, "%q is excused and gone", e.key)
	}
}
