package load

import (
	"container/list"
	"slices"
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
	ready chan error    // has room for one
	among *list.Element // its flow, in that of its party; nil: it does not wait
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
	flows line[*flow]
}

// flow is the waiters of a connection.
type flow struct {
	of      *party
	waiters []*waiter
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
	p, at := q.parties.of(from.Party, func() *party { return new(party) })
	p.at = at
	f, at := p.flows.of(from.Connection, func() *flow { return &flow{of: p} })
	f.waiters = append(f.waiters, w)
	w.among = at
}

// oldest is the first waiter; nil: there is none.
func (q *queue) oldest() *waiter { return of(q.parties.order.Front()) }

// first takes the first waiter out; nil: there is none.
func (q *queue) first() *waiter { return q.take(of(q.parties.order.Front())) }

// last takes the last waiter out; nil: there is none.
func (q *queue) last() *waiter { return q.take(of(q.parties.order.Back())) }

// of is the first waiter of a party.
func of(at *list.Element) *waiter {
	if at == nil {
		return nil
	}
	return flowAt(at.Value.(*standing[*party]).is.flows.order.Front()).waiters[0]
}

func flowAt(at *list.Element) *flow { return at.Value.(*standing[*flow]).is }

// take takes a waiter out. Its connection and its party go behind the others.
func (q *queue) take(w *waiter) *waiter {
	if w == nil {
		return nil
	}
	at := w.among
	f := flowAt(at)
	p := f.of
	q.remove(w)
	if len(f.waiters) > 0 {
		p.flows.order.MoveToBack(at)
	}
	if p.flows.order.Len() > 0 {
		q.parties.order.MoveToBack(p.at)
	}
	return w
}

// remove takes a waiter out, and reports whether it waited.
func (q *queue) remove(w *waiter) bool {
	at := w.among
	if at == nil {
		return false
	}
	w.among = nil
	q.n--
	f := flowAt(at)
	f.waiters = slices.DeleteFunc(f.waiters, func(one *waiter) bool { return one == w })
	if len(f.waiters) > 0 {
		return true
	}
	if f.of.flows.remove(at); f.of.flows.order.Len() == 0 {
		q.parties.remove(f.of.at)
	}
	return true
}
