package delivery

import (
	"cmp"
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
)

// NewSubscriber returns a stream without places. ring is called whenever there may be something
// to collect, from any goroutine and while a store applies a response: it must neither block
// nor call a store.
func NewSubscriber(ring func(), form Form) *Subscriber {
	return &Subscriber{form: form, ring: ring}
}

// Form is how the client is told of changes.
func (s *Subscriber) Form() Form { return s.form }

// Join returns the stream's place in a store, which begins if there is none.
func (s *Subscriber) Join(store *cache.Store) *Place {
	if c := s.Place(store); c != nil {
		return c
	}
	c := newPlace(store, s.form, false, s.ring)
	c.subscriber, c.judge = s, s.judge
	s.places = append(s.places, c)
	return c
}

// Place returns the stream's place in a store, nil if it has none.
func (s *Subscriber) Place(store *cache.Store) *Place {
	for _, c := range s.places {
		if c.store == store {
			return c
		}
	}
	return nil
}

// Places are all of them. The caller must not change the list.
func (s *Subscriber) Places() []*Place { return s.places }

// Leave ends the stream's places.
func (s *Subscriber) Leave() {
	for _, c := range s.places {
		c.Leave()
	}
	s.places = nil
}

// Held reports whether the last Collect left something for later: the stream has to collect
// again when an acknowledgement comes, and at Outlook.Next.
func (s *Subscriber) Held() bool { return slices.ContainsFunc(s.places, (*Place).Held) }

// Collect takes what the client lacks, in the order in which it is to be sent
// (make-before-break, ADS-1).
//
// All types of one store are seen at one point of the server's sequence (ADS-3). A type whose
// acknowledgement is awaited waits, unless a later type has something to send that must not
// overtake its additions (ADS-2). No two stores' locks are held together: each store is
// surveyed, one schedule is made of all, and each store delivers up to the change that the
// survey saw. The error is ErrBehind.
func (s *Subscriber) Collect(pace *Pace) ([]*Batch, Outlook, error) {
	switch len(s.places) {
	case 0:
		return nil, Outlook{}, nil
	case 1:
		return s.collectOne(pace)
	}
	return s.collectAll(pace)
}

// collectOne is Collect for one place, under one lock.
func (s *Subscriber) collectOne(pace *Pace) ([]*Batch, Outlook, error) {
	c := s.places[0]
	var due schedule
	due.begin(pace, s.form, c.store)
	due.atOnce = true
	p := delivery{sub: s}
	var more, behind bool
	c.store.View(func() {
		if behind = c.behind(); behind {
			return
		}
		due.survey(c)
		due.openGates(c)
		s.look(c, &due)
		due.waitForEndpoints(&s.warming)
		p.warms = s.warms(&due)
		p.writer.start(&due.Pace, due.at)
		var stepRoom [8]step
		steps, later := due.steps(stepRoom[:0])
		more = c.deliver(&p, steps, anyNumber) || later
		due.arm(c)
	})
	if behind {
		return nil, Outlook{}, ErrBehind
	}
	more = s.finish(&p, &due) || more
	return s.news(p.writer.out), Outlook{More: more, Next: due.next}, nil
}

// collectAll is Collect for several places.
func (s *Subscriber) collectAll(pace *Pace) ([]*Batch, Outlook, error) {
	var due schedule
	due.begin(pace, s.form, s.places[0].store)
	seen, heartbeats := make([]uint64, len(s.places)), make([]uint64, len(s.places))
	behind := false
	for i, c := range s.places {
		c.store.View(func() {
			if behind = c.behind(); behind {
				return
			}
			due.survey(c)
			seen[i], heartbeats[i] = c.store.Revision(), c.store.LastHeartbeat()
			s.look(c, &due)
		})
		if behind {
			return nil, Outlook{}, ErrBehind
		}
	}
	for _, c := range s.places {
		c.store.View(func() { due.openGates(c) })
	}
	due.waitForEndpoints(&s.warming)
	steps, more := due.steps(nil)
	keys, out := make(listKeys), make([][]*Batch, len(s.places))
	p, warms := delivery{}, s.warms(&due)
	for _, i := range wildcardsLast(s.places) {
		c := s.places[i]
		p = delivery{keys: keys, sub: s, warms: warms, clusters: p.clusters, afresh: p.afresh}
		p.writer.start(&due.Pace, due.at)
		c.store.View(func() {
			left := c.deliver(&p, steps, seen[i])
			due.arm(c)
			// What came since the survey rang for a client that had been rung for already.
			more = more || left || c.store.Revision() > seen[i] || c.store.LastHeartbeat() > heartbeats[i]
		})
		out[i] = p.writer.out
	}
	batches := slices.Concat(out...)
	slices.SortStableFunc(batches, makeBeforeBreak)
	more = s.finish(&p, &due) || more
	return s.news(join(batches, &due, s.places)), Outlook{More: more, Next: due.next}, nil
}

// makeBeforeBreak orders batches of several stores as each store orders its own.
func makeBeforeBreak(a, b *Batch) int {
	last := func(b *Batch) int {
		if b.last {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.TypeURL, b.TypeURL))
}

// finish does what a Collect found out and could not do under a store's read lock. It reports
// whether that makes something due.
func (s *Subscriber) finish(p *delivery, due *schedule) (more bool) {
	more = s.settleDebts()
	return s.sendEndpoints(p, due) || more
}

// JudgedBy has a judge say from now on what the client may be sent; nil: everything. narrower says
// that it may be less than before: lists are due that lack the rest.
func (s *Subscriber) JudgedBy(j Judge, narrower bool) {
	s.judge = j
	for _, c := range s.places {
		c.JudgedBy(j, narrower)
	}
}
