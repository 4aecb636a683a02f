package cache

import (
	"strings"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// state is what the relay knows of a name.
type state uint8

const (
	unknown   state = iota // asked for, not answered
	present                // the server sent it
	absent                 // the server said that it does not exist
	failed                 // the server reported an error for it (ERR-1)
	transient              // the server sent it, and forbids to keep it (TTL-5)
)

func (s state) String() string {
	return [...]string{"unknown", "present", "absent", "failed", "relayed"}[s]
}

// entry is one name in a table. There may be millions: what few of them have stands
// aside. Guarded by Store.mu.
type entry struct {
	key  string          // canonical name; see lend
	res  *wire.Resource  // present only
	coll *collection     // the glob or wildcard it is a member or a tombstone of
	past *digest.History // what it held before; nil until that was something
	// Read like fields of the entry, and written by way of own.
	*aside

	prev, next *entry // in coll.live or coll.tombs

	changed  uint64 // number of the last change
	added    uint64 // number of the change that brought it into its collection; see collection.bury
	received int64  // when the last change was received, Unix nanoseconds

	epoch   uint32 // of the collection, when the server last confirmed it (RES-14)
	mark    uint32 // table.mark of the last state-of-the-world response that held it
	state   state
	lent    bool      // key is part of the bytes of res
	dead    bool      // in coll.tombs
	alias   bool      // served by a resource of another name that lists key as an alias (RES-10)
	loose   bool      // in table.unglobbed
	tainted bool      // the version now held was seen with other contents (ACK-4)
	overdue bool      // asked for long ago on the present stream, and not answered
	pinned  bool      // in table.pins
	suspect bool      // a client rejected the content alone (ACK-3)
	stray   bool      // a resource that referred to it does not any more
	told    attention // who has it, as far as who reads references is told
}

// aside is what an entry has that is more than a member with content.
type aside struct {
	spelled  string // as the server spells it; "" for like its key
	err      *wire.ResourceError
	life     *lifetime      // nil: it never had a ttl; kept by tombstones of what expired, and for transient content
	sum      digest.Sum     // its part of the sums, if the table keeps them
	retained *wire.Resource // of a tombstone: what it was, while lists may hold it (ADS-1)
	back     comeback       // of a cluster that was a tombstone before

	absence  *absence   // what there is to say of it, if it is absent; nil for most
	subs     []*nameSub // who subscribed to it by name
	interest *interest  // its own upstream subscription; nil if a collection brings it
}

// nothing is what entries have aside that have nothing. It stays empty.
var nothing = new(aside)

// newEntry returns an entry of which nothing is known.
func newEntry(key string) *entry { return &entry{key: key, aside: nothing} }

// own gives what e has aside, to be written to. Whoever takes something away calls tidy.
func (e *entry) own() *aside {
	if e.aside == nothing {
		e.aside = new(aside)
	}
	return e.aside
}

// tidy lets go of what e had aside once there is nothing in it.
func (e *entry) tidy() {
	if e.aside != nothing && e.empty() {
		e.aside = nothing
	}
}

func (a *aside) empty() bool {
	return a.spelled == "" && a.err == nil && a.life == nil && a.sum == (digest.Sum{}) && a.retained == nil &&
		a.back == (comeback{}) && a.absence == nil && a.subs == nil && a.interest == nil
}

// name is the entry's name as it goes upstream, and to clients of "*".
func (e *entry) name() string {
	if e.spelled != "" {
		return e.spelled
	}
	return e.key
}

// setName notes how the server spells the name. It does not keep the string.
func (e *entry) setName(name string) {
	if wire.IsLocator(e.key) && !wire.IsLocator(name) {
		name = wire.Respell(e.key, name)
	}
	if name == e.key {
		name = ""
	}
	if e.spelled != name {
		e.own().spelled = strings.Clone(name)
		e.tidy()
	}
}

func (e *entry) setErr(err *wire.ResourceError) {
	if e.err != err {
		e.own().err = err
		e.tidy()
	}
}

func (e *entry) setSum(s digest.Sum) {
	if e.sum != s {
		e.own().sum = s
		e.tidy()
	}
}

func (e *entry) setBack(b comeback) {
	if e.back != b {
		e.own().back = b
		e.tidy()
	}
}

func (e *entry) setInterest(i *interest) {
	e.own().interest = i
	e.tidy()
	if i != nil {
		i.table.lend(e)
	}
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

// there reports whether the resource exists, kept or not.
func (e *entry) there() bool { return e.state == present || e.state == transient }

// servedName is the server's name of the resource that serves the entry. An alias has
// another name than its own there.
func (e *entry) servedName() string {
	switch e.state {
	case present:
		return e.res.Name
	case transient:
		return e.life.transient.name
	default:
		return e.name()
	}
}

// contentOr is the content that a client is to be sent. If the relay does not keep it, the
// client is sent what was handed over for it.
func (e *entry) contentOr(handedOver *wire.Resource) *wire.Resource {
	if e.res == nil {
		return handedOver
	}
	return e.res
}

// listed is what lists hold of the entry; nil for nothing.
func (e *entry) listed() *wire.Resource {
	if e.res == nil && e.life != nil && e.life.transient != nil {
		return e.life.transient.list
	}
	return e.res
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
// list is walked from both ends, which costs as many steps as there are changes, or
// as there are entries without any if these are fewer.
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
	e, old := l.tail, l.head
	for e.prev != nil && e.prev.changed > n {
		if old.changed > n {
			return old
		}
		e, old = e.prev, old.next
	}
	return e
}
