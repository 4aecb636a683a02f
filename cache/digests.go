package cache

import "github.com/xdsrelay/xdsrelay/cache/digest"

// digests keeps up the sums of what a table holds, which are the versions of lists
// (ACK-4): in each entry its part, in each collection the sum of its members, and in each
// client the sum of what it names. Guarded by Store.mu.
type digests struct {
	users int  // state-of-the-world cursors and names: they need the sums
	kept  bool // there was a user: the sums are kept up
}

// use records that one more client needs the sums, or one fewer with a negative n. After
// the first user the sums are kept up for good. Clients that poll come and go, and each
// would have all entries hashed again.
func (d *digests) use(n int, entries map[string]*entry) {
	d.users += n
	if d.kept {
		return
	}
	d.kept = true
	for _, e := range entries {
		e.setSum(e.digest())
		if e.member() {
			e.coll.sum = e.coll.sum.Plus(e.sum)
		}
	}
}

// contentChanged puts the present content of an entry into all sums that it is part of.
func (d *digests) contentChanged(e *entry) {
	if !d.kept {
		return
	}
	was := e.sum
	e.setSum(e.digest())
	if e.member() {
		e.coll.sum = e.coll.sum.Minus(was).Plus(e.sum)
	}
	for _, s := range e.subs {
		s.resum(was, e.sum)
	}
}

// check verifies the sums of the entries, and the number of clients that need them.
func (d *digests) check(c *checker, entries map[string]*entry, colls map[string]*collection) {
	users := 0
	for _, coll := range colls {
		users += coll.states
	}
	for key, e := range entries {
		for _, sub := range e.subs {
			if sub.usesSums() {
				users++
			}
		}
		c.that(!d.kept || e.sum == e.digest(), "%q: sum %s, its content says %s", key, e.sum, e.digest())
	}
	c.that(d.kept || users == 0, "%d state-of-the-world subscriptions without sums", users)
	c.that(users == d.users, "%d state-of-the-world subscriptions counted as %d", users, d.users)
}

// digest is the entry's part of a sum: of its name and version. Where the version
// does not say what the content is, the content says it (ACK-4).
func (e *entry) digest() digest.Sum {
	switch {
	case e.listed() == nil:
		return digest.Sum{}
	case e.tainted:
		return digest.Of(e.key, e.version(), e.res.Digest())
	}
	return digest.Of(e.key, e.version())
}
