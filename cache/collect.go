package cache

import (
	"errors"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/verdict"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// ErrBehind says that removals were forgotten that the client was not told of: it
// must open a new stream and present what it holds (RES-11).
var ErrBehind = errors.New("the client is too far behind: removals that it was not told of are forgotten")

// Batch is what one response holds.
type Batch struct {
	TypeURL string
	Rank    Rank
	Removal bool // removals that wait for later types, or a list that only lacks something (ADS-1)
	// Renewal says that there is nothing in it, in the state-of-the-world form, but what the
	// client was sent before: it is told how long that lives on (TTL-1).
	Renewal bool
	last    bool  // it holds removals that go behind everything else
	owed    int32 // bytes of the removals that sayGone may add

	SystemVersion string // version_info in the state-of-the-world form
	Body          wire.Builder
	// Received is when the oldest of the changes in it came from upstream; zero if
	// it only answers a subscription.
	Received time.Time
	Merged   int // changes that later ones replaced before they were sent
	// Store is where it comes from, and Last the number of the youngest change in
	// it (Store.Sequence).
	Store *Store
	Last  uint64

	flight  flight
	content verdict.Span // changes of Store that it brings content of
	extra   *batchExtra
}

// batchExtra is what few batches have. A batch is made for each client that a change goes to.
type batchExtra struct {
	failed []Failure // in place of errors in Body, for readers
	parts  []Part    // of a list of several stores
}

func (b *Batch) extras() *batchExtra {
	if b.extra == nil {
		b.extra = new(batchExtra)
	}
	return b.extra
}

// Part is what a response brings of one store.
type Part struct {
	Store   *Store
	Content verdict.Span // changes of the store that it brings content of
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

// rest notes that the client has collected: the next change wakes it, save for
// types with something left that wait for an acknowledgement (Store.wake).
func (c *Client) rest(q *question) {
	c.woken, c.held = false, false
	for _, w := range c.watches {
		left := w.relist || w.againDue() || ((w.pending || !q.atOnce) && (w.due() || w.heartbeatsDue()))
		w.woken = left && q.Acks(w.typeURL) == Awaited
		c.held = c.held || left
		if !w.woken {
			w.rest()
		}
	}
}

// Held reports whether the last Collect left something that waits for an acknowledgement or
// for its time.
func (c *Client) Held() bool { return c.held }

func (c *Client) behind() bool {
	for _, w := range c.watches {
		for f := range w.each() {
			if f.behind() {
				return true
			}
		}
	}
	return false
}

func (w *watch) due() bool { return w.additionsDue() || w.removalsDue() }

func (w *watch) additionsDue() bool {
	if w.errors.any() || (w.variants != nil && len(w.variants.surplus) > 0) {
		return true
	}
	for _, sub := range w.dirty {
		if !sub.ended && !sub.heartbeat && !sub.takesAway() {
			return true
		}
	}
	for f := range w.each() {
		if f.addsDue() {
			return true
		}
	}
	for _, n := range w.answers {
		if e, known := w.lookup(n); known && e != nil {
			return true
		}
	}
	return false
}

func (w *watch) removalsDue() bool {
	for _, n := range w.answers {
		if e, known := w.lookup(n); known && e == nil {
			return true
		}
	}
	for _, sub := range w.dirty {
		if !sub.ended && sub.takesAway() {
			return true
		}
	}
	for f := range w.each() {
		if f.removalsDue() || f.errorDue(anyNumber) {
			return true
		}
	}
	return false
}

// takesAway reports whether what is due removes something that the client may
// hold, rather than telling it for the first time that there is nothing (RES-6).
func (n *nameSub) takesAway() bool { return n.holds && !n.entry.there() && !n.stays() }

// stays reports whether the client keeps what it may hold: an error is all that the
// server said of the name, and it leaves open what became of it (ERR-1). The client may
// have it from the stream before, or by "*".
func (n *nameSub) stays() bool { return n.entry.open() && !n.denied }
