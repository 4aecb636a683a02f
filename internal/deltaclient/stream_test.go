package deltaclient

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestHoldAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{})
		c.HoldAcks(true)
		c.Subscribe(clusterType)
		stop := running(t, c)
		s.next()
		s.send(t, response("1", "a@1"))
		s.send(t, response("2", "b@1"))
		expect(t, "answers held back", nil, s.next())
		expect(t, "held", 2, c.Len(clusterType))
		c.HoldAcks(false)
		expect(t, "answers", []string{"Cluster ack=1", "Cluster ack=2"}, s.next())
		c.HoldAcks(true)
		s.send(t, response("3", "b@1"))
		_ = stop()
		running(t, c)
		c.HoldAcks(false) // nonces mean nothing on another stream (STR-3)
		expect(t, "requests", []string{"Cluster a@1 b@1"}, s.next())
	})
}

func TestOPS3_pause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{})
		c.Subscribe(clusterType)
		running(t, c)
		s.next()
		c.Pause()
		c.Pause()
		s.send(t, response("1", "a@1"))
		s.send(t, response("2", "b@1"))
		expect(t, "answers", nil, s.next())
		expect(t, "held", 0, c.Len(clusterType))
		c.Resume()
		c.Resume()
		expect(t, "answers", []string{"Cluster ack=1", "Cluster ack=2"}, s.next())

		c.Pause()
		s.send(t, response("3", "c@1"))
		// It ends although it is paused: see the cleanup of running.
	})
}

func TestRun_errors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{})
		c.Subscribe(clusterType)
		run := make(chan error)
		start := func() { go func() { run <- c.Run(t.Context()) }(); synctest.Wait() }
		start()
		if err := c.Run(t.Context()); !errors.Is(err, xdsclient.ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
		if err := c.Follow(t.Context(), xdsclient.Backoff{}, nil); !errors.Is(err, xdsclient.ErrRunning) {
			t.Errorf("Follow beside Run: %v", err)
		}
		s.end <- nil
		if err := <-run; !errors.Is(err, io.EOF) {
			t.Errorf("the server ends the stream: %v", err)
		}
		start()
		s.end <- status.Error(codes.ResourceExhausted, "too many")
		if err := <-run; status.Code(err) != codes.ResourceExhausted {
			t.Errorf("the server ends the stream with an error: %v", err)
		}
		start()
		c.Subscribe(clusterType, "\xff") // cannot be encoded
		if err := <-run; status.Code(err) != codes.Internal {
			t.Errorf("a request that cannot be sent: %v", err)
		}
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if err := c.Run(ctx); !errors.Is(err, cause) {
			t.Errorf("after the context: %v", err)
		}
	})
}

func TestOPS2_follow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{})
		c.Subscribe(clusterType)
		enough := errors.New("enough")
		var delays []time.Duration
		done := make(chan error)
		go func() {
			done <- c.Follow(t.Context(), xdsclient.Backoff{Base: time.Second, Max: 5 * time.Second}, func(_ error, delay time.Duration) error {
				delays = append(delays, delay)
				if len(delays) == 8 {
					return enough
				}
				return nil
			})
		}()
		bounds := []int{1, 2, 4, 5, 5, 1, 2, 4} // seconds
		for i := range bounds {
			if i == 5 {
				synctest.Wait()
				// Until the sixth stream is open: a response on it begins the delays anew.
				for s.opened() < 6 {
					<-time.After(time.Second)
				}
				synctest.Wait()
				s.send(t, response("1", "a@1"))
			}
			s.end <- errEnd
		}
		if err := <-done; !errors.Is(err, enough) {
			t.Errorf("Follow: %v", err)
		}
		for i, bound := range bounds {
			if d := delays[i]; d <= 0 || d > time.Duration(bound)*time.Second {
				t.Errorf("delay %d is %v, want at most %d s", i, d, bound)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { s.end <- nil }()
		if err := c.Follow(ctx, xdsclient.Backoff{Base: time.Hour, Max: time.Hour}, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Follow: %v", err)
		}
	})
}

// TestDeadline has a deadline that the server must not learn of.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{})
		c.Subscribe(clusterType)
		cause := errors.New("late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		if err := c.Run(ctx); !errors.Is(err, cause) {
			t.Errorf("Run: %v", err)
		}
		if deadline, ok := s.current().Context().Deadline(); ok {
			t.Errorf("the server was told of %v", deadline)
		}
	})
}
