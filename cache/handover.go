package cache

import "github.com/xdsrelay/xdsrelay/internal/wire"

// handover is content that is not kept, on its way to the clients.
type handover struct {
	res    *wire.Resource
	timed  bool // it has a TTL, or had one before
	again  bool // it is what it was before
	listed bool // and lists have it already

	before uint64 // number of the entry's change before
	level  uint64 // highest number of all members before, if it is a member
}

// handOver makes the content due for a name's client, unless the client has it.
func (n *nameSub) handOver(h handover) {
	switch retimed := h.timed && n.watch.client.form.TTL; {
	case n.watch.full && h.listed && !retimed:
	case n.watch.full:
		n.push()
	case !h.again || n.askedAgain || retimed:
		n.watch.handedOver.add(n, h.res)
		n.push()
	}
}

// handOver does so for a collection's client.
func (f *cursor) handOver(e *entry, h handover) {
	_, owed := f.watch.answers[e.key]
	switch retimed := h.timed && f.client.form.TTL; {
	case f.watch.full && h.listed && !retimed && f.sent >= h.level:
		f.sent, f.at = e.changed, e // no list is due for it (STR-7)
		f.since++
	case f.watch.full:
	case !h.again || owed || f.born >= h.before || retimed:
		f.handedOver.add(e, h.res)
	}
}

// dropGone forgets the content of resources that are no members any more.
func (f *cursor) dropGone() {
	for e := range f.handedOver {
		if !e.member() || e.coll != f.coll {
			f.handedOver.drop(e)
		}
	}
}

// missed reports whether the cursor's client did not follow yet when the content of e was
// handed over.
func (f *cursor) missed(e *entry) bool {
	if f.watch.full {
		return e.listed() == nil
	}
	return e.state == transient && f.born >= e.changed
}

// renewedInFull reports whether the client is renewed with whole resources, where responses
// need not hold everything (TTL-1).
func (w *watch) renewedInFull() bool { return w.client.form.State && w.client.form.TTL && !w.full }
