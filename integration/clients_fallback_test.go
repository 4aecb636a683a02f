package integration

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// fallbackWithin is how long a gRPC client may take until its second server serves
// it, when the first one cannot (ABS-2): less than the 15 s after which it takes a resource
// that nobody answers for absent. It takes up to 7, and more on a busy machine.
const fallbackWithin = 12 * time.Second

// fallbackCase is a client with two servers in its bootstrap.
type fallbackCase struct {
	kind clientKind
	// relayed: the first server is a relay that has just started and whose control
	// plane is dead. Otherwise nobody listens at its address.
	relayed bool
}

func (c fallbackCase) name() string {
	if c.relayed {
		return c.kind.name + "/ABS-2 first a cold relay of a dead control plane"
	}
	return c.kind.name + "/first nobody"
}

// TestGRPCFallback has gRPC clients whose first server cannot serve them: the second
// one does. The relay as the first server must not hide that its control plane is
// dead.
func TestGRPCFallback(t *testing.T) {
	t.Parallel() // most of it is waiting
	r := newReport(t)
	for _, kind := range clientKinds() {
		if !kind.fallsBack {
			continue
		}
		for _, relayed := range []bool{false, true} {
			c := fallbackCase{kind, relayed}
			t.Run(c.name(), func(t *testing.T) {
				t.Parallel()
				r.require(t, kind.name, kind.missing)
				fallBack(t, r, c)
			})
		}
	}
}

// fallBack makes RPCs until one of them succeeds.
func fallBack(t testing.TB, r *report, c fallbackCase) {
	t.Helper()
	w := newWorld(t, c.kind, xdsServers()[0], naming{})
	n := w.names
	w.set(t, n.endpoints("endpoints", w.backends["a"]), n.cluster("cluster", "endpoints"),
		n.route("route", "cluster"), n.listener("service", "route"))
	first, came := noServer, new(arrival)
	if c.relayed {
		came.Listener = ports.Listen(t)
		first = startRelayAt(t, came, ports.Listen(t), nil, noServer).addr
	}
	client := c.kind.start(t, n.bootstrap(t, "client", first, w.server), fallbackWithin)
	r.ran(t, func() string { return c.kind.name + " " + client.version() }, "fallback", c.name())
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		o := client.call(n.target("service"))
		took := time.Since(begun)
		if at := came.at.Load(); at != nil {
			took = time.Since(*at) // a Java client takes a second or two until it comes
		}
		switch {
		case o.Code == codes.OK && took <= fallbackWithin:
			t.Logf("served after %v", took.Round(10*time.Millisecond))
			return
		case took > fallbackWithin:
			t.Fatalf("ABS-2: not served after %v, the last RPC ended with %v: %s", took, o.Code, o.Message)
		}
	}
}

// arrival is a listener that knows when the first connection came.
type arrival struct {
	net.Listener

	once sync.Once
	at   atomic.Pointer[time.Time]
}

func (a *arrival) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.once.Do(func() {
			now := time.Now()
			a.at.Store(&now)
		})
	}
	return conn, err
}
