package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// SessionConfig describes a session.
type SessionConfig struct {
	// Node is the node that the control plane is shown (STR-2, AGG-3). It must not change
	// afterwards. Files are shown none.
	Node *corev3.Node
	// NodeSize is the size of the node's encoding in bytes, if it is known; 0: it is not. To find
	// it out takes long for a large node.
	NodeSize int
	// Scope is the name of the session in logs and Status.
	Scope string
	// Key tells the session from others of the upstream: its replica is chosen by it. If it is
	// empty, the scope does so.
	Key string
	// Store is the cache's side; required.
	Store Store
	// Observer may be shared between sessions; nil means none.
	Observer Observer
	// Metadata goes with every stream or poll beside that of the upstream, and replaces
	// values under the same name (ACC-6). It is never logged, nor part of Status.
	Metadata map[string][]string
	// Panics catches panics (SUR-6): one while a response is applied rejects the response, and
	// any other ends the session. nil: none is caught. Suspect is called after either, from any
	// goroutine: the Store may be inconsistent. It must not block. nil: nobody wants to know.
	Panics  *logs.Panics
	Suspect func()
}

// Session fills one Store for one scope of an upstream: over streams, by polls, or from
// files. It is the loop that all of them share. The differences are the source's.
type Session struct {
	// Immutable after NewSession.
	store  Store
	source source
	report *report
	roster *roster
	batch  time.Duration
	events chan func()   // functions that other goroutines have the owner run
	bell   chan struct{} // one slot: the source has something to look at
	safety safety
	over   chan struct{} // closed when Run's loop has ended

	started atomic.Bool

	// Owned by the goroutine in Run.
	batchAt  time.Time // when demand is looked at; zero: nothing waits for that
	settleAt time.Time // when the Store is to settle; zero: nothing waits
	settled  bool      // the Store has settled since reconcile began
}

// source is where a session's resources come from. All methods but tell are called by the
// session's owner.
type source interface {
	// begin says that Run has begun, until ctx ends; end that it is over.
	begin(ctx context.Context)
	end()
	// reconcile asks for the Store's demand.
	reconcile()
	// urgent reports whether something of a stream is to be asked for at once, and not
	// after the batch time (UPS-3).
	urgent(id wire.StreamID, now time.Time) bool
	// rung is called after the session's bell was rung.
	rung()
	// next is when elapse has something to do, zero if never.
	next() time.Time
	// elapse does everything whose time has come.
	elapse(now time.Time)
	// settling is called before the Store settles.
	settling(now time.Time)
	// review is called after everything else, and returns the session's state.
	review() State
	// tell is Session.Tell.
	tell(w ack.Outcome)
}

// newSession makes a session without a source.
func newSession(cfg SessionConfig, upstream, endpoint string, log *slog.Logger, r *roster, batch time.Duration) (*Session, error) {
	if cfg.Store == nil {
		return nil, fmt.Errorf("upstream %q: a session needs a store", upstream)
	}
	return &Session{
		store: cfg.Store, roster: r, batch: batch, events: make(chan func()), bell: notify.New(),
		safety: safety{cfg.Panics, cfg.Suspect}, over: make(chan struct{}),
		report: newReport(upstream, endpoint, log, cfg),
	}, nil
}

// Status may be called from any goroutine.
func (s *Session) Status() Status { return s.report.Status() }

// Tell tells the session the outcome of content at a client (ACK-7). Streams hold ACKs
// until then. Polls and files wait for no client: the next poll acknowledges. Tell may be
// called from any goroutine, and does not block.
func (s *Session) Tell(w ack.Outcome) { s.source.tell(w) }

// Run keeps the Store fed until ctx ends, whose error it returns, or until the upstream is
// closed (ErrClosed). It ends then even if the server hangs, with all streams closed, no
// poll under way and no goroutine left. It can be called once.
func (s *Session) Run(ctx context.Context) error {
	if !s.started.CompareAndSwap(false, true) {
		return errRunning
	}
	if err := s.roster.enter(); err != nil {
		close(s.over)
		return err
	}
	defer s.roster.leave()
	ctx, cancel := context.WithCancel(ctx)
	err := s.begin(ctx)
	close(s.over)
	cancel()
	s.safety.try(logs.PartSession, s.source.end)
	s.report.turn(StateIdle)
	return err
}

