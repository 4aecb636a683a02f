package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/verdict"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Snapshot is what subscriptions to one type hold at one moment. It is for clients
// that are told everything each time, such as those that poll: nothing is kept of
// what they were sent.
type Snapshot struct {
	// Resources has each name once (RES-4).
	Resources []Named
	// Errors are those of what is subscribed to, whether anything is held of it or not
	// (ERR-1).
	Errors []NamedError
	// Version is the version_info for them: the server's where that speaks the state
	// of the world, "*" is all that is subscribed to, and the version stands for this
	// content and no other; else Digest (ACK-4). Other names mean another version,
	// unless they hold the same.
	Version string
	// Digest is the digest of the names and versions, and of the errors, the same in
	// every replica. With errors it is the version too: who does not repeat nonces
	// would be told the same errors again at once.
	Digest string
	// Complete says that nothing is unknown: every name is answered and every
	// collection synced (RES-2).
	Complete bool
	// Lacks says that Resources lack content which is not kept, and which the server
	// is asked for anew; the versions are those of the whole (TTL-5).
	Lacks bool
	// Received is when the oldest of the changes since the first snapshot came from
	// upstream; zero if there was none.
	Received time.Time
	// Parts are the stores of which they come, each with the changes up to the youngest one of
	// them.
	Parts []Part

	last uint64 // of one store: the number of the youngest change
}

// Named is a resource and the name that the client knows it by: of a wrapped one
// (Form) in the client's spelling (NAME-4).
type Named struct {
	Resource *wire.Resource
	Name     string
}

// NamedError is an error and the name that the client knows what it is of by (NAME-4).
type NamedError struct {
	Error *wire.ResourceError
	Name  string
}

// TakeSnapshot takes what places in any number of stores, of which those that do not
// subscribe to the type are passed over, hold together. Each place is woken by its
// next change. The clients are of the state-of-the-world form and are told of the type in
// no other way. No two stores' locks are held together. Errors of names that are in no
// store may be given, to be told with the rest.
func TakeSnapshot(clients []*Client, typeURL string, given ...NamedError) *Snapshot {
	all := &Snapshot{Complete: true, Version: EmptyVersion(), Digest: EmptyVersion()}
	var versions, digests []string
	names := make(map[string]bool)
	for _, i := range wildcardsLast(clients) {
		s := clients[i].snapshot(typeURL)
		if s == nil {
			continue
		}
		for _, r := range s.Resources {
			if key := variantName(r.Name, r.Resource); !names[key] { // "*" of one store may bring what is named in another (RES-4)
				names[key] = true
				all.Resources = append(all.Resources, r)
			}
		}
		all.Errors = append(all.Errors, s.Errors...)
		all.Complete, all.Lacks = all.Complete && s.Complete, all.Lacks || s.Lacks
		if s.last > 0 {
			all.Parts = append(all.Parts, Part{clients[i].store, verdict.Span{First: 1, Last: s.last}})
		}
		if all.Received.IsZero() || (!s.Received.IsZero() && s.Received.Before(all.Received)) {
			all.Received = s.Received
		}
		versions, digests = append(versions, s.Version), append(digests, s.Digest)
	}
	if len(versions) > 0 {
		all.Version, all.Digest = digest.Join(versions), digest.Join(digests)
	}
	all.Errors = append(all.Errors, given...)
	if len(all.Errors) > 0 {
		all.Digest = digestWith(all.Digest, all.Errors)
		all.Version = all.Digest
	}
	return all
}

// snapshot is the part of one store, nil if nothing is subscribed to there.
func (c *Client) snapshot(typeURL string) *Snapshot {
	c.store.mu.RLock()
	defer c.store.mu.RUnlock()
	c.woken = false
	for _, w := range c.watches {
		w.woken = false
		w.rest()
	}
	w := c.find(typeURL)
	if w == nil {
		return nil
	}
	t := snapshotTaker{
		watch: w, names: make(map[string]bool),
		taken: &Snapshot{Complete: w.known()},
	}
	t.all()
	if !w.listed {
		w.listed, w.sent = true, c.store.seq
	}
	s := t.taken
	s.Digest = c.store.named(w.digest(t.passed))
	s.Version = s.Digest
	if v := w.serverVersion(); v != "" && t.passed == (digest.Sum{}) && w.wildcardOnly() && w.trusted() {
		s.Version = v
	}
	return s
}

// digestWith is the digest of what has a digest and of errors beside it, whose order
// does not matter.
func digestWith(version string, errs []NamedError) string {
	total := digest.Of("content", version)
	for _, e := range errs {
		total = total.Plus(digest.Of("error", e.Error.Encoded(e.Name)))
	}
	return total.String()
}

// snapshotTaker walks through what a watch holds.
type snapshotTaker struct {
	watch  *watch
	names  map[string]bool
	passed digest.Sum // of what is not kept
	taken  *Snapshot
}

func (t *snapshotTaker) all() {
	w := t.watch
	for _, sub := range w.names.sorted() {
		name := sub.shown()
		if e := sub.entry; e.alias {
			name = e.servedName()
		}
		t.add(sub.entry, name, w.handedOver[sub])
		if sub.entry.err != nil {
			t.taken.Errors = append(t.taken.Errors, NamedError{sub.entry.err, sub.spelling})
		}
	}
	w.errors.names = nil // all of it was told
	for f := range w.cursors() {
		for e := f.coll.live.head; e != nil; e = e.next {
			if !f.byName(e.key) {
				t.add(e, f.spell(e), f.handedOver[e])
			}
		}
		t.errors(f)
		// Nobody is told of removals: no tombstone needs to wait for this client.
		f.removed, f.tomb = w.client.store.seq, nil
		f.dropGone()
	}
}

// errors takes the errors of a collection and of names in it.
func (t *snapshotTaker) errors(f *cursor) {
	for x := f.coll.errors.after(0); x != nil; x = x.next() {
		if f.tellsError(x.key) {
			t.taken.Errors = append(t.taken.Errors, NamedError{x.err, f.spellError(x)})
		}
	}
}

// add takes an entry in. waits is its content where that is not kept and waits for
// the client.
func (t *snapshotTaker) add(e *entry, name string, waits *wire.Resource) {
	if !e.there() {
		return
	}
	r := e.listed()
	if r == nil { // not in the watch's sum either
		t.passed = t.passed.Plus(digest.Of(e.key, e.version()))
		r = waits
	}
	if r == nil {
		t.taken.Lacks = true
		return
	}
	if !t.watch.client.form.Wrapped {
		name = r.Name // a bare payload carries the server's spelling (NAME-4)
	}
	key := variantName(name, r)
	if t.names[key] {
		return
	}
	t.names[key] = true
	s := t.taken
	s.Resources = append(s.Resources, Named{r, name})
	s.last = max(s.last, e.changed)
	if t.watch.listed && e.changed > t.watch.sent {
		if at := time.Unix(0, e.received); s.Received.IsZero() || at.Before(s.Received) {
			s.Received = at
		}
	}
}
