package integration

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xdsrelay/xdsrelay/config"
)

var (
	rolloutClients = flag.Int("rollout.clients", 300, "clients of TestRollout")
	rolloutAge     = flag.Duration("rollout.age", 3*time.Second, "server.max_connection_age of its relays")
)

// balancer is an address for several relays: each connection goes to one of those that it has at the time,
// at random, and stays there.
type balancer struct {
	addr string

	mu       sync.Mutex
	backends []string
	open     map[net.Conn]string // by client
	closed   bool
	running  sync.WaitGroup
}

func startBalancer(t *testing.T, backends ...string) *balancer {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{addr: lis.Addr().String(), backends: backends, open: make(map[net.Conn]string)}
	b.running.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return // it was closed
			}
			b.running.Go(func() { b.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = lis.Close()
		b.mu.Lock()
		b.closed = true
		for conn := range b.open {
			_ = conn.Close()
		}
		b.mu.Unlock()
		b.running.Wait()
	})
	return b
}

// carry is one connection.
func (b *balancer) carry(client net.Conn) {
	defer client.Close()
	b.mu.Lock()
	to := b.backends[rand.IntN(len(b.backends))]
	if !b.closed {
		b.open[client] = to
	}
	closed := b.closed
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.open, client)
	}()
	server, err := net.Dial("tcp", to)
	if err != nil || closed {
		return
	}
	defer server.Close()
	b.running.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	_, _ = io.Copy(client, server)
}

// goTo replaces the relays.
func (b *balancer) goTo(backends ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = backends
}

// shares counts the connections of each relay.
func (b *balancer) shares() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := make(map[string]int)
	for _, to := range b.open {
		n[to]++
	}
	return n
}

// all lists the connections.
func (b *balancer) all() (conns []net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn := range b.open {
		conns = append(conns, conn)
	}
	return conns
}

// left reports whether connections are closed.
func (b *balancer) left(conns []net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !slices.ContainsFunc(conns, func(c net.Conn) bool { _, open := b.open[c]; return open })
}

// After a rolling restart the relay that came last has no clients. Once their connections have reached their
// age, each relay has its share, and no client has lost anything.
func TestRollout_SUR4(t *testing.T) {
	p := startPlainPlane(t)
	start := func() *testRelay {
		return startRelay(t, func(c *config.Config) {
			c.Server.MaxConnectionAge, c.Server.Drain = config.Duration(*rolloutAge), config.Duration(200*time.Millisecond)
		}, p)
	}
	first, second := start(), start()
	b := startBalancer(t, first.addr, second.addr)
	fleet := newJoiners(t)
	for i := range *rolloutClients {
		conn, err := grpc.NewClient("passthrough:///"+b.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		fleet.join(conn, fmt.Sprint("client-", i), clusterType)
	}
	fleet.all(*rolloutClients, time.Minute)

	// One after the other ends, and another one takes its place.
	b.goTo(second.addr)
	first.stop()
	third := start()
	b.goTo(second.addr, third.addr)
	b.goTo(third.addr)
	second.stop()
	waitFor(t, "all clients on the relay that is left", func() bool { return b.shares()[third.addr] == *rolloutClients })
	fourth := start()
	b.goTo(third.addr, fourth.addr)
	before := b.all()
	t.Logf("after the rollout: %v", b.shares())
	waitLonger(t, *rolloutAge, "the end of all connections of the rollout", func() bool { return b.left(before) })
	var shares map[string]int
	waitFor(t, "all clients", func() bool {
		shares = b.shares()
		return shares[third.addr]+shares[fourth.addr] >= *rolloutClients
	})
	t.Logf("after one age: %v", shares)
	margin := 15
	if *rolloutClients >= 1000 {
		margin = 10 // of a hundred; with fewer clients chance alone may take more
	}
	for _, r := range []*testRelay{third, fourth} {
		if n := shares[r.addr] * 100 / *rolloutClients; n < 50-margin || n > 50+margin {
			t.Errorf("SUR-4: a relay has %d %% of the clients", n)
		}
	}
	if n := fleet.hinted.Load(); n > 0 {
		t.Errorf("SUR-4: %d streams were refused", n)
	}
}
