package attack

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http2/hpack"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/fleet"
	"github.com/xdsrelay/xdsrelay/internal/testkit/frames"
)

// Attack is one way to harm a server.
type Attack struct {
	Name  string
	Title string
	REST  bool // it is against a server of polls
	Admin bool // it is against the port for operators, where there is one
	Peers bool // it is against the port for other relays, where there is one
	TLS   bool // it is against a server with mutual TLS, whose address is that of server.Process.Mutual
	// run goes on until ctx ends. size is how much of it there is to be: 1 in full. It calls ready
	// once, when what it does is under way.
	run func(ctx context.Context, to dialer, size float64, ready func())
}

// All are the attacks that there are.
func All() []Attack {
	return []Attack{
		{Name: "nodes-large", Title: "10 streams with nodes of 15 MiB", run: largeNodes},
		{Name: "unfinished", Title: "messages of 16 MiB, unfinished, on 200 streams", run: unfinished},
		{Name: "streams", Title: "100,000 streams without a request", run: idleStreams},
		{Name: "nodes-many", Title: "10,000 nodes", run: manyNodes},
		{Name: "types", Title: "invented types", run: inventedTypes},
		{Name: "names-many", Title: "requests for 1,000,000 names", run: manyNames},
		{Name: "names-long", Title: "names of 60 KiB", run: longNames},
		{Name: "loop", Title: "subscribing and unsubscribing", run: subscribing},
		{Name: "polls", Title: "1,000 polls of 20 MiB", REST: true, run: polls},
		{Name: "connections", Title: "10,000 connections that say nothing", run: connections},
		{Name: "crowd", Title: "5,000 clients with mutual TLS at once", TLS: true, run: crowd},
		{Name: "pings", Title: "pings", run: flood(func(w *frames.Wire) error { return w.Framer.WritePing(false, [8]byte{}) })},
		{Name: "settings", Title: "settings", run: flood(func(w *frames.Wire) error { return w.Framer.WriteSettings() })},
		{Name: "resets", Title: "streams that are reset at once", run: flood((*frames.Wire).Reset)},
		{Name: "empty", Title: "empty frames", run: onStream(func(w *frames.Wire, stream uint32) error { return w.Framer.WriteData(stream, false, nil) })},
		{Name: "headers", Title: "headers of 1 MiB", run: flood(largeHeaders)},
		{Name: "health", Title: "10,000 streams that watch health", run: onMethod("/grpc.health.v1.Health/Watch", 100, 100, healthCheck)},
		{Name: "loads", Title: "1,000 streams that report loads of invented clusters", run: onMethod("/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats", 20, 50, loadReport)},
		{Name: "unacknowledged", Title: "1,000 streams that read and acknowledge nothing", run: onMethod(deltaMethod, 20, 50, subscription)},
		{Name: "admin", Title: "1,000 connections to the admin port that read nothing", Admin: true, run: adminReaders},
		{Name: "peers", Title: "1,000 connections to the port for other relays, without a certificate", Peers: true, run: noPeers},
	}
}

// Run carries an attack out until ctx ends, and says "ready" when it is under way.
func Run(ctx context.Context, name, addr string, size float64, out io.Writer) error {
	for _, a := range All() {
		if a.Name == name {
			to, err := dialerOf(addr, a.TLS)
			if err != nil {
				return fmt.Errorf("attack %q: %w", name, err)
			}
			var once sync.Once
			a.run(ctx, to, size, func() { once.Do(func() { _, _ = fmt.Fprintln(out, Ready) }) })
			return nil
		}
	}
	return fmt.Errorf("there is no attack %q", name)
}

// Ready is the line that an attacker writes when its attack is under way.
const Ready = "ready"

// of is a share of a number, at least 1.
func of(size float64, n int) int { return max(1, int(size*float64(n))) }

// parallel does something n times at once until ctx ends, each again when it fails.
func parallel(ctx context.Context, n int, something func(ctx context.Context, i int) error) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { again(ctx, func(ctx context.Context) error { return something(ctx, i) }) })
	}
	all.Wait()
}

// largeNodes presents nodes that are as large as requests may be, again and again.
func largeNodes(ctx context.Context, to dialer, size float64, ready func()) {
	const entries = 700_000 // 15 MiB
	parallel(ctx, 10, func(ctx context.Context, i int) error {
		r := request{node: largeNode("n"+strconv.Itoa(i), of(size, entries)), typeURL: clusterType, subscribe: []string{"a"}}
		text := r.encode()
		return to.connected(func(ctx context.Context, w *frames.Wire) error {
			stream, err := w.Open()
			if err != nil {
				return err
			}
			for {
				if err := w.Send(ctx, stream, text); err != nil {
					return err
				}
				ready()
			}
		})(ctx)
	})
}

