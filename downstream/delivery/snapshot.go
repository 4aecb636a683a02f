package delivery

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Snapshot is what subscriptions to one type hold at one moment. It is for clients that are
// told everything each time, such as those that poll: nothing is kept of what they were sent.
type Snapshot struct {
	// Resources has each name once (RES-4).
	Resources []Named
	// Without has the aliases of Resources that the client may not have (ACC-3): nearly always none.
	Without map[*wire.Resource][]string
	// Errors are those of what is subscribed to, whether anything is held of it or not (ERR-1).
	Errors []NamedError
	// Version is the version_info for them: the server's where that speaks the state of the
	// world, "*" is all that is subscribed to, and the version stands for this content and no
	// other; else Digest, behind a label for people to read (ACK-4). Other names mean another
	// version, unless they hold the same.
	Version string
	// Content is the digest of the names and versions, the same in every replica.
	Content string
	// Digest is Content, and behind it the digest of the errors, if there are any. With errors
	// it is the version too: who does not repeat nonces would be told the same errors again at
	// once.
	Digest string
	// Complete says that nothing is unknown: every name is answered and every collection synced
	// (RES-2).
	Complete bool
	// Restored says that something in it, or that Confirmed left out of it, comes from an earlier
	// process, and that the server has not confirmed it: it must not replace what a client
	// presents (SUR-1).
	Restored bool
	// Awaited says that a list waits for the server's word of something that is restored.
	Awaited bool
	// Open says that a collection may have more members: the server has not sent them all.
	Open bool
	// Known says that something is known of what is subscribed to: a resource, or that there is
	// none. A list of which nothing is known would delete everything (ABS-3).
	Known bool
	// Received is when the oldest of the changes since the first snapshot came from upstream;
	// zero if there was none.
	Received time.Time
	// Parts are the stores of which they come, each with the changes up to the youngest one of
	// them.
	Parts []Part

	last      uint64 // of one store: the number of the youngest change
	confirmed string // Content without the resources that are restored
}

// NamedError is an error, and the client's name for the resource (NAME-4).
type NamedError struct {
	Error *wire.ResourceError
	Name  string
}

// TakeSnapshot returns what places in any number of stores hold together. It skips those that
// do not subscribe to the type. The next change rings for each place. The clients are of the
// state-of-the-world form and are told of the type in no other way. No two stores' locks are
// held together. Errors of names that are in no store may be given, to be told with the rest.
func TakeSnapshot(clients []*Place, typeURL string, given ...NamedError) *Snapshot {
	all := &Snapshot{Complete: true, Version: cache.EmptyVersion(), Content: cache.EmptyVersion()}
	var versions, digests, confirmed []string
	names := make(map[string]bool)
	for _, i := range wildcardsLast(clients) {
		s := clients[i].snapshot(typeURL)
		if s == nil {
			continue
		}
		all.Known, all.Open = all.Known || s.Known, all.Open || s.Open
		for _, r := range s.Resources {
			if !names[r.Name] { // "*" of one store may bring what is named in another (RES-4)
				names[r.Name] = true
				all.Resources = append(all.Resources, r)
				if aliases := s.Without[r.Resource]; aliases != nil {
					all.without(r.Resource, aliases)
				}
			}
		}
		all.Errors = append(all.Errors, s.Errors...)
		all.Complete = all.Complete && s.Complete
		all.Restored, all.Awaited = all.Restored || s.Restored, all.Awaited || s.Awaited
		if s.last > 0 {
			all.Parts = append(all.Parts, Part{clients[i].store, ack.Span{First: 1, Last: s.last}})
		}
		all.Received = notify.Earlier(all.Received, s.Received)
		versions, digests, confirmed = append(versions, s.Version), append(digests, s.Content), append(confirmed, s.confirmed)
	}
	if len(versions) > 0 {
		all.Version, all.Content, all.confirmed = digest.Join(versions), digest.Join(digests), digest.Join(confirmed)
	}
	all.Known = all.Known || len(versions) == 0
	all.Errors = append(all.Errors, given...)
	all.Digest = all.DigestOf(all.Content)
	if len(all.Errors) > 0 {
		all.Version = all.Digest
	}
	return all
}

// Confirmed returns the snapshot without the resources that are restored.
func (s *Snapshot) Confirmed() *Snapshot {
	c := *s
	c.Resources = nil
	for _, r := range s.Resources {
		if !r.Resource.Restored() {
			c.Resources = append(c.Resources, r)
		}
	}
	c.Content = s.confirmed
	c.Digest = c.DigestOf(c.Content)
	c.Version = c.Digest
	return &c
}

// snapshot returns the part of one store, nil if nothing is subscribed to there.
func (c *Place) snapshot(typeURL string) (s *Snapshot) {
	c.store.View(func() { s = c.takeSnapshot(typeURL) })
	return s
}

