package load

import (
	"context"
	"math"
	"runtime/metrics"
	"sync"
	"time"
)

// The pace of new scopes. A new scope costs more than a join: its control plane sends it a first state, and from
// then on each update once more. So it is not the time of joins that tells how many scopes are too many.
// Goroutines tell it that could run and wait for a processor: each update goes through some of them, one after the other.
const (
	// late is how long a goroutine waits for a processor at most, as a rule.
	late = 2 * time.Millisecond
	// lateOneIn is which part of the goroutines may wait longer.
	lateOneIn = 10
	// fewestWaits are the least from which anything follows.
	fewestWaits = 20

	scopesTick = 10 * time.Millisecond
	scopesLook = 50 * time.Millisecond
	scopesCalm = 500 * time.Millisecond // without a busy look, before the pace grows
	scopesIdle = time.Second            // without a look: nobody has waited

	// scopesAtOnce begin without a wait after a time in which nobody waited.
	scopesAtOnce = 16
	// The paces, in scopes per second. With the least one all that wait begin in the end, however busy the
	// processors are.
	scopesFirst = 500
	scopesLeast = 10
	scopesMost  = 10_000
	// scopesWait is how long an address waits for its next scope at most, however busy the processors are. The pace is
	// no more than scopesFirst for its sake.
	scopesWait = time.Minute
	// What the pace is multiplied by at a busy look, and at a calm one.
	scopesDown = 0.5
	scopesUp   = 1.125
)

// scopes have new scopes begin at a pace that leaves the processors to those that are there (LIM-2). The others
// wait in turn, without a deadline: their control plane was not asked yet, and so owes no answer.
type scopes struct {
	read func() waits // cumulative. Immutable

	mu    sync.Mutex // guards what follows
	queue queue
	rate  float64   // how many begin in a second
	due   float64   // how many may begin now
	until time.Time // when due was reckoned
	busy  time.Time // the last busy look
	armed bool      // a tick follows

	looked time.Time // the last look; the tick's own
	seen   waits     // of the last look; likewise
}

// waits are goroutines that could run and waited for a processor.
type waits struct {
	all  uint64
	late uint64 // those that waited longer than late
}

// begin waits until a scope may begin. If it has to, meanwhile runs beside it with a context that ends then. The
// error is that of ctx.
func (s *scopes) begin(ctx context.Context, from From, meanwhile func(context.Context)) error {
	w := s.enter(from)
	if w == nil {
		return nil
	}
	waits, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { meanwhile(waits) })
	defer beside.Wait()
	defer stop()
	select {
	case err := <-w.ready:
		return err
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.queue.remove(w)
		return ctx.Err()
	}
}

// enter gives nil if a scope may begin at once. Else it stands in the queue then.
func (s *scopes) enter(from From) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reckon(time.Now())
	if s.queue.n == 0 && s.due >= 1 {
		s.due--
		return nil
	}
	w := &waiter{came: time.Now(), ready: make(chan error, 1)}
	s.queue.push(w, from)
	s.arm()
	return w
}

// reckon counts how many may begin by now. The caller holds mu.
func (s *scopes) reckon(now time.Time) {
	most := float64(scopesAtOnce)
	switch {
	case s.rate == 0:
		s.rate, s.due = scopesFirst, most
	case s.queue.n > 0:
		most = max(most, s.rate*scopesLook.Seconds())
	}
	s.due = min(most, s.due+max(s.rate, s.least(now))*now.Sub(s.until).Seconds())
	s.until = now
}

// least is the pace with which those that wait have their turns in time: addresses and identities, as many as are known.
// Scopes and connections one client may have any number of. The caller holds mu.
func (s *scopes) least(now time.Time) float64 {
	left := max(scopesWait-s.queue.waited(now), scopesTick)
	return min(scopesFirst, max(scopesLeast, float64(len(s.queue.parties.known))/left.Seconds()))
}

// arm has a tick follow as long as somebody waits. The caller holds mu.
func (s *scopes) arm() {
	if s.armed || s.queue.n == 0 {
		return
	}
	s.armed = true
	time.AfterFunc(scopesTick, s.tick)
}

// tick lets those begin whose turn it is.
func (s *scopes) tick() {
	now := time.Now()
	s.look(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.reckon(now); s.due >= 1 && s.queue.n > 0; s.due-- {
		s.queue.first().ready <- nil
	}
	s.armed = false
	s.arm()
}

// letAll lets everybody begin who waits.
func (s *scopes) letAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := s.queue.first(); w != nil; w = s.queue.first() {
		w.ready <- nil
	}
}

// look changes the pace by what happened since the last look.
func (s *scopes) look(now time.Time) {
	since := now.Sub(s.looked)
	if since < scopesLook {
		return
	}
	is := s.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	all, lates := is.all-s.seen.all, is.late-s.seen.late
	s.looked, s.seen = now, is
	looks := float64(since / scopesLook)
	switch {
	case since >= scopesIdle: // what the processors can do now is not known
		s.rate = min(scopesFirst, s.rate*math.Pow(scopesUp, looks))
	case all >= fewestWaits && lates*lateOneIn > all:
		s.busy = now
		s.rate = max(scopesLeast, s.rate*scopesDown)
	case now.Sub(s.busy) >= scopesCalm:
		s.rate = min(scopesMost, s.rate*math.Pow(scopesUp, looks))
	}
}

// waiting is how many wait.
func (s *scopes) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.n
}

// readWaits reads those of this process.
func readWaits() (is waits) {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	h := sample[0].Value.Float64Histogram()
	for i, n := range h.Counts {
		is.all += n
		if h.Buckets[i] >= late.Seconds() {
			is.late += n
		}
	}
	return is
}
