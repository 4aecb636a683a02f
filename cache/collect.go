package cache

import (
	"errors"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// ErrBehind says that removals were forgotten that the client was not told of: it
// must open a new stream and present what it holds (RES-11).
var ErrBehind = errors.New("the client is too far behind: removals that it was not told of are forgotten")

// Batch is what one response holds.
type Batch struct {
	TypeURL       string
	Rank          Rank
	Removal       bool   // removals that wait for later types, or a list that only lacks something (ADS-1)
	SystemVersion string // version_info in the state-of-the-world form
	Body          wire.Builder
	// Received is when the oldest of the changes in it came from upstream; zero if
	// it only answers a subscription.
	Received time.Time
	Merged   int // changes that later ones replaced before they were sent
	// Heartbeats says that there is nothing else in it, in the state-of-the-world form
	// (TTL-3). SystemVersion is then empty: a client takes a heartbeat for one by the
	// version_info that it holds, which is the last one that it accepted.
	Heartbeats bool
	// Store is where it comes from, and Last the number of the youngest change in
	// it (Store.Sequence).
	Store *Store
	Last  uint64

	failed []Failure // in place of errors in Body, for readers
	owed   int       // bytes of the removals that sayGone may add
}

// Collect takes what the client lacks, in the order in which it is to be sent.
//
// All types are seen at one point of the upstream's sequence. busy tells for which
// types an acknowledgement is outstanding: they wait, unless a later type has
// something to send that must not overtake their additions (ADS-2). It is called
// under the store's lock. Batches hold up to size bytes, or one resource if that
// is larger; at most parts batches are taken, and more reports that some are
// left. The error is ErrBehind.
func (c *Client) Collect(busy func(typeURL string) bool, size, parts int) (batches []*Batch, more bool, err error) {
	if c.form.State {
		batches, more = c.collectState(busy, size, parts)
		return batches, more, nil
	}
	return c.collect(busy, busy, size, parts, false)
}

// CollectAdditions is Collect without the removals that wait for later types
// (ADS-1): for a stream with places in several stores, whose later types may be
// due in another one.
func (c *Client) CollectAdditions(busy func(typeURL string) bool, size, parts int) (batches []*Batch, more bool, err error) {
	return c.collect(busy, busy, size, parts, true)
}

// CollectOvertaken is CollectAdditions of some types only, though their ACKs are
// outstanding: for a stream that is about to send a later type out of another
// store (ADS-2). types tells which; busy is as in Collect.
func (c *Client) CollectOvertaken(types, busy func(typeURL string) bool, size, parts int) (batches []*Batch, more bool, err error) {
	return c.collect(func(typeURL string) bool { return !types(typeURL) }, busy, size, parts, true)
}

// Due reports whether anything is left to be sent but removals that wait for
// later types.
func (c *Client) Due() bool {
	c.store.mu.RLock()
	defer c.store.mu.RUnlock()
	return slices.ContainsFunc(c.watches, func(w *watch) bool {
		return !w.stays() && (w.additionsDue() || (!w.rank.waits() && w.removalsDue()))
	})
}

// collect takes what is due, save types that are to wait. busy tells for which ones
// an acknowledgement is outstanding, and so will bring the stream here again.
func (c *Client) collect(waits, busy func(typeURL string) bool, size, parts int, additions bool) ([]*Batch, bool, error) {
	defer c.regain()
	c.store.mu.RLock()
	defer c.store.mu.RUnlock()
	return c.collectLocked(&pass{size: size, left: parts}, waits, busy, additions)
}

func (c *Client) collectLocked(p *pass, waits, busy func(typeURL string) bool, additions bool) ([]*Batch, bool, error) {
	defer c.rest(busy)
	if c.behind() {
		return nil, false, ErrBehind
	}
	defer p.sayGone()
	c.conclude()
	last := Rank(-1) // the last one that has something to send, not only to hold back
	for i, w := range c.watches {
		if !waits(w.typeURL) && !w.stays() && (w.additionsDue() || (w.removalsDue() && !w.heldBack(c.watches[i+1:]))) {
			last = w.rank
		}
	}
	for i, w := range c.watches {
		forced := waits(w.typeURL)
		if (forced && w.rank >= last) || w.stays() {
			continue
		}
		p.forced = forced
		p.additions(w)
		if !p.full && !forced && w.buries() && (!w.rank.waits() || (!additions && !anyDue(c.watches[i+1:]))) {
			p.removals(w)
		}
		if p.full {
			return p.out, true, nil // a later type must not overtake what is left
		}
	}
	p.removing = true
	for i, w := range c.watches {
		if additions {
			break
		}
		if w.rank.waits() && !waits(w.typeURL) && !w.stays() && !w.heldBack(c.watches[i+1:]) {
			p.removals(w)
		}
	}
	return p.out, p.full, nil
}

// rest notes that the client has collected: the next change wakes it, save for
// types with something left that wait for an acknowledgement (Store.wake).
func (c *Client) rest(busy func(typeURL string) bool) {
	c.woken, c.held = false, false
	for _, w := range c.watches {
		w.woken = busy(w.typeURL) && (w.due() || w.beatsDue())
		if w.woken {
			c.held = true
		} else {
			w.rest()
		}
	}
}

// Held reports whether something was due when the client collected last that waits for an
// acknowledgement: nobody is woken for that.
func (c *Client) Held() bool { return c.held }

func (c *Client) behind() bool {
	for _, w := range c.watches {
		if w.wildcard != nil && w.wildcard.behind() {
			return true
		}
		for _, g := range w.globs {
			if g.behind() {
				return true
			}
		}
	}
	return false
}

func anyDue(later []*watch) bool {
	return slices.ContainsFunc(later, func(w *watch) bool { return !w.stays() && w.due() })
}

// heldBack reports whether the removals of a watch must wait for something of a
// later rank that is not sent yet (ADS-1): of this scope, or what takes the place of
// another scope's.
func (w *watch) heldBack(later []*watch) bool {
	return !w.buries() || w.rank.waits() && slices.ContainsFunc(later, func(l *watch) bool {
		return l.rank > w.rank && !l.stays() && (l.additionsDue() || (!l.rank.waits() && l.removalsDue()))
	})
}

func (w *watch) due() bool { return w.additionsDue() || w.removalsDue() }

func (w *watch) additionsDue() bool {
	if len(w.fails) > 0 || (w.variants != nil && len(w.variants.surplus) > 0) {
		return true
	}
	for _, sub := range w.dirty {
		if !sub.ended && !sub.beat && !sub.takesAway() {
			return true
		}
	}
	for _, g := range w.globs {
		if g.addsDue() {
			return true
		}
	}
	if w.wildcard != nil && w.wildcard.addsDue() {
		return true
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
		if !sub.ended && sub.takesAway() && !sub.gated() {
			return true
		}
	}
	for _, g := range w.globs {
		if g.removalsDue() {
			return true
		}
	}
	return (w.wildcard != nil && w.wildcard.removalsDue()) || w.failuresDue(anyNumber)
}

// takesAway reports whether what is due removes something that the client may
// hold, rather than telling it for the first time that there is nothing (RES-6).
func (n *nameSub) takesAway() bool { return n.holds && !n.entry.there() && !n.stays() }

// stays reports whether the client keeps what it may hold: an error is all that the
// server said of the name, and it leaves open what became of it (ERR-1). The client may
// have it from the stream before, or by "*".
func (n *nameSub) stays() bool { return n.entry.open() && !n.denied }
