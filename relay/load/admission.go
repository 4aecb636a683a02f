package load

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"
)

// Work is what clients that join cause. It is a metric's label.
type Work string

// The works.
const (
	Handshake Work = "handshake" // of a new connection
	Token     Work = "token"     // the signature of a client's bearer token
	Join      Work = "join"      // a client's first request: what is cached for it is handed to its stream
	Poll      Work = "poll"      // of a client that presents a version
	Scope     Work = "scope"     // a new scope asks its control plane
)

// Works lists them.
func Works() []Work { return []Work{Handshake, Token, Join, Poll, Scope} }

// Reason is why somebody is refused. It is a metric's label.
type Reason string

// The reasons.
const (
	Late     Reason = "late"   // others came before, and the wait is over
	NoMemory Reason = "memory" // the level of memory is Full; for a new scope, Tight
)

// Reasons lists them.
func Reasons() []Reason { return []Reason{Late, NoMemory} }

// The errors of an Admission, beside those of contexts.
var (
	ErrLate   = errors.New("too many clients join: the relay takes on others later")
	ErrMemory = errors.New("memory is short: the relay takes on nobody")
	ErrClosed = errors.New("the relay takes on nobody any more")
)

// Observer is told what an Admission does. Its methods may be called from any goroutine, and must not
// block.
type Observer interface {
	// Admitted tells how long a work took, the wait for its turn included. Of a handshake the time in
	// which the client was silent is left out.
	Admitted(work Work, took time.Duration)
	Refused(work Work, reason Reason)
}

// How many works there are at a time, and how long others wait.
const (
	// perProcessor is how many works may be under way for each processor. Works compute. More of them at
	// a time are not done sooner, but have the streams that are served wait for a processor. Fewer leave
	// processors idle when one waits for a lock.
	perProcessor = 2
	leastAtATime = 4
	// turnTime is how long a work has its place. What takes longer computes much, or waits for something: then
	// a processor may be free. It goes on, and the next one begins.
	turnTime = 100 * time.Millisecond
	// overrunMost times as many works as have places may go on beyond their time.
	overrunMost = 4

	// DefaultWait is how long a join or a poll waits for its place, unless SetWait says otherwise.
	DefaultWait = 10 * time.Second
	// helloWait is less than a handshake may take in all.
	helloWait = 8 * time.Second
)

// Admission admits clients at the rate at which the processors can serve them, and while there is memory
// (LIM-1, LIM-3). A client that joins has work done in a place of its own, of which there are few; others
// wait in a queue with a deadline. Each address and identity has its turn before any has another one, and so
// has each of its connections (LIM-2). Its methods may be called from any goroutine.
type Admission struct {
	// immutable
	memory   *Memory
	observer Observer

	off    atomic.Bool
	wait   atomic.Int64 // how long a join or a poll waits, a time.Duration
	places places
	scopes scopes
}

// NewAdmission makes one that goes by memory, which may be nil. observer may be nil, too.
func NewAdmission(memory *Memory, observer Observer) *Admission {
	return newAdmission(memory, observer, max(leastAtATime, perProcessor*runtime.GOMAXPROCS(0)))
}

func newAdmission(memory *Memory, observer Observer, places int) *Admission {
	if observer == nil {
		observer = silent{}
	}
	a := &Admission{memory: memory, observer: observer}
	a.places.most, a.scopes.read = places, readWaits
	a.SetWait(DefaultWait)
	return a
}

type silent struct{}

func (silent) Admitted(Work, time.Duration) {}
func (silent) Refused(Work, Reason)         {}

// SetOff has clients join whatever the load is, or not. Memory counts all the same.
func (a *Admission) SetOff(off bool) {
	a.off.Store(off)
	if off {
		a.scopes.letAll()
	}
}

// SetWait changes how long joins and polls that come from now on wait for their place.
func (a *Admission) SetWait(d time.Duration) { a.wait.Store(int64(d)) }

// Close ends all waits with ErrClosed, and refuses clients that come later.
func (a *Admission) Close() { a.places.close() }

