package load

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// places are for works that compute. There are few places. A work that finds none free waits in one of the queues.
type places struct {
	most int // immutable

	mu      sync.Mutex // guards what follows
	queues  queues
	closed  bool
	running list.List // of *lease: those that have a place, in the order in which they got it
	overrun int       // who goes on without a place
	look    *time.Timer
	looking bool // look is set
	pace    pace
}

// pace is how fast those that wait have their turns. The lock of the places guards it.
type pace struct {
	since time.Time // when they began to wait, or later
	turns int       // since then
}

const (
	// paceKnown is after which time the turns since then tell the pace, and paceLasts after which the older half of
	// it counts no more.
	paceKnown = 500 * time.Millisecond
	paceLasts = 2 * time.Second
)

// wait is how long the next one waits that so many have their turn before; 0 if that is not known yet.
func (p *pace) wait(before int, now time.Time) time.Duration {
	took := now.Sub(p.since)
	if took < paceKnown || p.turns == 0 {
		return 0
	}
	return took * time.Duration(before) / time.Duration(p.turns)
}

// turn notes that one had its turn.
func (p *pace) turn(now time.Time) {
	p.turns++
	if took := now.Sub(p.since); took > paceLasts {
		p.since, p.turns = now.Add(-took/2), p.turns/2
	}
}

// seat is a work's place, or none. One goroutine at a time uses it.
type seat struct {
	held  *list.Element // of running; nil: it has no place
	lease lease
}

// lease is guarded by places.mu.
type lease struct {
	since time.Time
	over  bool // it had the place for long enough, and others have it now
}

// take waits for a place, for most at most. The error is ErrLate, ErrClosed or that of ctx.
func (p *places) take(ctx context.Context, s *seat, q *queue, from From, most time.Duration) error {
	w, err := p.enter(s, q, from, most)
	if w == nil {
		return err
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case err := <-w.ready:
		return err
	case <-timer.C:
		return p.leave(w, q, ErrLate)
	case <-ctx.Done():
		return p.leave(w, q, ctx.Err())
	}
}

// enter gives a place, or else puts the work into a queue.
func (p *places) enter(s *seat, q *queue, from From, most time.Duration) (*waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, ErrClosed
	case p.running.Len() < p.most: // then nobody waits
		p.give(s)
		return nil, nil
	}
	now := time.Now()
	if p.queues.waiting() == 0 {
		p.pace = pace{since: now}
	}
	if q == &p.queues.joins || q == &p.queues.polls {
		if p.pace.wait(p.queues.before(q, from), now) > most {
			return nil, ErrLate
		}
	}
	w := &waiter{seat: s, came: now, ready: make(chan error, 1)}
	q.push(w, from)
	p.lookLater()
	return w, nil
}

// leave takes a waiter out of its queue. It gives why, or what the waiter was told in the same moment.
func (p *places) leave(w *waiter, q *queue, why error) error {
	p.mu.Lock()
	if q.remove(w) {
		p.mu.Unlock()
		return why
	}
	p.mu.Unlock()
	err := <-w.ready
	if err == nil && !errors.Is(why, ErrLate) { // the client has gone
		p.release(w.seat)
		return why
	}
	return err
}

// give gives a place. The caller holds mu.
func (p *places) give(s *seat) {
	s.lease = lease{since: time.Now()}
	s.held = p.running.PushBack(&s.lease)
}

// release takes a place back, if there is one.
func (p *places) release(s *seat) {
	if s.held == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.lease.over {
		p.overrun--
	} else {
		p.running.Remove(s.held)
	}
	s.held = nil
	p.fill()
}

// close ends the waits in all queues with ErrClosed. Later works are refused.
func (p *places) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.look != nil {
		p.look.Stop()
	}
	for w := p.queues.next(); w != nil; w = p.queues.next() {
		w.ready <- ErrClosed
	}
}

// fill gives free places to those whose turn it is. The caller holds mu.
func (p *places) fill() {
	for p.running.Len() < p.most {
		w := p.queues.next()
		if w == nil {
			return
		}
		p.give(w.seat)
		p.pace.turn(time.Now())
		w.ready <- nil
	}
	p.lookLater()
}

// lookLater has somebody look at works that take long, if somebody waits for their end. The caller holds mu.
func (p *places) lookLater() {
	oldest := p.running.Front()
	if p.looking || p.closed || oldest == nil || p.queues.waiting() == 0 || p.overrun >= overrunMost*p.most {
		return
	}
	p.looking = true
	in := turnTime - time.Since(oldest.Value.(*lease).since)
	if p.look == nil {
		p.look = time.AfterFunc(in, p.lookNow)
		return
	}
	p.look.Reset(in)
}

// lookNow takes places from works that had them for long enough.
func (p *places) lookNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looking = false
	for e := p.running.Front(); e != nil && p.overrun < overrunMost*p.most; e = p.running.Front() {
		l := e.Value.(*lease)
		if time.Since(l.since) < turnTime {
			break
		}
		l.over = true
		p.running.Remove(e)
		p.overrun++
	}
	p.fill()
}

// working is how many work, those beyond their time included. The caller holds mu.
func (p *places) working() int { return p.running.Len() + p.overrun }