// unfinished sends all but the last byte of messages. Where the server ends a stream, the next one follows.
func unfinished(ctx context.Context, to dialer, size float64, ready func()) {
	const bytes = 16<<20 - 1
	whole := frames.Message(make([]byte, of(size, bytes)))
	again(ctx, to.connected(func(ctx context.Context, w *frames.Wire) error {
		for range 200 {
			stream, err := w.Open()
			if err != nil {
				return err
			}
			if err := w.Send(ctx, stream, whole[:len(whole)-1]); errors.Is(err, frames.ErrEnded) {
				ready()
			} else if err != nil {
				return err
			}
		}
		ready()
		return w.Rest(ctx)
	}))
}

// idleStreams opens streams and says nothing.
func idleStreams(ctx context.Context, to dialer, size float64, ready func()) {
	const each = 1000
	var all sync.WaitGroup
	var opened sync.WaitGroup
	n := of(size, 100)
	opened.Add(n)
	for range n {
		all.Go(func() {
			var once sync.Once
			again(ctx, to.connected(func(ctx context.Context, w *frames.Wire) error {
				for range each {
					if _, err := w.Open(); err != nil {
						return err
					}
				}
				once.Do(opened.Done)
				return w.Rest(ctx)
			}))
		})
	}
	all.Go(func() {
		done := make(chan struct{})
		go func() { opened.Wait(); close(done) }()
		select {
		case <-done:
			ready()
		case <-ctx.Done():
		}
	})
	all.Wait()
}

// manyNodes is so many clients, each with a node of its own, on a few connections.
func manyNodes(ctx context.Context, to dialer, size float64, ready func()) {
	const each = 100
	parallel(ctx, of(size, 100), func(ctx context.Context, i int) error {
		return to.connected(func(ctx context.Context, w *frames.Wire) error {
			for k := range each {
				stream, err := w.Open()
				if err != nil {
					return err
				}
				r := request{node: node(fmt.Sprintf("node-%d-%d", i, k)), typeURL: clusterType, subscribe: []string{"*"}}
				if err := w.Send(ctx, stream, r.encode()); err != nil {
					return err
				}
			}
			ready()
			return w.Rest(ctx)
		})(ctx)
	})
}

// streaming sends requests on one stream as fast as the server takes them.
func streaming(next func(n int) request) func(context.Context, dialer, float64, func()) {
	return func(ctx context.Context, to dialer, _ float64, ready func()) {
		n := 0
		again(ctx, to.connected(func(ctx context.Context, w *frames.Wire) error {
			stream, err := w.Open()
			if err != nil {
				return err
			}
			first := true
			for {
				r := next(n)
				if first {
					r.node = node("a")
				}
				first = false
				if err := w.Send(ctx, stream, r.encode()); err != nil {
					return err
				}
				n++
				ready()
			}
		}))
	}
}

func inventedTypes(ctx context.Context, to dialer, size float64, ready func()) {
	streaming(func(n int) request {
		return request{typeURL: "type.googleapis.com/invented.T" + strconv.Itoa(n), subscribe: []string{"*"}}
	})(ctx, to, size, ready)
}

func manyNames(ctx context.Context, to dialer, size float64, ready func()) {
	list := names("name-", of(size, 1_000_000))
	streaming(func(int) request { return request{typeURL: clusterType, subscribe: list} })(ctx, to, size, ready)
}

func longNames(ctx context.Context, to dialer, size float64, ready func()) {
	long := strings.Repeat("x", 60<<10)
	streaming(func(n int) request {
		return request{typeURL: clusterType, subscribe: names(long+strconv.Itoa(n)+"-", 50)}
	})(ctx, to, size, ready)
}

// subscribing asks for names that everybody has, and for others, and lets go of them.
func subscribing(ctx context.Context, to dialer, size float64, ready func()) {
	streaming(func(n int) request {
		r := request{typeURL: clusterType}
		list := append(names("cluster-0000", 100), "other-"+strconv.Itoa(n/2), "*")
		if n%2 == 0 {
			r.subscribe = list
		} else {
			r.unsubscribe = list
		}
		return r
	})(ctx, to, size, ready)
}

// polls asks for all endpoints, without end, as clients that know nothing do: nodes of one cluster,
// which the server may know.
func polls(ctx context.Context, to dialer, size float64, ready func()) {
	n := of(size, 1000)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: n, MaxIdleConnsPerHost: n, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return to(ctx) }}}
	parallel(ctx, n, func(ctx context.Context, i int) error {
		body := fmt.Sprintf(`{"node":{"id":"poller-%d","cluster":%q},"resource_names":["*"]}`, i, fleet.Cluster)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://server/v3/discovery:endpoints", strings.NewReader(body))
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		ready()
		_, err = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		return err
	})
}

// connections are those that say nothing, not even that they speak HTTP/2.
func connections(ctx context.Context, to dialer, size float64, ready func()) {
	const total = 10_000
	var open []net.Conn
	for range of(size, total) {
		if conn, err := to(ctx); err == nil { // else the server is full
			open = append(open, conn)
		}
	}
	ready()
	<-ctx.Done()
	for _, conn := range open {
		_ = conn.Close()
	}
}

