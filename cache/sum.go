package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"slices"
)

// sum is a digest of a set of resources: the digests of its members, added up.
// The order does not matter, and a member is taken in or out in one step, so that
// a change costs the same whatever the size of the set (ACK-4).
type sum struct{ hi, lo uint64 }

func (s sum) plus(o sum) sum {
	lo, carry := bits.Add64(s.lo, o.lo, 0)
	hi, _ := bits.Add64(s.hi, o.hi, carry)
	return sum{hi, lo}
}

func (s sum) minus(o sum) sum {
	lo, borrow := bits.Sub64(s.lo, o.lo, 0)
	hi, _ := bits.Sub64(s.hi, o.hi, borrow)
	return sum{hi, lo}
}

// String is the sum as a version, the same in every replica.
func (s sum) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], s.hi)
	binary.BigEndian.PutUint64(b[8:], s.lo)
	return hex.EncodeToString(b[:])
}

// sumOf is the digest of a list of words.
func sumOf(words ...string) sum {
	var room [256]byte
	b := room[:0]
	for _, w := range words {
		b = binary.AppendUvarint(b, uint64(len(w)))
		b = append(b, w...)
	}
	h := sha256.Sum256(b)
	return sum{binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:16])}
}

// digest is the entry's part of a sum: of its name and version. Where the version
// does not say what the content is, the content says it (ACK-4).
func (e *entry) digest() sum {
	switch {
	case e.listed() == nil:
		return sum{}
	case e.tainted:
		return sumOf(e.key, e.version(), e.res.Digest())
	}
	return sumOf(e.key, e.version())
}

// counted notes that one more client needs the table's sums, or one less with a
// negative n. Once somebody did they are kept up for good: polls come and go, and each
// would have the whole table hashed anew.
func (t *table) counted(n int) {
	t.states += n
	if t.summed {
		return
	}
	t.summed = true
	for _, e := range t.entries {
		e.setSum(e.digest())
		if e.member() {
			e.coll.sum = e.coll.sum.plus(e.sum)
		}
	}
}

// resum puts the present content of an entry into all sums that it is part of.
func (t *table) resum(e *entry) {
	if !t.summed {
		return
	}
	was := e.sum
	e.setSum(e.digest())
	if e.member() {
		e.coll.sum = e.coll.sum.minus(was).plus(e.sum)
	}
	for _, s := range e.subs {
		s.watch.sum = s.watch.sum.minus(was).plus(e.sum)
	}
}

// MovedDigest is a digest in place of another one, which no client can have from another
// scope: servers of two scopes may use the same versions for other contents (ACK-4).
func MovedDigest(digest string) string { return sumOf("moved", digest).String() }

// EmptyVersion is the version_info of a list without resources.
func EmptyVersion() string { return sum{}.String() }

// joinVersions is the version of what has parts with versions of their own: a
// digest that does not depend on their order (ACK-4).
func joinVersions(parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return sumOf(slices.Sorted(slices.Values(parts))...).String()
}

// version is the version_info of what the client's subscriptions to the type hold:
// the server's where that speaks the state of the world too, else a digest that is the
// same for every client with these subscriptions (ACK-4). extra is the sum of what a
// list holds beyond that, of which no server knows.
func (w *watch) version(extra sum) string {
	if extra == (sum{}) {
		if v := w.serverVersion(); v != "" {
			return v
		}
	}
	return w.client.store.named(w.digest(extra))
}

// named is the version of what has a digest, which says of what scope it is. Nothing is
// the same in every scope.
func (s *Store) named(total sum) string {
	if s.source.Scope != "" && total != (sum{}) {
		total = sumOf("scope", s.source.Scope, total.String())
	}
	return total.String()
}

// digest is the sum of what the client's subscriptions to the type hold, and of
// something extra.
func (w *watch) digest(extra sum) sum {
	total := w.sum.plus(extra)
	for _, g := range w.globs {
		total = total.plus(g.coll.sum)
	}
	if w.wildcard != nil {
		total = total.plus(w.wildcard.coll.sum)
	}
	return total
}

// serverVersion is what a source of the state of the world calls what the client's
// subscriptions hold, to the letter; "" if it gave no version, or does not speak so.
func (w *watch) serverVersion() string {
	var parts []string
	if w.wildcard != nil {
		parts = append(parts, w.wildcard.coll.table.versionInfo())
	}
	if w.names.len()+len(w.globs) > 0 {
		parts = append(parts, w.client.store.tables[tableKey{w.typeURL, byName}].versionInfo())
	}
	if len(parts) == 0 || slices.Contains(parts, "") {
		return ""
	}
	return joinVersions(parts)
}

// current reports whether the client showed, when its stream began, the version
// of what its subscription holds now (ACK-5). What it names is sent all the same
// (WARM-2), and before the collection is synced nobody knows what it holds. Of a
// type that is sent by what changed the version says less: a client that has one
// part of a split response knows the version of all.
func (w *watch) current() bool {
	return w.full && w.presented != "" && !w.listed && w.wildcardOnly() && w.wildcard.coll.synced &&
		w.wildcard.coll.relayed == 0 && !w.hasTTLs() && w.presented == w.version(sum{}) && w.trusted()
}

// hasTTLs reports whether what "*" holds has ttls that the client is to be told, or had
// ones that it may have been told.
func (w *watch) hasTTLs() bool { return w.client.form.TTL && w.wildcard.coll.table.lives > 0 }

// trusted reports whether the version of "*" stands for what it holds and nothing else.
// A digest always does.
func (w *watch) trusted() bool {
	return w.serverVersion() == "" || w.wildcard.coll.table.versionTrusted()
}

// wildcardOnly reports whether "*" is all that is subscribed to.
func (w *watch) wildcardOnly() bool {
	return w.wildcard != nil && w.names.len()+len(w.globs) == 0
}

// StateVersion is the version_info of a response of the state of the world that adds
// nothing to what places in any number of stores hold of a type, and takes nothing from
// it.
func StateVersion(clients []*Client, typeURL string) string {
	var versions []string
	for _, c := range clients {
		c.store.mu.RLock()
		if w := c.find(typeURL); w != nil {
			versions = append(versions, w.version(sum{}))
		}
		c.store.mu.RUnlock()
	}
	if len(versions) == 0 {
		return EmptyVersion()
	}
	return joinVersions(versions)
}
