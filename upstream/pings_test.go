package upstream

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// quiet is a silent control plane's life for an hour: two scopes from its beginning, and
// one on a connection of its own that comes later.
func quiet(t *testing.T, opts ...grpc.ServerOption) (first, second, third Status) {
	t.Helper()
	n := newNetwork(t)
	srv := n.serve("a", func(s *server) { s.opts = opts })
	u := newUpstream(t, n.config("a"))
	accepted := func() {
		ss := srv.accept()
		ss.next()
		ss.respond(clusters, "1", "c")
	}
	one := run(t, u, newStore(sub(clusters, "*")), nil)
	accepted()
	two := run(t, u, newStore(sub(clusters, "*")), nil)
	accepted()
	<-time.After(10 * time.Minute)
	three := run(t, u, newStore(sub(clusters, "*")), nil)
	<-time.After(50 * time.Minute)
	synctest.Wait()
	return one.Status(), two.Status(), three.Status()
}

// A server that comes with grpc-go's defaults allows one ping in five minutes, and ends
// the first connection for more. It never has a reason to end another one.
func TestUPS1_DefaultEnforcement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, third := quiet(t, grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{}))
		for name, st := range map[string]Status{"the first": first, "the second": second} {
			if st.Lost != 1 || st.Opened != 2 || st.State != StateConnected {
				t.Errorf("%s scope: %d streams opened, %d lost, %s; want one lost", name, st.Opened, st.Lost, st.State)
			}
			if st.LastError == nil || st.LastError.Reason != ReasonUnavailable || !tooManyPings(st.LastError.Err) {
				t.Errorf("%s scope lost its stream for %v", name, st.LastError)
			}
		}
		if third.Lost != 0 || third.Opened != 1 || third.State != StateConnected {
			t.Errorf("a later scope: %d streams opened, %d lost, %s; want none lost", third.Opened, third.Lost, third.State)
		}
	})
}

// A server that allows the pings is pinged every ten seconds for good; one that allows
// hardly any is not pinged at all in the end.
func TestUPS1_OtherEnforcement(t *testing.T) {
	for name, tt := range map[string]struct {
		least time.Duration
		lost  uint64
	}{
		"pings allowed": {5 * time.Second, 0},
		"hardly any":    {6 * time.Minute, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, _, _ := quiet(t, grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: tt.least}))
				if st.Lost != tt.lost {
					t.Errorf("%d streams lost, want %d", st.Lost, tt.lost)
				}
			})
		})
	}
}

// freezing is a connection whose other side vanishes without a word.
type freezing struct {
	net.Conn

	frozen chan struct{} // closed when it has vanished
	gone   chan struct{} // closed with the connection
	once   *sync.Once
}

func (f freezing) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	select {
	case <-f.frozen:
		<-f.gone
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (f freezing) Write(p []byte) (int, error) {
	select {
	case <-f.frozen:
		return len(p), nil
	default:
		return f.Conn.Write(p)
	}
}

func (f freezing) Close() error {
	f.once.Do(func() { close(f.gone) })
	return f.Conn.Close()
}

// A server that vanishes without a word is noticed within twenty seconds.
func TestUPS1_DeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		frozen := make(chan struct{})
		n.wrap = func(c net.Conn) net.Conn {
			return freezing{c, frozen, make(chan struct{}), new(sync.Once)}
		}
		s := run(t, newUpstream(t, n.config("a")), newStore(sub(clusters, "*")), nil)
		ss := srv.accept()
		ss.next()
		ss.respond(clusters, "1", "c")
		<-time.After(13 * time.Second) // between two pings
		close(frozen)
		<-time.After(20 * time.Second)
		synctest.Wait()
		if st := s.Status(); st.Lost != 1 || st.State != StateConnecting {
			t.Errorf("after 20 s: %d streams lost, %s", st.Lost, st.State)
		}
	})
}

func TestUPS1_tooManyPings(t *testing.T) {
	const goAway = `closing transport due to: connection error: desc = "error reading from server: EOF", received prior goaway: code: %s, debug data: %q`
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"too many pings":    {status.Errorf(codes.Unavailable, goAway, "ENHANCE_YOUR_CALM", "too_many_pings"), true},
		"too much else":     {status.Errorf(codes.Unavailable, goAway, "ENHANCE_YOUR_CALM", "excessive_load"), false},
		"another GOAWAY":    {status.Errorf(codes.Unavailable, goAway, "NO_ERROR", "max_age"), false},
		"within another":    {fmt.Errorf("x: %w", status.Errorf(codes.Unavailable, goAway, "ENHANCE_YOUR_CALM", "too_many_pings")), true},
		"no status":         {errors.New(strings.Repeat("x", 3)), false},
		"nothing":           {nil, false},
		"our own reason":    {errConnectTimeout, false},
		"a server's status": {status.Error(codes.Unavailable, "restarting"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tooManyPings(tt.err); got != tt.want {
				t.Errorf("tooManyPings = %v", got)
			}
		})
	}
}