// takeSnapshot does so. The caller holds the store's lock.
func (c *Place) takeSnapshot(typeURL string) *Snapshot {
	c.bell.Arm()
	for _, w := range c.types {
		w.bell.Arm(false)
		w.subs.wait()
	}
	w := c.find(typeURL)
	if w == nil {
		return nil
	}
	t := snapshotTaker{
		typeSub: w, names: make(map[string]bool),
		taken: &Snapshot{Complete: w.subs.known(), Known: w.subs.anyKnown(), Restored: w.subs.restored(), Awaited: w.awaitsWord(), Open: w.subs.open()},
	}
	t.all()
	if !w.list.listed {
		w.list.listed, w.progress.sent = true, c.store.Revision()
	}
	s := t.taken
	total, v := w.subs.digest(digest.Sum{}), w.version()
	s.Content, s.Version = c.store.VersionOf(total, nil), c.store.VersionOf(total, v.system())
	s.confirmed = c.store.VersionOf(total.Minus(t.restored), nil)
	if server := v.server(); server != "" && w.subs.wildcardOnly() && v.trusted() {
		s.Version = server
	}
	return s
}

// errorsMark stands between the digests of content and of errors.
const errorsMark = "-"

// DigestOf returns a digest of content, and behind it that of the errors, if there are any. Their
// order does not count.
func (s *Snapshot) DigestOf(content string) string {
	if len(s.Errors) == 0 {
		return content
	}
	var total digest.Sum
	for _, e := range s.Errors {
		total = total.Plus(digest.Of("error", e.Error.Encoded(e.Name)))
	}
	return content + errorsMark + total.String()
}

// ContentOf returns the part of a Snapshot's Digest that is its Content.
func ContentOf(digest string) string {
	content, _, _ := strings.Cut(digest, errorsMark)
	return content
}

// snapshotTaker walks through all that a type subscription holds.
type snapshotTaker struct {
	typeSub  *typeSub
	names    map[string]bool
	restored digest.Sum // of what is restored
	taken    *Snapshot
}

func (t *snapshotTaker) all() {
	w := t.typeSub
	for _, sub := range w.subs.names.sorted() {
		name := sub.spelling
		if e := sub.entry; e.Marks().Alias {
			name = e.ServedName()
		}
		denied := sub.denied()
		if !denied {
			t.add(sub.entry, name)
		}
		t.restore(sub.entry, denied)
		if sub.entry.Err() != nil && !sub.concealed() {
			t.taken.Errors = append(t.taken.Errors, NamedError{w.mask(sub.entry.Err()), sub.spelling})
		}
	}
	w.changed.errors.names = nil // all of it was told
	for f := range w.subs.cursors() {
		for e := f.Collection().First(); e != nil; e = e.Next() {
			hidden := f.hides(e)
			if !hidden && !w.subs.byName(f, e.Key()) {
				t.add(e, f.name.of(e))
			}
			t.restore(e, hidden)
		}
		t.errors(f)
		// Nobody is told of removals: no tombstone needs to wait for this client.
		f.SkipRemovals(w.place.store.Revision())
	}
}

// restore takes note of a restored entry in the sum of the subscriptions. An entry is there once by
// its name, and once as a member.
func (t *snapshotTaker) restore(e *cache.Entry, hidden bool) {
	if e.Restored() && !hidden {
		t.restored = t.restored.Plus(e.Digest())
	}
}

// errors takes the errors of a collection and of names in it.
func (t *snapshotTaker) errors(f *follower) {
	for x := f.Collection().ErrorsAfter(0); x != nil; x = x.Next() {
		if t.typeSub.subs.tellsError(f, x) {
			t.taken.Errors = append(t.taken.Errors, NamedError{t.typeSub.mask(x.Err()), f.name.ofError(x, f.Collection())})
		}
	}
}

// take adds a resource that may go to the client. Only put calls it.
func (s *Snapshot) take(c outgoing) {
	s.Resources = append(s.Resources, Named{c.resource, c.name})
	if c.without != nil {
		s.without(c.resource, c.without)
	}
}

// without notes aliases that the client may not have.
func (s *Snapshot) without(r *wire.Resource, aliases []string) {
	if s.Without == nil {
		s.Without = make(map[*wire.Resource][]string)
	}
	s.Without[r] = aliases
}

// Equal reports whether a client is sent the same resources by another snapshot, to the byte.
func (s *Snapshot) Equal(o *Snapshot) bool {
	return slices.Equal(s.Resources, o.Resources) && maps.EqualFunc(s.Without, o.Without, slices.Equal)
}

// add takes an entry in.
func (t *snapshotTaker) add(e *cache.Entry, name string) {
	if !e.Exists() {
		return
	}
	r := e.Resource()
	name, _ = t.typeSub.place.format.measure(r, name)
	s := t.taken
	if t.names[name] || !t.typeSub.put(s, outgoing{resource: r, name: name}) {
		return
	}
	t.names[name] = true
	s.last = max(s.last, e.Changed())
	if t.typeSub.list.listed && e.Changed() > t.typeSub.progress.sent {
		s.Received = notify.Earlier(s.Received, e.ReceivedAt())
	}
}