// Status is what an Admission does at the moment.
type Status struct {
	Places  int          // how many may work at a time; 0: any number, the Admission is off
	Working int          // how many do, those beyond their time included
	Waiting map[Work]int // how many wait for their turn
}

// Status gives the present one.
func (a *Admission) Status() Status {
	a.places.mu.Lock()
	defer a.places.mu.Unlock()
	places, q := a.places.most, &a.places.queues
	if a.off.Load() {
		places = 0
	}
	return Status{
		Places: places, Working: a.places.working(),
		Waiting: map[Work]int{Handshake: q.begun.n + q.hellos.n, Join: q.joins.n, Poll: q.polls.n, Scope: a.scopes.waiting()},
	}
}

// Scope gives nil if there is memory for a new scope, ErrMemory if not.
func (a *Admission) Scope() error {
	if a != nil && a.memory.Level() >= Tight {
		return ErrMemory
	}
	return nil
}

// Room gives nil if there is memory for a new stream, ErrMemory if not.
func (a *Admission) Room() error {
	if a.memory.Level() >= Full {
		return ErrMemory
	}
	return nil
}

// Begin waits until a new scope may ask its control plane. If it has to wait, meanwhile runs beside it with a context
// that ends then. The error is that of ctx. A scope takes no place, and is never
// refused: the pace at which scopes begin goes by how long goroutines wait for a processor. Addresses, identities and
// connections have turns as in Join.
func (a *Admission) Begin(ctx context.Context, from From, meanwhile func(context.Context)) error {
	if a == nil || a.off.Load() {
		return nil
	}
	came := time.Now()
	if err := a.scopes.begin(ctx, from, meanwhile); err != nil {
		return err
	}
	a.observer.Admitted(Scope, time.Since(came))
	return nil
}

// Join waits until a client may join whose first request is there. The error is ErrMemory, ErrLate, ErrClosed or that of ctx.
// ErrLate comes at once if the turn would come later than the wait allows, at the rate at which others had theirs.
// Without an error Done is to be called.
func (a *Admission) Join(ctx context.Context, from From) (*Turn, error) {
	return a.begin(ctx, Join, &a.places.queues.joins, from)
}

// Token is Join for the signature of a client's bearer token.
func (a *Admission) Token(ctx context.Context, from From) (*Turn, error) {
	return a.begin(ctx, Token, &a.places.queues.joins, from)
}

// Poll is Join for a poll of a client that says that it was served before. Polls and joins have their turns one
// by one: neither keeps the other out.
func (a *Admission) Poll(ctx context.Context, from From) (*Turn, error) {
	return a.begin(ctx, Poll, &a.places.queues.polls, from)
}

func (a *Admission) begin(ctx context.Context, work Work, q *queue, from From) (*Turn, error) {
	if err := a.Room(); err != nil {
		a.observer.Refused(work, NoMemory)
		return nil, err
	}
	t := &Turn{of: a, work: work, came: time.Now()}
	if err := t.take(ctx, q, from, time.Duration(a.wait.Load())); err != nil {
		if errors.Is(err, ErrLate) {
			a.observer.Refused(work, Late)
		}
		return nil, err
	}
	return t, nil
}

// Turn is that of one client, to have its work done. One goroutine at a time uses it.
type Turn struct {
	of   *Admission
	work Work
	came time.Time
	seat seat
}

// take waits for a place.
func (t *Turn) take(ctx context.Context, q *queue, from From, most time.Duration) error {
	if t.of.off.Load() {
		return nil
	}
	return t.of.places.take(ctx, &t.seat, q, from, most)
}

// release gives the place back.
func (t *Turn) release() { t.of.places.release(&t.seat) }

// Done ends a turn: the work is done, or may have to wait for the client. Calling it again, or that of
// nil, does nothing.
func (t *Turn) Done() {
	if t == nil || t.came.IsZero() {
		return
	}
	t.release()
	t.of.observer.Admitted(t.work, time.Since(t.came))
	t.came = time.Time{}
}
