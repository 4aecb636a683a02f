package upstream

import (
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/backoff"
)

const (
	// admitPause is the time from one stream to the next when a control plane is back and
	// its scopes return: it has to send each of them its first state (UPS-2).
	admitPause = 5 * time.Millisecond
	// longBackoff is how far the back-off grows while a server says that it has no
	// resources left.
	longBackoff = 30 * time.Second
	// probeStands is how long a stream must stand to show that its server is back: a
	// server has nothing to say to a stream that resumes and missed nothing.
	probeStands = time.Second
)

// entrance decides when streams to a control plane are tried again while it cannot be
// reached (UPS-2). One stream of all its scopes is the probe, at growing intervals; the
// others wait in line. A probe that fails goes to the end of the line: what its server has
// against one scope does not keep the others out. When a probe is answered the others
// follow one by one. All methods may be called from any goroutine.
type entrance struct {
	// Immutable after newEntrance.
	outages *Outages
	most    time.Duration // what the back-off grows to

	mu      sync.Mutex // taken before that of outages
	backoff backoff.Backoff
	waiting []*ticket
	probe   *ticket   // the one that is tried; nil: none
	next    time.Time // nobody is let in before
	timer   *time.Timer
	set     int // how often timer was set or stopped: one that fired meanwhile is void
	closed  bool

	outage   int // the number of the one that lasts, or was the last
	endpoint int // that ended the last outage
}

// ticket is a line's place at the entrance.
type ticket struct {
	bell     chan<- struct{} // one slot: a ticket of this session was admitted
	admitted bool            // guarded by entrance.mu
	failed   int             // the outage in which it was tried in vain; likewise
}

func newEntrance(outages *Outages, base, most time.Duration) *entrance {
	if outages == nil {
		outages = new(Outages)
	}
	return &entrance{outages: outages, most: most, backoff: backoff.Backoff{Base: base, Max: most}}
}

// enter reports whether a stream may be opened now. If not, the ticket's bell is rung
// when it may be.
func (e *entrance) enter(t *ticket) bool {
	if e.untried() {
		e.outages.renew()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) == 0 && !e.outages.down() {
		return true
	}
	e.queue(t)
	return false
}

// untried reports whether nobody tries, nor waits for it.
func (e *entrance) untried() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.probe == nil && len(e.waiting) == 0
}

// queue puts a ticket at the end of the line, of those that were not tried in vain if it was
// not. The caller holds mu.
func (e *entrance) queue(t *ticket) {
	if !slices.Contains(e.waiting, t) {
		at := len(e.waiting)
		if !e.tried(t) {
			at = sort.Search(at, func(i int) bool { return e.tried(e.waiting[i]) })
		}
		e.waiting = slices.Insert(e.waiting, at, t)
	}
	e.arm()
}

// tried reports whether a ticket was tried in vain in this outage. The caller holds mu.
func (e *entrance) tried(t *ticket) bool { return e.outage > 0 && t.failed == e.outage }

// leave says that a ticket is not waited for any longer, or that its stream is not the
// probe any more.
func (e *entrance) leave(t *ticket) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.admitted = false
	e.waiting = slices.DeleteFunc(e.waiting, func(x *ticket) bool { return x == t })
	if e.probe == t {
		e.probe = nil
	}
	e.arm()
}

// take reports whether a ticket was admitted, once.
func (e *entrance) take(t *ticket) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	admitted := t.admitted
	t.admitted = false
	return admitted
}

// serving gives the endpoint that ended the outage, if that is over. It is not for the
// probe, which looks for one.
func (e *entrance) serving(t *ticket) (endpoint int, back bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.endpoint, e.probe != t
}

// lost notes that a stream of a ticket could not be opened, or ended, and queues the ticket
// if it is to be tried again and nothing can be reached. It returns then how long the next
// probe waits.
func (e *entrance) lost(t *ticket, err *ConnectionError, again bool) (delay time.Duration, queued bool) {
	down, began := e.outages.fail(err)
	e.mu.Lock()
	defer e.mu.Unlock()
	probed := e.probe == t
	if probed {
		e.probe = nil
	}
	if began {
		e.outage++
	}
	if down && (began || probed) {
		t.failed = e.outage
		e.backoff.Max = backoffBound(e.most, err.Reason)
		e.next = time.Now().Add(e.backoff.Next())
		if err.Reason.refuses() && len(e.waiting) > 0 && !e.tried(e.waiting[0]) {
			e.next = time.Now().Add(admitPause)
		}
		e.stop()
	}
	if !down || !again {
		e.arm()
		return 0, false
	}
	e.queue(t)
	return max(1, time.Until(e.next)), true
}

// backoffBound is how far a back-off may grow after a stream that ended for a reason.
func backoffBound(most time.Duration, reason Reason) time.Duration {
	if reason == ReasonExhausted {
		return max(most, longBackoff)
	}
	return most
}

// answer notes that the control plane answered at an endpoint.
func (e *entrance) answer(endpoint int, at time.Time) {
	if !e.outages.answer(at) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probe, e.next, e.endpoint = nil, at, endpoint
	e.backoff.Reset()
	e.stop()
	e.arm()
}

// arm sets the timer for the next of the line. The caller holds mu.
func (e *entrance) arm() {
	if e.timer != nil || e.closed || len(e.waiting) == 0 || e.probe != nil {
		return
	}
	e.set++
	set := e.set
	e.timer = time.AfterFunc(time.Until(e.next), func() { e.admit(set) })
}

// stop stops the timer, as another time counts now. The caller holds mu.
func (e *entrance) stop() {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
		e.set++
	}
}

// admit lets the first of the line in. set says which timer it is.
func (e *entrance) admit(set int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if set != e.set {
		return
	}
	e.timer = nil
	if e.closed || len(e.waiting) == 0 || e.probe != nil {
		return
	}
	t := e.waiting[0]
	e.waiting = slices.Delete(e.waiting, 0, 1)
	t.admitted = true
	if e.outages.down() {
		e.probe = t
	} else {
		e.next = time.Now().Add(admitPause)
	}
	select {
	case t.bell <- struct{}{}:
	default:
	}
	e.arm()
}

// shut lets nobody in any more.
func (e *entrance) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.stop()
}
