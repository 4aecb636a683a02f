package relay

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// fakeFeed runs until it is told to end, or ended by itself.
type fakeFeed struct {
	runs   int
	ends   chan struct{} // closed: it ends by itself
	status upstream.Status
	reject string
}

func (f *fakeFeed) Run(ctx context.Context) error {
	f.runs++
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.ends:
		return upstream.ErrClosed
	}
}

func (f *fakeFeed) Status() upstream.Status { return f.status }
func (f *fakeFeed) Tell(w ack.Outcome)      { f.reject = w.Reason }

func TestSupply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outage := time.Now()
		away := func(since time.Time) upstream.Status {
			return upstream.Status{State: upstream.StateConnecting, Since: since}
		}
		first := &fakeFeed{status: away(outage)}
		s := newSupply(first, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
		})
		synctest.Wait()
		pass(time.Hour)

		// What has just begun has not found out yet what is wanted; OPS-1 it is as old as before.
		skipped := new(fakeFeed)
		second := &fakeFeed{ends: make(chan struct{}), status: upstream.Status{State: upstream.StateIdle, Since: time.Now()}}
		s.replace(skipped)
		s.replace(second)
		synctest.Wait()
		if first.runs != 1 || skipped.runs != 0 || second.runs != 1 {
			t.Errorf("the feeds ran %d, %d and %d times", first.runs, skipped.runs, second.runs)
		}
		if st := s.Status(); st.State != upstream.StateIdle { // skipped was idle: nothing was wanted of it
			t.Errorf("the state is %s", st.State)
		}
		third := &fakeFeed{ends: make(chan struct{}), status: upstream.Status{State: upstream.StateIdle, Since: time.Now()}}
		second.status = away(outage)
		s.replace(third)
		for _, tt := range []struct {
			name   string
			status upstream.Status
			state  upstream.State
			since  time.Time
		}{
			{"it begins", third.status, upstream.StateConnecting, outage},
			{"it cannot connect either", away(time.Now()), upstream.StateConnecting, outage},
			{"nothing is wanted", upstream.Status{State: upstream.StateIdle, Since: time.Now().Add(-startTime)}, upstream.StateIdle, time.Now().Add(-startTime)},
			{"its stream is not answered", upstream.Status{State: upstream.StateConnecting, Since: time.Now(), Opened: 1}, upstream.StateConnecting, outage},
			{"it was connected since", upstream.Status{State: upstream.StateConnecting, Since: time.Now(), Freshness: upstream.Freshness{Connected: true}}, upstream.StateConnecting, time.Now()},
		} {
			third.status = tt.status
			if st := s.Status(); st.State != tt.state || !st.Since.Equal(tt.since) {
				t.Errorf("%s: %s since %v, want %s since %v", tt.name, st.State, st.Since, tt.state, tt.since)
			}
		}
		s.Tell(ack.Outcome{Reason: "because"})
		if third.reject != "because" || second.reject != "" {
			t.Error("ACK-7: a rejection did not come to the feed that runs")
		}

		close(third.ends) // its control plane was closed
		synctest.Wait()
		fourth := new(fakeFeed)
		s.replace(fourth)
		synctest.Wait()
		if third.runs != 1 || fourth.runs != 1 {
			t.Errorf("the feeds ran %d and %d times", third.runs, fourth.runs)
		}
		stop()
		wg.Wait()
	})
}

// However often it is replaced what cannot be reached, what is cached is as old as it
// was, and alternatives have waited that long.
func TestSupply_inARow_OPS1_LOC5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := func() *fakeFeed {
			return &fakeFeed{status: upstream.Status{State: upstream.StateIdle, Since: time.Now()}}
		}
		now := feed()
		s := newSupply(now, slog.New(slog.DiscardHandler))
		lost := time.Now()
		now.status.State = upstream.StateConnecting
		for range 3 {
			pass(time.Minute)
			s.replace(feed()) // of which nothing comes before the next one
			now = feed()
			s.replace(now)
			for _, state := range []upstream.State{upstream.StateIdle, upstream.StateConnecting} {
				now.status.State = state
				if st := s.Status(); st.State != upstream.StateConnecting || !st.Since.Equal(lost) {
					t.Errorf("the feed is %s: %s since %v, want since %v", state, st.State, st.Since, lost)
				}
			}
		}
		now.status.State, now.status.Opened = upstream.StateConnected, 1
		s.replace(feed())
		if st := s.Status(); st.State != upstream.StateIdle {
			t.Errorf("in the place of one that was connected: %s", st.State)
		}
	})
}