// crowd is a fleet that comes at once, as after an interruption of its network: each client has a connection of
// its own, shows the fleet's certificate, and subscribes to all that the others have. It means no harm.
func crowd(ctx context.Context, to dialer, size float64, ready func()) {
	const clients = 5000
	parallel(ctx, of(size, clients), func(ctx context.Context, i int) error {
		return to.connected(func(ctx context.Context, w *frames.Wire) error {
			ready()
			stream, err := w.Open()
			if err != nil {
				return err
			}
			r := request{node: member(fmt.Sprint("member-", i)), typeURL: clusterType, subscribe: []string{"*"}}
			if err := w.Send(ctx, stream, r.encode()); err != nil {
				return err
			}
			return w.Rest(ctx)
		})(ctx)
	})
}

// flood does one thing on a connection as fast as the server takes it.
func flood(one func(*frames.Wire) error) func(context.Context, dialer, float64, func()) {
	return func(ctx context.Context, to dialer, _ float64, ready func()) {
		again(ctx, to.connected(func(_ context.Context, w *frames.Wire) error {
			for {
				if err := one(w); err != nil {
					return err
				}
				ready()
			}
		}))
	}
}

// onStream does one thing on a stream as fast as the server takes it.
func onStream(one func(*frames.Wire, uint32) error) func(context.Context, dialer, float64, func()) {
	return func(ctx context.Context, to dialer, _ float64, ready func()) {
		again(ctx, to.connected(func(_ context.Context, w *frames.Wire) error {
			stream, err := w.Open()
			for err == nil {
				err = one(w, stream)
				ready()
			}
			return err
		}))
	}
}

// deltaMethod is that of incremental clients of all types.
const deltaMethod = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

// onMethod sends messages on streams of a method: first one on each stream of each connection, then one after the other on those that
// the server has not ended. It is none for a stream that is to send no more.
func onMethod(method string, connections, streams int, message func(of, n int) []byte) func(context.Context, dialer, float64, func()) {
	return func(ctx context.Context, to dialer, size float64, ready func()) {
		parallel(ctx, of(size, connections), func(ctx context.Context, i int) error {
			return to.connected(func(ctx context.Context, w *frames.Wire) error {
				var open []uint32
				for k := range streams {
					stream, err := w.OpenOf(method)
					if err != nil {
						return err
					}
					if err := w.Send(ctx, stream, message(i*streams+k, 0)); err == nil {
						open = append(open, stream)
					} else if !errors.Is(err, frames.ErrEnded) {
						return err
					}
				}
				ready()
				for n := 1; len(open) > 0; n++ {
					next := message(i, n)
					if next == nil {
						return w.Rest(ctx)
					}
					if err := w.Send(ctx, open[n%len(open)], next); err != nil {
						return err
					}
				}
				return w.Rest(ctx)
			})(ctx)
		})
	}
}

// healthCheck asks for the health of a service that there is not.
func healthCheck(of, n int) []byte {
	if n > 0 {
		return nil
	}
	return frames.Message(field(nil, 1, fmt.Sprint(strings.Repeat("x", 900), of)))
}

// loadReport reports on a thousand clusters that there are not.
func loadReport(of, n int) []byte {
	var b []byte
	if n == 0 {
		b = field(b, 1, node(fmt.Sprint("reporter-", of)))
	}
	for k := range 1000 {
		b = field(b, 2, field(nil, 1, fmt.Sprintf("invented-%d-%d-%d", of, n, k)))
	}
	return frames.Message(b)
}

// subscription subscribes to all that others have, once.
func subscription(of, n int) []byte {
	if n > 0 {
		return nil
	}
	r := request{node: member(fmt.Sprint("silent-", of)), typeURL: clusterType, subscribe: []string{"*"}}
	return r.encode()
}

// adminReaders ask for all that clients have, and read nothing of it.
func adminReaders(ctx context.Context, to dialer, size float64, ready func()) {
	const total = 1000
	parallel(ctx, of(size, total), func(ctx context.Context, _ int) error {
		conn, err := to(ctx)
		if err != nil {
			return err
		}
		ready()
		defer func() { _ = conn.Close() }()
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer stop()
		for {
			if _, err := io.WriteString(conn, "GET /clients?names=true HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				return err
			}
		}
	})
}

// noPeers shake hands without a certificate, and come again.
func noPeers(ctx context.Context, to dialer, size float64, ready func()) {
	const total = 1000
	parallel(ctx, of(size, total), func(ctx context.Context, _ int) error {
		conn, err := to(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer stop()
		ready()
		shaking := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}) //nolint:gosec // it costs the client work, and says nothing of the server
		if err := shaking.HandshakeContext(ctx); err != nil {
			return err
		}
		_, err = shaking.Read(make([]byte, 1)) // which says that the server ended it
		return err
	})
}

// largeHeaders opens a stream with headers that nobody can compress.
func largeHeaders(w *frames.Wire) error {
	noise := make([]byte, 512<<10)
	if _, err := rand.Read(noise); err != nil {
		return err
	}
	_, err := w.Open(hpack.HeaderField{Name: "x-noise", Value: hex.EncodeToString(noise)})
	return err
}
