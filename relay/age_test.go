package relay

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/xdsrelay/xdsrelay/config"
	testplane "github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// bubbled is a relay in a bubble, with a control plane and sockets in memory.
type bubbled struct {
	*testing.T

	relay *Relay
	xds   *bufconn.Listener
	// A client waits for the bubble to be at rest before it polls again on a connection. net/http sets a deadline that
	// has passed, and takes it back at the first byte of the next poll. bufconn carries a deadline out in a goroutine of
	// its own, perhaps after that: the connection then ends in the middle of the poll.
	rest  *bufconn.Listener
	begun time.Time
}

// runBubbled starts a relay whose control plane has one cluster.
func runBubbled(t *testing.T, change func(*config.Config), options ...func(*Options)) *bubbled {
	t.Helper()
	p := testplane.New(testplane.Behaviour{})
	p.Apply(clustersOf(t, contents{"a": "1"}))
	return runBubbledBefore(t, p, change, func(*Relay) {}, options...)
}

// runBubbledBefore starts a relay before a control plane. The relay is given more sockets before it runs.
func runBubbledBefore(t *testing.T, p *testplane.Plane, change func(*config.Config), more func(*Relay), options ...func(*Options)) *bubbled {
	t.Helper()
	plane := bufconn.Listen(1 << 20)
	p.Beside(func(s grpc.ServiceRegistrar) { loadv3.RegisterLoadReportingServiceServer(s, reportsTaker{}) })
	p.Serve(plane, nil)

	cfg := configOf(upstreamAt("plane", "192.0.2.1:1"))
	change(cfg)
	opts := Options{Log: slog.New(slog.DiscardHandler), Dial: upstream.Dial{
		Connect: func(ctx context.Context, _, _ string) (net.Conn, error) { return plane.DialContext(ctx) },
	}}
	for _, o := range options {
		o(&opts)
	}
	r, err := New(cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	b := &bubbled{T: t, relay: r, xds: bufconn.Listen(1 << 20), rest: bufconn.Listen(1 << 20), begun: time.Now()}
	r.ServeREST(b.rest)
	more(r)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx, nil, b.xds, bufconn.Listen(1)); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		synctest.Wait()
		p.Stop()
		wg.Wait()
	})
	return b
}

func (b *bubbled) dial() *grpc.ClientConn {
	b.Helper()
	conn, err := grpc.NewClient("passthrough:///relay", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return b.xds.DialContext(ctx) }))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

// subscriber opens a stream on which everything is acknowledged. The channel gets the stream's end.
func (b *bubbled) subscriber(conn *grpc.ClientConn, node string, names ...string) chan error {
	b.Helper()
	c := xdsclient.New(xdsclient.Options{Conn: conn, Node: &corev3.Node{Id: node}})
	c.Subscribe(clusterType, names...)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(context.Background()) }()
	return ended
}

func (b *bubbled) at(age time.Duration) {
	<-time.After(time.Until(b.begun.Add(age)))
	synctest.Wait()
}

// A connection gets GOAWAY before its age, and its streams end at the age, ± 10 %, all of them, load
// reports too. The client comes back on another connection (SUR-4).
func TestConnectionAge_SUR4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := runBubbled(t, func(c *config.Config) { c.Server.MaxConnectionAge = config.Duration(10 * time.Minute) })
		synctest.Wait()
		conn := b.dial()
		defer conn.Close()
		one, two := b.subscriber(conn, "n"), b.subscriber(conn, "n")
		reports, err := loadv3.NewLoadReportingServiceClient(conn).StreamLoadStats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := reports.Send(&loadv3.LoadStatsRequest{Node: &corev3.Node{Id: "n"}}); err != nil {
			t.Fatal(err)
		}
		b.at(7 * time.Minute)
		if s := conn.GetState(); s != connectivity.Ready {
			t.Errorf("before its age the connection is %v", s)
		}
		b.at(9*time.Minute - time.Second)
		if s := conn.GetState(); s != connectivity.Idle || len(one)+len(two) != 0 {
			t.Errorf("the connection is %v, want GOAWAY before the first stream ends; %d have", s, len(one)+len(two))
		}
		fresh := b.subscriber(conn, "n") // on the next connection
		b.at(11*time.Minute + 2*time.Second)
		for name, ended := range map[string]chan error{"one": one, "two": two} {
			select {
			case err := <-ended:
				if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "reached its greatest age") {
					t.Errorf("%s ended with %v", name, err)
				}
			default:
				t.Errorf("%s goes on after the age", name)
			}
		}
		for {
			if _, err = reports.Recv(); err != nil {
				break
			}
		}
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "reached its greatest age") {
			t.Errorf("the load reports ended with %v", err)
		}
		if len(fresh) != 0 {
			t.Errorf("the stream on the next connection ended with %v", <-fresh)
		}
		_ = conn.Close()
		<-fresh
	})
}

