package cache

import "github.com/xdsrelay/xdsrelay/cache/digest"

// digests keeps the sums of a table up to date. They are the versions of lists (ACK-4). Each
// entry has its part, each collection the sum of its members, and each client the sum of its
// names. Guarded by Store.mu.
type digests struct {
	users int  // state-of-the-world cursors and names: they need the sums
	kept  bool // there was a user: the sums are kept up
}

// use records that one more client needs the sums, or one fewer with a negative n. After
// the first user the sums are kept up for good. Clients that poll come and go, and each
// would have all entries hashed again.
func (d *digests) use(n int, entries map[string]*Entry) {
	d.users += n
	if d.kept {
		return
	}
	d.kept = true
	for _, e := range entries {
		e.extra.setSum(e.digest())
		if e.Member() {
			e.coll.sum = e.coll.sum.Plus(e.extra.sum)
		}
	}
}

// contentChanged puts the present content of an entry into all sums that it is part of.
func (d *digests) contentChanged(e *Entry) {
	if !d.kept {
		return
	}
	was := e.extra.sum
	e.extra.setSum(e.digest())
	if e.Member() {
		e.coll.sum = e.coll.sum.Minus(was).Plus(e.extra.sum)
	}
	e.notify(Notice{Event: DigestChanged, Was: was, Is: e.extra.sum})
}

// check verifies the sums of the entries, and the number of clients that need them.
func (d *digests) check(c *Checker, entries map[string]*Entry, colls map[string]*Collection) {
	users := 0
	for _, coll := range colls {
		users += coll.states
	}
	for key, e := range entries {
		if e.extra.audience != nil {
			users += e.extra.audience.Count(NeedsDigests)
		}
		c.That(!d.kept || e.extra.sum == e.digest(), "%q: sum %s, its content says %s", key, e.extra.sum, e.digest())
	}
	c.That(d.kept || users == 0, "%d state-of-the-world subscriptions without sums", users)
	c.That(users == d.users, "%d state-of-the-world subscriptions counted as %d", users, d.users)
}

// digest is the entry's part of a sum: of its name and version, and of its content if the
// version does not stand for one content (ACK-4).
func (e *Entry) digest() digest.Sum {
	switch {
	case e.res == nil:
		return digest.Sum{}
	case e.marks.ReusedVersion:
		return digest.Of(e.key, e.Version(), e.res.Digest())
	}
	return digest.Of(e.key, e.Version())
}

// MovedDigest is a digest in place of another one, which no client can have from another
// scope: servers of two scopes may use the same versions for other contents (ACK-4).
func MovedDigest(was string) string { return digest.Of("moved", was).String() }

// PlainVersion is the part of a version that says what the content is: a digest stands behind a
// label.
func PlainVersion(version string) string { return digest.Plain(version) }

// EmptyVersion is the version_info of a list without resources.
func EmptyVersion() string { return digest.Sum{}.String() }
