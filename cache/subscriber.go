package cache

import (
	"cmp"
	"slices"
	"time"
)

// Subscriber is one client's stream: its places in all stores that hold something that it
// subscribes to. Its methods are called by the stream's goroutine, one at a time.
type Subscriber struct {
	form   Form
	wake   func()
	places []*Client // in the order in which the stream joined the stores
	debts  []debt    // of the present pass
	warming
}

// NewSubscriber returns a stream without places. wake and form are those of Store.Join.
func NewSubscriber(wake func(), form Form) *Subscriber {
	return &Subscriber{form: form, wake: wake}
}

// Form is how the client is told of changes.
func (s *Subscriber) Form() Form { return s.form }

// Join gives the stream's place in a store, which begins if there is none.
func (s *Subscriber) Join(store *Store) *Client {
	if c := s.Place(store); c != nil {
		return c
	}
	c := store.Join(s.wake, s.form)
	c.sub = s
	s.places = append(s.places, c)
	return c
}

// Place gives the stream's place in a store, nil if it has none.
func (s *Subscriber) Place(store *Store) *Client {
	for _, c := range s.places {
		if c.store == store {
			return c
		}
	}
	return nil
}

// Places are all of them. The caller must not change the list.
func (s *Subscriber) Places() []*Client { return s.places }

// Leave ends the stream's places.
func (s *Subscriber) Leave() {
	for _, c := range s.places {
		c.Leave()
	}
	s.places = nil
}

// Held reports whether the last Collect left something for later: the stream has to
// collect again when an acknowledgement comes, and at Outlook.Next.
func (s *Subscriber) Held() bool { return slices.ContainsFunc(s.places, (*Client).Held) }

// Pace says how fast a client takes what it lacks.
type Pace struct {
	// Acks says which acknowledgements of a type are outstanding. It is called under a
	// store's lock.
	Acks func(typeURL string) Acks
	// Size bounds the bytes of a batch; a batch holds at least one resource. Parts bounds
	// the batches of one Collect in each store.
	Size, Parts int

	// RemovalWait is how long removals of clusters and endpoints wait after the server
	// sent them (ADS-4). WarmWait bounds how long listeners and routes wait for the
	// endpoints of new clusters (WARM-4). ListWait bounds how long later types wait for a
	// list that is not complete (RES-2), and ListHold how long that waits itself (ABS-3).
	// Zero is no wait.
	RemovalWait, WarmWait, ListWait, ListHold time.Duration
}

// Acks says which acknowledgements of a type a client owes.
type Acks uint8

const (
	// Acknowledged says that the client owes none.
	Acknowledged Acks = iota
	// Overdue says that the client owes one, and that its next response does not wait for
	// that any longer (ADS-2).
	Overdue
	// Awaited says that the type's next response waits for an acknowledgement.
	Awaited
)

// Outlook is what a Collect leaves.
type Outlook struct {
	More bool      // something is left that can be sent now
	Next time.Time // when something may go out that waits for its time; zero: nothing does
}

// acceptWait bounds how long a removal waits for the acknowledgements of what came with it
// (ADS-4).
const acceptWait = 5 * time.Second

// question is what one Collect asks, and when something is left that waits for its time.
type question struct {
	Pace

	state  bool // the client is of the state-of-the-world form
	atOnce bool // nothing changes between the survey and the rest: one lock is held
	cache  *Cache
	at     time.Time // when the Collect began, once that was asked for
	next   time.Time
}

// now is when the Collect began. Most have nothing that waits for a time, and do not ask.
func (q *question) now() time.Time {
	if q.at.IsZero() {
		q.at = q.cache.now()
	}
	return q.at
}

// later notes a time at which something may go out.
func (q *question) later(at time.Time) { q.next = sooner(q.next, at) }

// Collect takes what the client lacks, in the order in which it is to be sent
// (make-before-break, ADS-1).
//
// All types of one store are seen at one point of the server's sequence (ADS-3). A type
// whose acknowledgement is awaited waits, unless a later type has something to send that
// must not overtake its additions (ADS-2). No two stores' locks are held together: each
// store is surveyed, one schedule is made of all, and each store delivers up to the change
// that the survey saw. The error is ErrBehind.
func (s *Subscriber) Collect(pace Pace) ([]*Batch, Outlook, error) {
	switch len(s.places) {
	case 0:
		return nil, Outlook{}, nil
	case 1:
		return s.collectOne(pace)
	}
	return s.collectAll(pace)
}

// collectOne is Collect for one place, under one lock.
func (s *Subscriber) collectOne(pace Pace) ([]*Batch, Outlook, error) {
	c := s.places[0]
	q := question{Pace: pace, state: s.form.State, atOnce: true, cache: c.store.cache}
	var room [8]typeDue
	c.store.mu.RLock()
	if !s.form.State && c.behind() {
		c.store.mu.RUnlock()
		return nil, Outlook{}, ErrBehind
	}
	due := c.survey(room[:0], &q)
	c.openGates(due, &q)
	s.look(c, &q)
	due.hold(s.holds(&q))
	p := pass{size: q.Size, left: q.Parts, sub: s, warms: s.warms(&q), now: q.at}
	var stepRoom [16]step
	steps, more := due.plan(&q, stepRoom[:0])
	left := c.deliver(&p, steps, anyNumber)
	c.rest(&q)
	c.store.mu.RUnlock()
	more = s.finish(&p, &q) || more || left
	return p.out, Outlook{More: more, Next: q.next}, nil
}

// collectAll is Collect for several places.
func (s *Subscriber) collectAll(pace Pace) ([]*Batch, Outlook, error) {
	q := question{Pace: pace, state: s.form.State, cache: s.places[0].store.cache}
	var due schedule
	seen, heartbeats := make([]uint64, len(s.places)), make([]uint64, len(s.places))
	for i, c := range s.places {
		c.store.mu.RLock()
		if !s.form.State && c.behind() {
			c.store.mu.RUnlock()
			return nil, Outlook{}, ErrBehind
		}
		due, seen[i], heartbeats[i] = c.survey(due, &q), c.store.seq, c.store.heartbeats
		s.look(c, &q)
		c.store.mu.RUnlock()
	}
	for _, c := range s.places {
		c.store.mu.RLock()
		c.openGates(due, &q)
		c.store.mu.RUnlock()
	}
	due.hold(s.holds(&q))
	steps, more := due.plan(&q, nil)
	keys, out := make(map[string]map[string]bool), make([][]*Batch, len(s.places))
	p, warms := pass{}, s.warms(&q)
	for _, i := range wildcardsLast(s.places) {
		c := s.places[i]
		p = pass{size: q.Size, left: q.Parts, keys: keys, sub: s, warms: warms, now: q.at, clusters: p.clusters, afresh: p.afresh}
		c.store.mu.RLock()
		left := c.deliver(&p, steps, seen[i])
		c.rest(&q)
		// What came since the survey rang for a client that had been rung for already.
		left = left || c.store.seq > seen[i] || c.store.heartbeats > heartbeats[i]
		c.store.mu.RUnlock()
		more = more || left
		out[i] = p.out
	}
	batches := slices.Concat(out...)
	slices.SortStableFunc(batches, makeBeforeBreak)
	more = s.finish(&p, &q) || more
	return join(batches, due, s.places), Outlook{More: more, Next: q.next}, nil
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

// finish does what a pass found out and could not do under a store's read lock. It reports
// whether that makes something due.
func (s *Subscriber) finish(p *pass, q *question) (more bool) {
	for _, c := range s.places {
		c.askForLapsed()
	}
	more = s.settleDebts()
	return s.sendEndpoints(p, q) || more
}
