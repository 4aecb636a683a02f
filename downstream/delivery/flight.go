package delivery

import (
	"iter"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/ack"
)

// item is a resource as it was sent: by a name, or as a member of a collection.
type item struct {
	entry   *cache.Entry
	sub     *nameSub // nil for a member
	changed uint64
}

// group is sent once more in one response.
type group struct {
	items   []item
	removed []string // names that are told as removed again
	last    bool     // a rejection of it leads to nothing
	offered bool     // it is offered again
	partOf  ack.Span // changes of the response that was rejected, of which this is a part
}

// span is a range of changes of a collection. Everything in it was sent.
type span struct {
	follower *follower
	from, to uint64 // after the one, up to the other
}

// flight is the content of a response, for as long as the client may reject it.
type flight struct {
	number  uint32 // of the type's responses in its place: see nameSub.response
	removed bool   // it removed something
	news    bool   // it brings something that the client did not hold
	repeats bool   // it is a list with the content of the one before
	offered bool   // it offers again what the client rejected
	span    span   // the first; nearly always there is one
	extra   *flightExtra
}

// flightExtra is for the few responses that have more.
type flightExtra struct {
	more  []span
	gone  []string // names that it told as removed, the first of them
	group *group   // nil unless it holds just that
}

// maxRemovedKept bounds the names of removals that are kept of a response.
const maxRemovedKept = 64

func (f *flight) extras() *flightExtra {
	if f.extra == nil {
		f.extra = new(flightExtra)
	}
	return f.extra
}

// group is what the response holds alone, nil if it holds something else.
func (f *flight) group() *group {
	if f.extra == nil {
		return nil
	}
	return f.extra.group
}

// gone returns names that the response removed, the first of them.
func (f *flight) gone() []string {
	if f.extra == nil {
		return nil
	}
	return f.extra.gone
}

// add records that a member was sent, the next one after from. Its follower came to the
// position to. joined says that the member before it was sent too.
func (f *flight) add(c *follower, from, to uint64, joined bool) {
	last := &f.span
	if f.extra != nil && len(f.extra.more) > 0 {
		last = &f.extra.more[len(f.extra.more)-1]
	}
	switch {
	case joined && last.follower == c:
		last.to = to
	case f.span.follower == nil:
		f.span = span{c, from, to}
	default:
		f.extras().more = append(f.extras().more, span{c, from, to})
	}
}

// removes records a name that the response removes.
func (f *flight) removes(name string) {
	f.removed = true
	if x := f.extras(); len(x.gone) < maxRemovedKept {
		x.gone = append(x.gone, name)
	}
}

// join adds what is told of another part of a list.
func (f *flight) join(o *flight) {
	f.news, f.repeats, f.offered = f.news || o.news, f.repeats && o.repeats, f.offered || o.offered
}

// spans returns all ranges.
func (f *flight) spans() iter.Seq[span] {
	return func(yield func(span) bool) {
		if f.span.follower == nil || !yield(f.span) || f.extra == nil {
			return
		}
		for _, s := range f.extra.more {
			if !yield(s) {
				return
			}
		}
	}
}

// rejections is what a client rejected of a type and is sent in parts.
type rejections struct {
	typeSub *typeSub

	queue []group
	// pending are the resources in the queue, each with the number of its change.
	pending map[*cache.Entry]uint64
	// alone are the resources that the client rejected alone, by key.
	alone   map[string]*rejected
	waiting []*rejected // those of them that are due, and some that were
	// list is the clock of the last list, nil unless the client rejected that.
	list *offer
}

// offer is the clock of one content that a client rejects. Guarded like Place.
type offer struct {
	typeSub *typeSub
	nacks   int       // of the content
	next    time.Time // it is offered again then at the earliest,
	due     bool      // if there is a reason
	out     bool      // it is offered, and the client has not answered
	content ack.Span  // of a list: the changes that the client rejected with it last
}

// rejected is a resource that a client rejected alone.
type rejected struct {
	item
	offer

	// The table and the entry where the rejection waits: those that it was sent of when it was rejected
	// last. Since then the same content may have come by a name, or as a member (putOff).
	waitsIn *cache.Table
	waitsAt *cache.Entry

	content uint64 // hash of what it rejected
	tried   bool   // it was tried once more after a removal
}

// lacks reports whether the client rejected the content that an entry has since the change with
// a number, and does not have it: the content stood alone, or goes once more. Such a client is
// sent no heartbeat, and does not drop the resource by itself when the TTL runs out (TTL-3).
func (a *rejections) lacks(e *cache.Entry, number uint64) bool {
	if a == nil {
		return false
	}
	if n, pending := a.pending[e]; pending && n == number {
		return true
	}
	r := a.alone[e.Key()]
	return r != nil && r.entry == e && r.changed == number
}

// due reports whether something is to be sent once more.
func (a *rejections) due() bool { return a != nil && len(a.queue) > 0 }

// rejections returns what the client rejected, to add to it.
func (w *typeSub) rejections() *rejections {
	if w.again == nil {
		w.again = &rejections{typeSub: w, alone: make(map[string]*rejected), pending: make(map[*cache.Entry]uint64)}
	}
	return w.again
}

// add has a group sent with the next Collect.
func (a *rejections) add(g group) {
	a.queue = append(a.queue, g)
	for _, i := range g.items {
		a.pending[i.entry] = i.changed
	}
}