// begin runs the loop. A panic in it ends the session with a [*logs.PanicError], and its streams:
// its own state may be wrong. Another session may take its place (SUR-6).
func (s *Session) begin(ctx context.Context) (err error) {
	defer s.safety.panics.Catch(logs.PartSession, func(e *logs.PanicError) {
		s.safety.suspect()
		err = e
	})
	s.source.begin(ctx)
	return s.loop(ctx)
}

func (s *Session) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	s.reconcile() // the store may hold the resources of an earlier session
	for {
		s.report.turn(s.source.review())
		if at := notify.Earlier(notify.Earlier(s.batchAt, s.settleAt), s.source.next()); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.roster.closing:
			return ErrClosed
		case <-s.store.DemandChanged():
			s.gather(time.Now())
		case f := <-s.events:
			f()
		case <-s.bell:
			s.source.rung()
		case <-timer.C:
			s.elapse(time.Now())
		}
	}
}

// post has the owner run f, unless ctx has ended by then. It waits for the owner. The owner
// alone ends the contexts of its streams and pollers, so it hears no more of one that ended.
func (s *Session) post(ctx context.Context, f func()) {
	select {
	case s.events <- func() {
		if ctx.Err() == nil {
			f()
		}
	}:
	case <-ctx.Done():
	}
}

// Turn waits until the owner's loop has turned, ctx ends, or Run has ended (SUR-5). gone is asked now
// and then whether the session is to end, so that its loop need not turn.
func (s *Session) Turn(ctx context.Context, gone func() bool) {
	if !s.started.Load() {
		return
	}
	notify.Deliver(ctx, s.events, func() {}, s.over, gone)
}

// ring has the owner call source.rung. Any goroutine may call it.
func (s *Session) ring() { notify.Signal(s.bell) }

// gather decides when changed demand is asked for (UPS-3). The first names of a type are
// asked for at once: a client waits for them. Those that follow within the batch time wait
// for its end and are asked for together.
func (s *Session) gather(now time.Time) {
	switch {
	case slices.ContainsFunc(s.store.Streams(), func(id wire.StreamID) bool { return s.source.urgent(id, now) }):
		s.batchAt = time.Time{}
		s.reconcile()
	case s.batchAt.IsZero():
		s.batchAt = now.Add(s.batch)
	}
}

// reconcile asks for the Store's demand, and has the Store settle in any case. Links do so only when they
// take something, and there may be none: ttls run without a stream (TTL-2), and the holds of operators end (GATE-4).
func (s *Session) reconcile() {
	s.settled = false
	if s.source.reconcile(); !s.settled {
		s.settle()
	}
}

// elapse does everything whose time has come.
func (s *Session) elapse(now time.Time) {
	if due(&s.batchAt, now) {
		s.reconcile()
	}
	s.source.elapse(now)
	if due(&s.settleAt, now) {
		s.settle()
	}
}

// settle has the Store settle, and notes when it is to do so again.
func (s *Session) settle() {
	now := time.Now()
	s.source.settling(now)
	s.settleAt, s.settled = s.store.Settle(now), true
}

// noClocks is part of files and polls: they have no times of their own, and wait for no
// client (ACK-7).
type noClocks struct{}

func (noClocks) rung()              {}
func (noClocks) next() time.Time    { return time.Time{} }
func (noClocks) elapse(time.Time)   {}
func (noClocks) settling(time.Time) {}
func (noClocks) tell(ack.Outcome)   {}

// due says whether at has come, and forgets it then.
func due(at *time.Time, now time.Time) bool {
	if at.IsZero() || now.Before(*at) {
		return false
	}
	*at = time.Time{}
	return true
}
