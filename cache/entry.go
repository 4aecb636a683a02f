package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// State is what the relay knows of a name.
type State uint8

// The states.
const (
	Unknown State = iota // asked for, not answered
	Present              // the server sent it
	Absent               // the server said that it does not exist
	Failed               // the server reported an error for it (ERR-1)
)

func (s State) String() string {
	return [...]string{"unknown", "present", "absent", "failed"}[s]
}

// settled reports whether the server said whether the resource exists. It is false for all that is open.
func (s State) settled() bool { return s == Present || s == Absent }

// Entry is one name in a table. There may be millions of entries. Rarely used fields are in
// extra. Guarded by Store.mu.
type Entry struct {
	key   string          // canonical name; see shareKey
	res   *wire.Resource  // present only
	coll  *Collection     // the glob or wildcard it is a member or a tombstone of
	past  *digest.History // of its contents before; nil until there was one
	extra extras

	prev, next *Entry // in coll.log.live or coll.log.tombstones

	changed  uint64 // number of the last change
	added    uint64 // revision at which it came into its collection; see Entry.Added
	received int64  // when the last change was received, Unix nanoseconds

	epoch    uint32 // of the collection, when the server last confirmed it (RES-14)
	response uint32 // exchange.response of the last state-of-the-world response that held it
	state    State
	marks    Marks
	reported attention // whether clients or pins have it, as the reader of references was told
}

// Marks are what is true of an entry, whatever its state is.
type Marks struct {
	Alias         bool // a resource of another name serves it, which lists its key as an alias (RES-10)
	ReusedVersion bool // the version now held was seen with other contents too (ACK-4)
	Suspect       bool // a client rejected the content alone (ACK-3)
	Tombstone     bool // it was removed from its collection
	Overdue       bool // the server was asked long ago, and has not answered on the present stream (RES-7)

	sharesKey bool // key is part of the bytes of res
	unglobbed bool // in Table.unglobbed
	pinned    bool // in demandQueue.pins
	stray     bool // a resource that referred to it does not any more
}

// newEntry returns an unknown entry.
func newEntry(key string) *Entry { return &Entry{key: key, extra: extras{noExtra}} }

// Name is the entry's name as it goes upstream, and to clients of "*".
func (e *Entry) Name() string {
	if e.extra.spelled != "" {
		return e.extra.spelled
	}
	return e.key
}

// Member reports whether e is a living member of a collection.
func (e *Entry) Member() bool { return e.coll != nil && !e.marks.Tombstone }

// Size is the number of bytes that e takes of the cache's limit.
func (e *Entry) Size() int64 {
	if e.res == nil {
		return 0
	}
	return int64(e.res.Size())
}

// Exists reports whether the resource exists.
func (e *Entry) Exists() bool { return e.state == Present }

// ServedName is the server's name of the resource that serves the entry. An alias has
// another name than its own there.
func (e *Entry) ServedName() string {
	if e.state == Present {
		return e.res.Name
	}
	return e.Name()
}

// list is an intrusive list of entries ordered by entry.changed.
type list struct {
	head, tail *Entry
	len        int
}

func (l *list) push(e *Entry) {
	e.prev, e.next = l.tail, nil
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.next = e
	}
	l.tail = e
	l.len++
}

func (l *list) remove(e *Entry) {
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	l.len--
}

// after returns the first entry with a number above n. hint may be the entry that had number n when
// it was last looked at; if it has been changed since, the list is walked from both ends, which
// costs as many steps as there are changes, or as there are entries without any if these are fewer.
func (l *list) after(n uint64, hint *Entry, coll *Collection) *Entry {
	if n == 0 {
		return l.head
	}
	if l.tail == nil || l.tail.changed <= n {
		return nil
	}
	if hint != nil && hint.changed == n && hint.coll == coll {
		return hint.next
	}
	e, old := l.tail, l.head
	for e.prev != nil && e.prev.changed > n {
		if old.changed > n {
			return old
		}
		e, old = e.prev, old.next
	}
	return e
}

// attention says whether clients, or only pins, have an entry that refers to others.
type attention uint8

const (
	plain   attention = iota // it refers to nothing
	ignored                  // no client and no pin has it
	pinned                   // only pins have it
	watched                  // a client has it
)

// Key is the canonical name. It may lie in bytes that go with the content: a copy must be
// taken of a key that is kept for longer than the lock is held.
func (e *Entry) Key() string { return e.key }

// State is what the relay knows of the name.
func (e *Entry) State() State { return e.state }

// Resource is the content, nil if there is none, or none that is kept.
func (e *Entry) Resource() *wire.Resource { return e.res }

// Err is the error that the server gave for the name (ERR-1), nil for none.
func (e *Entry) Err() *wire.ResourceError { return e.extra.err }

// Changed is the revision of the last change.
func (e *Entry) Changed() uint64 { return e.changed }

// Added is the revision at which the entry came into its collection. A member that was
// removed and came back may have an older one: a client may not have been told.
func (e *Entry) Added() uint64 { return e.added }

// ReceivedAt is when the last change was received.
func (e *Entry) ReceivedAt() time.Time { return time.Unix(0, e.received) }

// CameBack reports whether a cluster was removed, as a client was told that came to the
// tombstone removed, and is there again since a revision.
func (e *Entry) CameBack(since, removed uint64) bool {
	return e.extra.back.came > since && e.extra.back.removed <= removed
}

// Collection is the glob or wildcard that has the entry as a member or a tombstone, nil for none.
func (e *Entry) Collection() *Collection { return e.coll }

// Next is the member that changed next, or the next tombstone, nil for none.
func (e *Entry) Next() *Entry { return e.next }

// Retained is the former content of a tombstone, while lists may hold it (ADS-1), nil for none.
func (e *Entry) Retained() *wire.Resource { return e.extra.retained }

// Lifetime is the entry's ttl. It is nil if there never was one.
func (e *Entry) Lifetime() *Lifetime { return e.extra.life }

// Digest is the entry's part of the digests of lists, while the table keeps them (ACK-4).
func (e *Entry) Digest() digest.Sum { return e.extra.sum }

// Audience is all subscriptions to the name, nil for none.
func (e *Entry) Audience() Audience { return e.extra.audience }

// notify tells the subscriptions to the name.
func (e *Entry) notify(n Notice) {
	if a := e.extra.audience; a != nil {
		a.Notify(n)
	}
}

// Absence is why the name stands for nothing, nil for no more than its state.
func (e *Entry) Absence() *Absence { return e.extra.absence }

// Marks are what is true of the entry, whatever its state is.
func (e *Entry) Marks() Marks { return e.marks }

// Open reports whether the server has not said if the resource exists. A transient error leaves
// that open (ERR-1).
func (e *Entry) Open() bool {
	return e.state == Unknown ||
		(e.state == Failed && e.extra.err.Transient())
}

// Unanswered reports whether the server may soon say if the resource exists. An error that leaves
// it open counts like silence: the relay waits while the clock runs (RES-7, ERR-1).
func (e *Entry) Unanswered() bool { return e.Open() && !e.marks.Overdue }

// wanted reports whether a client subscribes to the name, or it is pinned.
func (e *Entry) wanted() bool { return e.extra.audience != nil || e.marks.pinned }

// presentable reports whether the version of an entry may be presented upstream.
func (e *Entry) presentable() bool {
	return e.res != nil && !e.marks.Alias
}

// Restored reports whether the content comes from an earlier process and was not confirmed: it
// must not replace content that a client presents.
func (e *Entry) Restored() bool { return e.res != nil && e.res.Restored() }
