package upstream

import (
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/retry"
)

const (
	// admitPause is the time from one stream to the next when a control plane is back and
	// its scopes return: it has to send each of them its first state (UPS-2).
	admitPause = 5 * time.Millisecond
	// firstStreams is how many streams are opened at once before the control plane is known to keep
	// them. Further ones come one by one.
	firstStreams = 8
	firstPause   = time.Millisecond
	// longBackoff is how far the back-off grows while a server says that it has no
	// resources left.
	longBackoff = 30 * time.Second
	// probeStands is how long a stream must stand to show that its server is back: a
	// server has nothing to say to a stream that resumes and missed nothing.
	probeStands = time.Second
)

// entrance decides when streams to a control plane are tried again while it cannot be
// reached (UPS-2). One stream of all its scopes is the probe, at growing intervals; the
// others wait in line. A probe that fails goes to the end of the line: a server that refuses
// one scope does not keep the others out. When a probe is answered the others
// follow one by one. All methods may be called from any goroutine.
type entrance struct {
	// Immutable after newEntrance.
	outages *Outages
	most    time.Duration // the longest interval
	panics  *logs.Panics

	mu      sync.Mutex // taken before that of outages
	backoff retry.Backoff
	waiting []*ticket
	probe   *ticket   // the one that is tried; nil: none
	next    time.Time // nobody is let in before
	timer   *time.Timer
	begun   int       // streams that needed not wait
	room    time.Time // when the next stream may follow that broke though there is no outage
	set     int       // how often timer was set or stopped: one that fired meanwhile is void
	closed  bool

	outage  int       // the number of the one that lasts, or was the last
	ended   time.Time // when an answer ended the last outage
	flaps   bool      // the server answers and ends streams: an answer shows nothing, but a stream that stands
	replica *replica  // that ended the last outage; nil before the first
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
	outages.contacts.begin(time.Now())
	return &entrance{outages: outages, most: most, backoff: retry.Backoff{Base: base, Max: most}}
}

// enter reports whether a stream may be opened now. If not, the ticket's bell is rung
// when it may be. The probe may go on: a server that fell silent sends it to the next one
// after a pause, and it would wait behind itself. Until the control plane is known to keep
// streams only a few come at once: if the first do not stand, the others wait.
func (e *entrance) enter(t *ticket) bool {
	if e.untried() {
		e.outages.renew()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.probe == t {
		return true
	}
	if now := time.Now(); len(e.waiting) == 0 && !e.down() && (e.outages.known(now) || e.begun < firstStreams || !now.Before(e.next)) {
		e.begun++
		e.next = now.Add(firstPause)
		return true
	}
	e.queue(t)
	return false
}

// down reports whether streams are let in one at a time. The caller holds mu.
func (e *entrance) down() bool { return e.flaps || e.outages.down() }

// flapping reports whether the server answers and ends streams.
func (e *entrance) flapping() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flaps
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

// serving gives the replica that ended the outage, if that is over; nil if it is not known.
// It is not for the probe, which looks for one.
func (e *entrance) serving(t *ticket) (x *replica, back bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.replica, e.probe != t
}

// lost notes that a stream of a ticket could not be opened, or ended, and queues the ticket
// if it is to be tried again and nothing can be reached. It returns then how long the next
// probe waits. early is set if the server answered on the stream and ended it before that stood. Then
// the waits go on to grow.
func (e *entrance) lost(t *ticket, err *ConnectionError, early, again bool) (delay time.Duration, queued bool) {
	down, began := e.outages.fail(err)
	e.mu.Lock()
	defer e.mu.Unlock()
	probed := e.probe == t
	if probed {
		e.probe = nil
	}
	if began && time.Since(e.ended) >= stableAfter {
		e.backoff.Reset()
		e.outage++
	}
	e.flaps = e.flaps || began && early
	if down && (began || probed) {
		t.failed = e.outage
		e.backoff.Max = backoffBound(e.most, err.Reason)
		e.next = time.Now().Add(nextDelay(&e.backoff, early))
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

// follow gives a stream that broke its turn among those that did, though others are good: the
// scopes of a replica that died come to the others at the same rate as after an outage.
func (e *entrance) follow() (delay time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if e.room.Before(now) {
		e.room = now
	}
	delay = e.room.Sub(now)
	e.room = e.room.Add(admitPause)
	return delay
}

// backoffBound is how far a back-off may grow after a stream that ended for a reason.
func backoffBound(most time.Duration, reason Reason) time.Duration {
	if reason == ReasonExhausted {
		return max(most, longBackoff)
	}
	return most
}

// nextDelay is the next delay of a back-off. early is as for lost.
func nextDelay(b *retry.Backoff, early bool) time.Duration {
	if early {
		return b.Late()
	}
	return b.Next()
}

// answer notes that a replica of the control plane answered.
func (e *entrance) answer(x *replica, at time.Time) {
	if !e.outages.answer(at) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = at
	if !e.flaps {
		e.open(x, at)
	}
}

// stood notes that a stream to a replica stood for so long that the server is there.
func (e *entrance) stood(x *replica, at time.Time) {
	e.answer(x, at)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.flaps {
		e.flaps = false
		e.open(x, at)
	}
}

// open lets the others follow. The caller holds mu.
func (e *entrance) open(x *replica, at time.Time) {
	e.probe, e.next, e.replica = nil, at, x
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
	e.timer = time.AfterFunc(time.Until(e.next), e.panics.Func(logs.PartBackground, func() { e.admit(set) }))
}

// stop stops the timer, as another time counts now. The caller holds mu.
func (e *entrance) stop() {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
		e.set++
	}
}

// admit lets the first of the line in, and all where nothing is against it. set says which timer it is.
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
	now, most := time.Now(), 1
	switch {
	case e.down():
		e.probe = e.waiting[0]
	case e.outage == 0 && e.outages.known(now):
		most = len(e.waiting)
	case e.outage == 0:
		e.next = now.Add(firstPause)
	default:
		e.next = now.Add(admitPause)
	}
	for _, t := range e.waiting[:most] {
		t.admitted = true
		notify.Signal(t.bell)
	}
	e.waiting = slices.Delete(e.waiting, 0, most)
	e.arm()
}

// shut lets nobody in any more.
func (e *entrance) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.stop()
}
