package delivery

import (
	"errors"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// ErrBehind says that removals were forgotten that the client was not told of: it must open a
// new stream and present what it holds (RES-11).
var ErrBehind = errors.New("the client is too far behind: removals that it was not told of are forgotten")

// Batch is what one response holds.
type Batch struct {
	TypeURL string
	Rank    xds.Rank
	Removal bool // removals that wait for later types, or a list that only lacks something (ADS-1)
	// Renewal says that there is nothing in it, in the state-of-the-world form, but what the
	// client was sent before: it is told how long that lives on (TTL-1).
	Renewal bool
	last    bool // it holds removals that go behind everything else

	SystemVersion string // version_info in the state-of-the-world form
	Held          string // the same of what the client had acknowledged before; the stream notes it for operators
	Body          wire.Builder
	// Received is when the oldest of the changes in it came from upstream; zero if it only
	// answers a subscription.
	Received time.Time
	Merged   int // changes that later ones replaced before they were sent
	// Store is where it comes from, and Last the number of the youngest change in it
	// (cache.Session.Sequence).
	Store *cache.Store
	Last  uint64

	flight  flight
	content ack.Span // changes of Store that it brings content of
	extra   *batchExtra
}

// batchExtra is what few batches have. A batch is made for each client that a change goes to.
type batchExtra struct {
	failed   []cache.Failure // in place of errors in Body, for readers
	parts    []Part          // of a list of several stores
	screened screenedList
}

func (b *Batch) extras() *batchExtra {
	if b.extra == nil {
		b.extra = new(batchExtra)
	}
	return b.extra
}

// Part is what a response brings of one store.
type Part struct {
	Store   *cache.Store
	Content ack.Span // changes of the store that it brings content of
}

// Parts appends to parts what it brings of content, by store.
func (b *Batch) Parts(parts []Part) []Part {
	if b.extra == nil || b.extra.parts == nil {
		if b.content.Empty() {
			return parts
		}
		return append(parts, Part{b.Store, b.content})
	}
	for _, p := range b.extra.parts {
		if !p.Content.Empty() {
			parts = append(parts, p)
		}
	}
	return parts
}

// contentOf gives what it brings of the content of a store.
func (b *Batch) contentOf(store *cache.Store) (of ack.Span) {
	var room [1]Part
	for _, p := range b.Parts(room[:0]) {
		if p.Store == store {
			of = p.Content
		}
	}
	return of
}

// PartOf gives the changes of a response that the client rejected, if this response is a part of it that
// goes once more (ACK-3).
func (b *Batch) PartOf() (of ack.Span) {
	if g := b.flight.group(); g != nil {
		of = g.partOf
	}
	return of
}

// Named is a resource, and the client's name for it: in the client's spelling, if it is wrapped
// (NAME-4).
type Named struct {
	Resource *wire.Resource
	Name     string
}

// screenedList is a list of a client that may not have all of it.
type screenedList struct {
	is   bool
	must bool // it goes out though nothing in it changed
}
