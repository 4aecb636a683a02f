package load

import (
	"container/list"
	"time"
)

// From is where a client comes from. A part that is nil is not known, and is another one for each client.
type From struct {
	Party      any // the address and the identity
	Connection any
}

// waiter is a work that waits for a place.
type waiter struct {
	seat  *seat
	came  time.Time
	ready chan error // has room for one
	of    *flow
	at    *list.Element // in of; nil: it does not wait
}

// queue are waiters, by the parties and the connections that they came through. Each party has its turn after
// all others that wait have had theirs, however many connections it has. Of the connections of a party each
// has its turn after all others. The lock of its places guards it.
type queue struct {
	n       int
	parties line[*party]
}

// party is the flows of an address and an identity.
type party struct {
	at    *list.Element // in the queue
	since time.Time     // when its wait for its turn began
	n     int           // waiters
	flows line[*flow]
}

// flow is the waiters of a connection. There may be a hundred thousand of them, and any of them may leave.
type flow struct {
	of      *party
	at      *list.Element // in of
	waiters list.List     // of *waiter
}

// line is what takes turns: the next one is first.
type line[T any] struct {
	order list.List // of *standing[T]
	known map[any]*list.Element
}

// standing is one of a line.
type standing[T any] struct {
	from any // nil: unknown
	is   T
}

// of gives the one from somewhere, and where it stands. Without one, what begin gives goes to the end of the line.
func (l *line[T]) of(from any, begin func() T) (T, *list.Element) {
	if at := l.known[from]; at != nil {
		return at.Value.(*standing[T]).is, at
	}
	one := begin()
	at := l.order.PushBack(&standing[T]{from, one})
	if from != nil {
		if l.known == nil {
			l.known = make(map[any]*list.Element)
		}
		l.known[from] = at
	}
	return one, at
}

// remove takes one out.
func (l *line[T]) remove(at *list.Element) {
	delete(l.known, at.Value.(*standing[T]).from)
	l.order.Remove(at)
}

// push adds a waiter.
func (q *queue) push(w *waiter, from From) {
	q.n++
	p, at := q.parties.of(from.Party, func() *party { return &party{since: time.Now()} })
	p.at = at
	f, at := p.flows.of(from.Connection, func() *flow { return &flow{of: p} })
	f.at = at
	w.of, w.at = f, f.waiters.PushBack(w)
	p.n++
}

// before is how many have their turn before a waiter who would come now, at most: so many of its own party as take
// turns with its connection, and as many of each other party.
func (q *queue) before(from From) int {
	own := 0
	if at := q.parties.known[from.Party]; at != nil {
		p := at.Value.(*standing[*party]).is
		own = p.n
		if at := p.flows.known[from.Connection]; at != nil {
			own = min(own, (at.Value.(*standing[*flow]).is.waiters.Len()+1)*p.flows.order.Len())
		} else if from.Connection != nil {
			own = min(own, p.flows.order.Len())
		}
	}
	return min(q.n, (own+1)*q.parties.order.Len())
}

// oldest is the first waiter; nil: there is none.
func (q *queue) oldest() *waiter { return firstOf(q.parties.order.Front()) }

// waited is how long the party has waited for its turn that has waited for the longest.
func (q *queue) waited(now time.Time) time.Duration {
	if at := q.parties.order.Front(); at != nil {
		return now.Sub(at.Value.(*standing[*party]).is.since)
	}
	return 0
}

// first takes the first waiter out; nil: there is none.
func (q *queue) first() *waiter { return q.take(firstOf(q.parties.order.Front())) }

// last takes the last waiter out; nil: there is none.
func (q *queue) last() *waiter { return q.take(firstOf(q.parties.order.Back())) }

// firstOf is the first waiter of a party.
func firstOf(at *list.Element) *waiter {
	if at == nil {
		return nil
	}
	flows := &at.Value.(*standing[*party]).is.flows
	return flows.order.Front().Value.(*standing[*flow]).is.waiters.Front().Value.(*waiter)
}

// take takes a waiter out. Its connection and its party go behind the others.
func (q *queue) take(w *waiter) *waiter {
	if w == nil {
		return nil
	}
	f := w.of
	q.remove(w)
	if f.waiters.Len() > 0 {
		f.of.flows.order.MoveToBack(f.at)
	}
	if f.of.flows.order.Len() > 0 {
		q.parties.order.MoveToBack(f.of.at)
		f.of.since = time.Now()
	}
	return w
}

// remove takes a waiter out, and reports whether it waited.
func (q *queue) remove(w *waiter) bool {
	if w.at == nil {
		return false
	}
	f := w.of
	f.waiters.Remove(w.at)
	w.of, w.at = nil, nil
	f.of.n--
	q.n--
	if f.waiters.Len() > 0 {
		return true
	}
	if f.of.flows.remove(f.at); f.of.flows.order.Len() == 0 {
		q.parties.remove(f.of.at)
	}
	return true
}
