package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Read gives the relay itself a place in the store, beside the clients' streams. It is
// a client like any other, of the incremental form and without ttl, but is no stream
// (Clients): it takes what it lacks as values (Take) and not as responses. What it
// subscribes to it spells as its key is, and is told of under keys. wake is as
// in Join.
func (s *Store) Read(wake func()) *Client {
	return s.join(&Client{store: s, wake: wake, own: true})
}

// reads reports whether c is of the relay's own.
func (c *Client) reads() bool { return c.own }

// Failure is a name that the server reported an error for (ERR-1).
type Failure struct {
	Key   string
	Error wire.ResourceError
}

// Found is a resource under its key.
type Found struct {
	Key      string
	Resource *wire.Resource
}

// Late is a name or a collection that was asked for long ago and is waited for no
// longer, though nothing is known of it (Source.Absent).
type Late struct{ TypeURL, Key string }

// Taken is what a reader lacked of one type.
type Taken struct {
	Reader  *Client
	TypeURL string
	Found   []Found
	Removed []string // keys; a glob's if it has no members (GLOB-4)
	Failed  []Failure
	Synced  []string // globs of which everything that there is was taken
	Late    []string // what is waited for no longer
	// Received is when the oldest of the changes in it came from upstream, zero if it
	// only answers subscriptions, and Last the number of the youngest (Store.Sequence).
	Received time.Time
	Last     uint64
}

// Take takes what readers of one store lack, seen at one point of the upstream's
// sequence, in the order in which it would be sent. Batches of up to size bytes, at
// most parts for each reader, are taken, and more reports that something is left. The
// error is ErrBehind: the reader it concerns must leave and say anew what it wants and
// holds.
func Take(readers []*Client, size, parts int) (taken []*Taken, more bool, err error) {
	s := readers[0].store
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, c := range readers {
		t, left, err := c.takeLocked(size, parts)
		taken = append(taken, t...)
		if err != nil || left {
			return taken, left, err // the order is that of the types, and of the readers
		}
	}
	return taken, false, nil
}

func (c *Client) takeLocked(size, parts int) ([]*Taken, bool, error) {
	if c.behind() {
		return nil, false, ErrBehind
	}
	q := question{Pace: Pace{Acks: acknowledged}, atOnce: true, cache: c.store.cache}
	due := c.survey(nil, &q)
	c.openGates(due, &q)
	p := pass{size: size, left: parts, now: q.at}
	steps, _ := due.plan(&q, nil)
	more := c.deliver(&p, steps, anyNumber)
	c.rest(&q)
	var all []*Taken
	for _, b := range p.out {
		all = append(all, b.values(c))
	}
	if more {
		return all, true, nil
	}
	for _, w := range c.watches {
		if synced := w.newlySynced(); len(synced) > 0 {
			all = append(all, &Taken{Reader: c, TypeURL: w.typeURL, Synced: synced})
		}
	}
	for _, l := range c.late {
		all = append(all, &Taken{Reader: c, TypeURL: l.TypeURL, Late: []string{l.Key}})
	}
	c.late = nil
	return all, false, nil
}

// acknowledged says that a reader owes nothing.
func acknowledged(string) Acks { return Acknowledged }

// values gives what a reader's batch holds.
func (b *Batch) values(c *Client) *Taken {
	t := &Taken{
		Reader: c, TypeURL: b.TypeURL, Removed: b.Body.RemovedNames(),
		Received: b.Received, Last: b.Last,
	}
	if b.extra != nil {
		t.Failed = b.extra.failed
	}
	for name, r := range b.Body.Added() {
		t.Found = append(t.Found, Found{name, r})
	}
	return t
}

// newlySynced lists the globs that are synced and were not when a reader asked last.
func (w *watch) newlySynced() []string {
	var all []string
	for _, f := range w.globs {
		if f.coll.synced && !f.synced {
			f.synced = true
			all = append(all, f.coll.key)
		}
	}
	return all
}

// tooLate tells a reader that a name is waited for no longer.
func (n *nameSub) tooLate() {
	if c := n.watch.client; c.reads() {
		c.late = append(c.late, Late{n.watch.typeURL, n.entry.key})
	}
}

func (f *cursor) tooLate() {
	if c := f.client; c.reads() {
		c.late = append(c.late, Late{f.watch.typeURL, f.coll.key})
	}
}

// lateAlready tells a reader that subscribes to what others wait for no longer.
func (n *nameSub) lateAlready() {
	if n.entry.overdue && n.entry.open() {
		n.tooLate()
	}
}

func (f *cursor) lateAlready() {
	if f.coll.overdue && !f.coll.synced {
		f.tooLate()
	}
}
