package load

import (
	"container/list"
	"slices"
	"time"
)

// waiter is a turn that waits for a place.
type waiter struct {
	turn  *Turn
	came  time.Time
	ready chan error    // has room for one
	among *list.Element // its flow, in the queue; nil: it does not wait
}

// queue are waiters, by the connections that they came through: each connection has its turn after all
// others that wait have had theirs. Admission.mu guards it.
type queue struct {
	n     int
	order list.List // of *flow: the next one is first
	flows map[any]*list.Element
}

// flow are the waiters of a connection.
type flow struct {
	from    any // nil: unknown, and so another one for each waiter
	waiters []*waiter
}

// push adds a waiter.
func (q *queue) push(w *waiter, from any) {
	q.n++
	if at := q.flows[from]; at != nil {
		f := at.Value.(*flow)
		f.waiters = append(f.waiters, w)
		w.among = at
		return
	}
	w.among = q.order.PushBack(&flow{from, []*waiter{w}})
	if from == nil {
		return
	}
	if q.flows == nil {
		q.flows = make(map[any]*list.Element)
	}
	q.flows[from] = w.among
}

// oldest is the first waiter; nil: there is none.
func (q *queue) oldest() *waiter { return of(q.order.Front()) }

// first takes the first waiter out; nil: there is none.
func (q *queue) first() *waiter { return q.take(q.order.Front()) }

// last takes the last waiter out; nil: there is none.
func (q *queue) last() *waiter { return q.take(q.order.Back()) }

// of is the first waiter of a flow.
func of(at *list.Element) *waiter {
	if at == nil {
		return nil
	}
	return at.Value.(*flow).waiters[0]
}

func (q *queue) take(at *list.Element) *waiter {
	w := of(at)
	if w == nil {
		return nil
	}
	q.remove(w)
	if f := at.Value.(*flow); len(f.waiters) > 0 {
		q.order.MoveToBack(at)
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
	f := at.Value.(*flow)
	f.waiters = slices.DeleteFunc(f.waiters, func(one *waiter) bool { return one == w })
	if len(f.waiters) == 0 {
		q.order.Remove(at)
		delete(q.flows, f.from)
	}
	return true
}