// Clients that came at once do not leave at once.
func TestConnectionAgeSpread_SUR4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := runBubbled(t, func(c *config.Config) { c.Server.MaxConnectionAge = config.Duration(10 * time.Minute) })
		synctest.Wait()
		const clients = 100
		all := make([]chan error, clients)
		for i := range all {
			conn := b.dial()
			defer conn.Close()
			all[i] = b.subscriber(conn, "n")
		}
		left := func() (n int) {
			for _, ended := range all {
				n += 1 - len(ended)
			}
			return n
		}
		b.at(9*time.Minute - time.Second)
		if n := left(); n != clients {
			t.Errorf("%d clients are left before the time", n)
		}
		most := 0
		for before, at := clients, 9*time.Minute; at <= 11*time.Minute+2*time.Second; at += 2 * time.Second {
			b.at(at)
			now := left()
			most = max(most, before-now)
			before = now
		}
		if n := left(); n != 0 || most > clients/5 {
			t.Errorf("%d clients are left after the time, and %d ended within two seconds", n, most)
		}
	})
}

// The answer to a poll is the last on a connection that has reached its age, and connections have
// none by default if it is 0.
func TestConnectionAgePolls_SUR4(t *testing.T) {
	for _, age := range []time.Duration{0, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			b := runBubbled(t, func(c *config.Config) {
				c.Server.MaxConnectionAge = config.Duration(age)
				c.Server.RESTWait = 0
			})
			dialled := 0
			transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				dialled++
				return b.rest.DialContext(ctx)
			}}
			defer transport.CloseIdleConnections()
			for at := time.Duration(0); at < 20*time.Minute; at += time.Minute {
				b.at(at)
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://relay/v3/discovery:clusters", strings.NewReader(`{"node":{"id":"n"}}`))
				if err != nil {
					t.Fatal(err)
				}
				answer, err := transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.Copy(io.Discard, answer.Body)
				if err = errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNotModified {
					t.Errorf("%v: %s", err, answer.Status)
				}
			}
			if want := map[bool]int{true: 1, false: 2}[age == 0]; dialled != want {
				t.Errorf("with an age of %v there were %d connections, want %d", age, dialled, want)
			}
		})
	}
}

// A connection has no more streams at a time than it may; other connections have theirs.
func TestStreamsPerConnection_LIM1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := runBubbled(t, func(c *config.Config) { c.Limits.StreamsPerConnection = 1 })
		synctest.Wait()
		conn, other := b.dial(), b.dial()
		one := b.subscriber(conn, "n")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		opened := false
		second := xdsclient.New(xdsclient.Options{Conn: conn, OnOpen: func(string) { opened = true }})
		if err := second.Run(ctx); !errors.Is(err, context.DeadlineExceeded) || opened {
			t.Errorf("a second stream: opened %t, %v", opened, err)
		}
		two := b.subscriber(other, "n")
		synctest.Wait()
		if len(one)+len(two) != 0 {
			t.Error("a stream ended")
		}
		_, _ = conn.Close(), other.Close()
		<-one
		<-two
	})
}
