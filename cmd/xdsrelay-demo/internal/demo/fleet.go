package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"

	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// fleet is the clients.
type fleet struct {
	// immutable after newFleet
	target        string
	perConnection int
	published     *published
	reject        func(client int, r *xdsclient.Response) error
	ctx           context.Context // of the clients, until close
	cancel        context.CancelFunc
	starting      chan struct{} // a slot for each client that may start at a time

	running sync.WaitGroup

	// owned by the goroutine that plays
	clients []*client
	conns   []*grpc.ClientConn

	// counted by the clients
	started, connected, lost      atomic.Int64
	resources, removed, bytes     atomic.Int64
	complete, joined, unrequested atomic.Int64
	propagation                   histogram // from the control plane's update to the client
	start                         histogram // of clients that join: until they have everything
}

// client is one of them.
type client struct {
	*xdsclient.Client
	number int
	wanted []string // clusters whose endpoints it follows
	open   bool     // owned by the goroutine that follows
}

// startingAtOnce bounds the clients that are on their way at a time: more would
// only wait for the processor, and measure that.
const startingAtOnce = 32

func newFleet(ctx context.Context, o Options, target string, p *published) *fleet {
	f := &fleet{
		target: target, perConnection: o.ClientsPerConnection, published: p, reject: o.reject,
		starting: make(chan struct{}, startingAtOnce),
	}
	f.ctx, f.cancel = context.WithCancel(ctx)
	return f
}

// grow starts n clients. It returns when the last is on its way, or when ctx
// ends. A client is complete when it holds as much as the truth has for it.
// Those that join late are timed.
func (f *fleet) grow(ctx context.Context, n int, t truth, late bool) error {
	for range n {
		select {
		case f.starting <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c, err := f.dial()
		if err != nil {
			<-f.starting
			return err
		}
		f.launch(c, t, late)
	}
	return nil
}

// dial makes the next client, and a connection for it where the last has enough.
func (f *fleet) dial() (*client, error) {
	number := len(f.clients)
	if number%f.perConnection == 0 {
		conn, err := xdsclient.Dial("passthrough:///"+f.target, nil)
		if err != nil {
			return nil, fmt.Errorf("client %d: %w", number, err)
		}
		f.conns = append(f.conns, conn)
	}
	c := &client{number: number, wanted: wanted(number)}
	c.Client = xdsclient.New(xdsclient.Options{
		Conn: f.conns[len(f.conns)-1],
		Node: &corev3.Node{Id: fmt.Sprintf("client-%04d", number), Cluster: "demo"},
		OnOpen: func(string) {
			c.open = true
			f.connected.Add(1)
		},
		OnResponse: func(r *xdsclient.Response) error { return f.received(c, r) },
	})
	c.Subscribe(clusterType, xdsclient.Wildcard)
	c.Subscribe(endpointType, c.wanted...)
	f.clients = append(f.clients, c)
	return c, nil
}

// launch runs a client until close, and gives its slot back once it is complete.
func (f *fleet) launch(c *client, t truth, late bool) {
	f.started.Add(1)
	since := time.Now()
	f.running.Go(func() { f.follow(c) })
	clusters, sets := len(t.clusters), len(t.of(c.wanted).endpoints)
	f.running.Go(func() {
		defer func() { <-f.starting }()
		err := c.Wait(f.ctx, func(d *xdsclient.Client) bool {
			return d.Len(clusterType) == clusters && d.Len(endpointType) == sets
		})
		if err != nil {
			return
		}
		f.complete.Add(1)
		if late {
			f.joined.Add(1)
			f.start.record(time.Since(since))
		}
	})
}

// follow keeps a client's stream open until close.
func (f *fleet) follow(c *client) {
	// Short, as the demo is; nothing in it is meant to break a client's stream.
	backoff := xdsclient.Backoff{Base: 100 * time.Millisecond, Max: time.Second}
	_ = c.Follow(f.ctx, backoff, func(error, time.Duration) error {
		if c.open {
			f.connected.Add(-1)
			f.lost.Add(1)
		}
		c.open = false
		return nil
	}) // it ends with ctx only
}

// received counts a response.
func (f *fleet) received(c *client, r *xdsclient.Response) error {
	now := time.Now()
	f.bytes.Add(int64(r.Size))
	for i := range r.Changes {
		change := &r.Changes[i]
		switch change.Kind {
		case xdsclient.Changed:
			// Without a time it was changed while nobody could have sent it.
			if at, ok := f.published.when(change.Version); ok {
				f.propagation.record(now.Sub(at))
			}
			f.resources.Add(1)
		case xdsclient.Added, xdsclient.Unchanged:
			f.resources.Add(1)
		case xdsclient.Unrequested:
			f.unrequested.Add(1)
			f.resources.Add(1)
		case xdsclient.Removed:
			f.removed.Add(1)
		case xdsclient.Absent, xdsclient.Heartbeat, xdsclient.Failed:
		}
	}
	if f.reject != nil {
		return f.reject(c.number, r)
	}
	return nil
}

// subscriptions is how many the fleet has.
func (f *fleet) subscriptions() int { return int(f.started.Load()) * (1 + picks) }

// close ends all clients and waits for them.
func (f *fleet) close() error {
	f.cancel()
	var errs []error
	for _, conn := range f.conns {
		errs = append(errs, conn.Close())
	}
	f.running.Wait()
	return errors.Join(errs...)
}
