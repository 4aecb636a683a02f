package xdsclient

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestRun_errors(t *testing.T) {
	over(t, overGRPC(), func(s *script) {
		c := s.client(Options{})
		c.Subscribe(clusterType)
		end := s.end(s.of(clusterType))
		run := make(chan error)
		start := func() { go func() { run <- c.Run(s.Context()) }(); synctest.Wait() }
		start()
		if err := c.Run(s.Context()); !errors.Is(err, ErrRunning) {
			s.Errorf("second Run: %v", err)
		}
		if err := c.Follow(s.Context(), Backoff{}, nil); !errors.Is(err, ErrRunning) {
			s.Errorf("Follow beside Run: %v", err)
		}
		end <- nil
		if err := <-run; !errors.Is(err, io.EOF) {
			s.Errorf("the server ends the stream: %v", err)
		}
		start()
		end <- status.Error(codes.ResourceExhausted, "too many")
		if err := <-run; status.Code(err) != codes.ResourceExhausted {
			s.Errorf("the server ends the stream with an error: %v", err)
		}
		start()
		c.Subscribe(clusterType, "\xff") // cannot be encoded
		if err := <-run; status.Code(err) != codes.Internal {
			s.Errorf("a request that cannot be sent: %v", err)
		}
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(s.Context())
		cancel(cause)
		if err := c.Run(ctx); !errors.Is(err, cause) {
			s.Errorf("after the context: %v", err)
		}
	})
}

func TestRun_withoutAnyType(t *testing.T) {
	over(t, variants(), func(s *script) {
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if err := s.client(Options{}).Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Run: %v", err)
		}
		expect(s.T, "requests", nil, s.next())
	})
}

func TestOPS2_follow(t *testing.T) {
	over(t, overGRPC(), func(s *script) {
		c := s.client(Options{})
		c.Subscribe(clusterType)
		end := s.end(s.of(clusterType))
		enough := errors.New("enough")
		var delays []time.Duration
		done := make(chan error)
		go func() {
			done <- c.Follow(s.Context(), Backoff{Base: time.Second, Max: 5 * time.Second}, func(_ error, delay time.Duration) error {
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
				for s.streamCount() < 6 {
					<-time.After(time.Second)
				}
				synctest.Wait()
				s.send(clusterType, "1", "a@1")
			}
			end <- io.ErrUnexpectedEOF
		}
		if err := <-done; !errors.Is(err, enough) {
			s.Errorf("Follow: %v", err)
		}
		for i, bound := range bounds {
			if d := delays[i]; d <= 0 || d > time.Duration(bound)*time.Second {
				s.Errorf("delay %d is %v, want at most %d s", i, d, bound)
			}
		}
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		go func() { end <- nil }()
		if err := c.Follow(ctx, Backoff{Base: time.Hour, Max: time.Hour}, nil); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Follow: %v", err)
		}
	})
}

func TestOPS2_streamsComeBackByThemselves(t *testing.T) {
	over(t, overGRPC()[2:], func(s *script) {
		c := s.client(Options{})
		c.Subscribe(clusterType)
		c.Subscribe(endpointType, "e")
		enough := errors.New("enough")
		var reasons []string
		done := make(chan error)
		go func() {
			done <- c.Follow(s.Context(), Backoff{}, func(reason error, _ time.Duration) error {
				if reasons = append(reasons, reason.Error()); len(reasons) == 2 {
					return enough
				}
				return nil
			})
		}()
		requests := s.next()
		slices.Sort(requests)
		expect(s.T, "requests", pick(s.variant,
			[]string{"cds: Cluster", "eds: ClusterLoadAssignment +e"}, []string{"cds: Cluster []", "eds: ClusterLoadAssignment [e]"}), requests)
		s.send(clusterType, "1", "a@1")
		s.next()
		s.end("cds") <- status.Error(codes.Unavailable, "going away")
		<-time.After(time.Minute)
		expect(s.T, "RES-12 ACK-5 requests", pick(s.variant, []string{"cds: Cluster a@1"}, []string{"cds: Cluster [] v=1"}), s.next())
		s.end("cds") <- nil
		if err := <-done; !errors.Is(err, enough) {
			s.Errorf("Follow: %v", err)
		}
		expect(s.T, "reasons", []string{"cds: rpc error: code = Unavailable desc = going away", "cds: the server ended the stream: EOF"}, reasons)
	})
}

// TestRun_deadline has a deadline that the server must not learn of.
func TestRun_deadline(t *testing.T) {
	over(t, overGRPC(), func(s *script) {
		c := s.client(Options{})
		c.Subscribe(clusterType)
		cause := errors.New("late")
		ctx, cancel := context.WithTimeoutCause(s.Context(), time.Second, cause)
		defer cancel()
		if err := c.Run(ctx); !errors.Is(err, cause) {
			s.Errorf("Run: %v", err)
		}
		if deadline, ok := s.stream(s.of(clusterType)).Context().Deadline(); ok {
			s.Errorf("the server was told of %v", deadline)
		}
	})
}
