package delivery

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// Read gives the relay itself a place in a store, beside the clients' streams. It is a client
// of the incremental form without TTL, but no stream (Store.Clients). It takes values (Take),
// not responses. It spells names as their keys, and is told keys. ring is called as by a
// Subscriber.
func Read(store *cache.Store, ring func()) *Place { return newPlace(store, Form{}, true, ring) }

// Taken is what a reader lacked of one type.
type Taken struct {
	Reader  *Place
	TypeURL string
	Found   []cache.Found
	Removed []string // keys; a glob's if it has no members (GLOB-4)
	Failed  []cache.Failure
	Synced  []string // globs of which everything that there is was taken
	Late    []string // what is waited for no longer
	// Received is when the oldest of the changes in it came from upstream, zero if it only
	// answers subscriptions, and Last the number of the youngest (cache.Session.Sequence).
	Received time.Time
	Last     uint64
}

// Take takes what readers of one store lack, at one point of the upstream's sequence, in the
// order of sending. It takes batches of up to size bytes, at most parts for each reader, and
// more reports that something is left. The error is ErrBehind: its reader must leave and say
// anew what it wants and holds.
func Take(readers []*Place, size, parts int) (taken []*Taken, more bool, err error) {
	readers[0].store.View(func() {
		for _, c := range readers {
			var t []*Taken
			t, more, err = c.takeLocked(size, parts)
			taken = append(taken, t...)
			if err != nil || more {
				return // the order is that of the types, and of the readers
			}
		}
	})
	return taken, more, err
}

func (c *Place) takeLocked(size, parts int) ([]*Taken, bool, error) {
	if c.behind() {
		return nil, false, ErrBehind
	}
	var due schedule
	due.begin(&Pace{Acks: acknowledged, Size: size, Parts: parts}, c.form, c.store)
	due.atOnce = true
	due.survey(c)
	due.openGates(c)
	p := delivery{}
	p.writer.start(&due.Pace, due.at)
	steps, _ := due.steps(nil)
	more := c.deliver(&p, steps, anyNumber)
	due.arm(c)
	var all []*Taken
	for _, b := range p.writer.out {
		all = append(all, b.values(c))
	}
	if more {
		return all, true, nil
	}
	for _, w := range c.types {
		if synced := w.subs.newlySynced(); len(synced) > 0 {
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

// values returns the content of a reader's batch.
func (b *Batch) values(c *Place) *Taken {
	t := &Taken{
		Reader: c, TypeURL: b.TypeURL, Removed: b.Body.RemovedNames(),
		Received: b.Received, Last: b.Last,
	}
	if b.extra != nil {
		t.Failed = b.extra.failed
	}
	for name, r := range b.Body.Added() {
		t.Found = append(t.Found, cache.Found{Key: name, Resource: r})
	}
	return t
}
