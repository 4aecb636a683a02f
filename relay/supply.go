package relay

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// supply is what fills a session's store: one feed after the other, where a reload
// changes how its control plane is reached. A feed that ends leaves the store as a lost
// stream does, and the next one begins as a stream does that comes back: everything that
// is wanted is subscribed to, and what is held is presented (RES-12). So nothing is
// removed from clients meanwhile.
type supply struct {
	log  *slog.Logger
	bell chan struct{} // one slot: there is another feed

	panics *logs.Panics
	reopen func() (feed, error) // makes the next feed after one that panicked
	pause  time.Duration        // before that; owned by Run

	feed atomic.Pointer[feed] // the present one; it changes under mu, and is read for each delivery

	mu    sync.Mutex
	stop  context.CancelFunc // ends the feed; nil before Run
	since time.Time          // when the feeds before were lost, if they were; zero otherwise
	waits time.Time          // since when it waits for its turn to ask its control plane; zero: it does not
}

func newSupply(f feed, log *slog.Logger) *supply {
	s := &supply{log: log, bell: notify.New()}
	s.feed.Store(&f)
	return s
}

// Run implements feed. It returns when ctx ends, and not before: a feed that ends by
// itself, because its control plane was closed, is replaced soon, or nobody needs it.
func (s *supply) Run(ctx context.Context) error {
	var before feed
	for {
		s.mu.Lock()
		f := s.current()
		run, stop := context.WithCancel(ctx)
		s.stop = stop
		s.mu.Unlock()
		inherit(f, before)
		began := time.Now()
		err := s.run(run, f)
		stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		before = f
		if _, failed := errors.AsType[*logs.PanicError](err); failed {
			s.refill(ctx, f, time.Since(began))
			before = nil // what it knows may be wrong
		}
		for s.current() == f {
			s.log.Debug("the feed of the cache ended", "error", err)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-s.bell: // for this one, or for f itself
			}
		}
	}
}

// run runs a feed. The error is a [*logs.PanicError] if it panics.
func (s *supply) run(ctx context.Context, f feed) (err error) {
	part := logs.PartSession
	if _, own := f.(*resolver); own {
		part = logs.PartResolver
	}
	defer s.panics.Catch(part, func(e *logs.PanicError) { err = e })
	return f.Run(ctx)
}

// The pauses before a session that panicked is fed again.
const (
	refeed     = time.Second
	refeedMost = time.Minute
)

// refill has another feed take the place of one that panicked, after a pause that grows as long as
// feeds panic soon.
func (s *supply) refill(ctx context.Context, failed feed, ran time.Duration) {
	if s.pause = min(2*s.pause, refeedMost); s.pause == 0 || ran > refeedMost {
		s.pause = refeed
	}
	if !retry.Sleep(ctx, s.pause) || s.current() != failed {
		return
	}
	if next, err := s.reopen(); err == nil {
		s.replace(next)
	}
}

// inherit gives what a feed knows that has ended to the next one that runs.
func inherit(next, before feed) {
	was, ended := before.(*upstream.Session)
	if now, ok := next.(*upstream.Session); ended && ok {
		now.Succeed(was)
	}
}

func (s *supply) current() feed { return *s.feed.Load() }

// replace has another feed take the place of the present one. It does not wait.
func (s *supply) replace(next feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.statusLocked() // which counts what was lost before the present one, too
	s.since = time.Time{}
	if st.State == upstream.StateConnecting {
		s.since = st.Since
	}
	s.feed.Store(&next)
	if s.stop != nil {
		s.stop()
	}
	notify.Signal(s.bell)
}

// Status implements feed.
func (s *supply) Status() upstream.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.statusLocked()
}

// wait says since when the first feed waits for its turn to ask its control plane; zero: not any more.
func (s *supply) wait(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = since
}

// startTime is how long a feed may take to find out what is wanted of it.
const startTime = time.Second

// statusLocked is the feed's status. Where the one before was not connected, what is
// cached does not get younger by the replacement: since then it has been getting old
// (OPS-1), and that long alternatives have been waiting (LOC-5).
func (s *supply) statusLocked() upstream.Status {
	st := s.current().Status()
	if !s.waits.IsZero() {
		st.State, st.Since = upstream.StateWaiting, s.waits
		return st
	}
	if s.since.IsZero() || st.Freshness.Connected {
		return st
	}
	began := st.State == upstream.StateIdle && time.Since(st.Since) < startTime
	if began || st.State == upstream.StateConnecting {
		st.State, st.Since = upstream.StateConnecting, s.since
	}
	return st
}

// connectedAt is when what the store holds was known to be current: now, or when the feed lost its connection.
func (s *supply) connectedAt(now time.Time) time.Time {
	if st := s.Status(); st.State == upstream.StateConnecting && st.Since.Before(now) {
		return st.Since
	}
	return now
}

// Tell implements feed. What the feed before brought its successor does not know.
func (s *supply) Tell(w ack.Outcome) { s.current().Tell(w) }
