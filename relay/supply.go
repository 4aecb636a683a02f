package relay

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/verdict"
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

	feed atomic.Pointer[feed] // the present one; it changes under mu, and is read for each delivery

	mu    sync.Mutex
	stop  context.CancelFunc // ends the feed; nil before Run
	since time.Time          // when the feeds before were lost, if they were; zero otherwise
}

func newSupply(f feed, log *slog.Logger) *supply {
	s := &supply{log: log, bell: make(chan struct{}, 1)}
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
		err := f.Run(run)
		stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for s.current() == f {
			s.log.Debug("the feed of the cache ended", "error", err)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-s.bell: // for this one, or for f itself
			}
		}
		before = f
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
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// Status implements feed.
func (s *supply) Status() upstream.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.statusLocked()
}

// startTime is how long a feed may take to find out what is wanted of it.
const startTime = time.Second

// statusLocked is the feed's status. Where the one before was not connected, what is
// cached does not get younger by the replacement: since then it has been getting old
// (OPS-1), and that long alternatives have been waiting (LOC-5).
func (s *supply) statusLocked() upstream.Status {
	st := s.current().Status()
	if s.since.IsZero() || st.Opened > 0 {
		return st
	}
	began := st.State == upstream.StateIdle && time.Since(st.Since) < startTime
	if began || st.State == upstream.StateConnecting {
		st.State, st.Since = upstream.StateConnecting, s.since
	}
	return st
}

// Tell implements feed. What the feed before brought its successor does not know.
func (s *supply) Tell(w verdict.Word) { s.current().Tell(w) }
