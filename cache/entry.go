package cache

import "github.com/xdsrelay/xdsrelay/internal/wire"

// state is what the relay knows of a name.
type state uint8

const (
	unknown state = iota // asked for, not answered
	present              // the server sent it
	absent               // the server said that it does not exist
	failed               // the server reported an error for it (ERR-1)
	relayed              // the server sent it, and has it not kept (TTL-5)
)

func (s state) String() string {
	return [...]string{"unknown", "present", "absent", "failed", "relayed"}[s]
}

// entry is one name in a table. Guarded by Store.mu.
type entry struct {
	key  string         // canonical name
	name string         // as the server spells it; before it has, as the first client does
	res  *wire.Resource // present only
	err  *wire.ResourceError
	life *lifetime // nil: it never had a ttl; kept by tombstones of what expired, and for relayed ones

	changed  uint64 // number of the last change
	added    uint64 // number of the change that brought it into its collection; see collection.bury
	received int64  // when that change was received, Unix nanoseconds

	sum  sum            // its part of the sums, if the table keeps them
	last *wire.Resource // of a tombstone: what it was, while lists may hold it (ADS-1)

	coll       *collection // the glob or wildcard it is a member or a tombstone of
	prev, next *entry      // in coll.live or coll.tombs

	subs     []*nameSub // who subscribed to it by name
	interest *interest  // its own upstream subscription; nil if a collection brings it
	past     *history   // what it held before; nil until that was something

	epoch   uint32 // of the collection, when the server last confirmed it (RES-14)
	mark    uint32 // table.mark of the last state-of-the-world response that held it
	state   state
	dead    bool // in coll.tombs
	alias   bool // served by a resource of another name that lists key as an alias (RES-10)
	loose   bool // in table.loose
	tainted bool // the version now held was seen with other contents (ACK-4)
	overdue bool // asked for long ago on the present stream, and not answered
}

// member reports whether e is a living member of a collection.
func (e *entry) member() bool { return e.coll != nil && !e.dead }

// size is what e takes of the cache's bytes.
func (e *entry) size() int64 {
	if e.res == nil {
		return 0
	}
	return int64(e.res.Size())
}

// list is an intrusive list of entries ordered by entry.changed.
type list struct {
	head, tail *entry
	len        int
}

func (l *list) push(e *entry) {
	e.prev, e.next = l.tail, nil
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.next = e
	}
	l.tail = e
	l.len++
}

func (l *list) remove(e *entry) {
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

// after returns the first entry with a number above n. hint may be the entry
// that had number n when it was last looked at; if it has been changed since, the
// list is walked from its tail, which costs as many steps as there are changes.
func (l *list) after(n uint64, hint *entry, coll *collection) *entry {
	if n == 0 {
		return l.head
	}
	if l.tail == nil || l.tail.changed <= n {
		return nil
	}
	if hint != nil && hint.changed == n && hint.coll == coll {
		return hint.next
	}
	e := l.tail
	for e.prev != nil && e.prev.changed > n {
		e = e.prev
	}
	return e
}
