//go:build linux

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/clock"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
)

// Config says what a fleet is.
type Config struct {
	Addr      string // host:port of the server, of IPv4
	Catalogue *content.Catalogue
	Loops     int  // threads; 0: one
	Streams   int  // clients on one connection; 0: one
	State     bool // the state of the world, else incremental
	Window    int  // bytes that a server may send on a stream or connection and that were not read; 0: more than it needs
}

// Fleet is many clients of one server. Its methods are called by one goroutine.
type Fleet struct {
	// immutable after New
	addr      netip.AddrPort
	catalogue *content.Catalogue
	streams   int
	state     bool
	window    int
	headers   []byte // that open a stream
	clock     clock.Clock
	loops     []*loop

	running sync.WaitGroup
	clients int
	last    *conn // of the client added last
}

// Counts are sums over all clients.
type Counts struct {
	Responses int
	Resources int
	Removed   int
	Bytes     int // received, HTTP/2's included
}

// New starts a fleet without clients. [Fleet.Close] must be called.
func New(c Config) (*Fleet, error) {
	addr, err := netip.ParseAddrPort(c.Addr)
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	method := deltaMethod
	if c.State {
		method = stateMethod
	}
	headers, err := requestHeaders(c.Addr, method)
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		addr: addr, catalogue: c.Catalogue, streams: max(1, c.Streams), state: c.State,
		window: cmp.Or(c.Window, wideWindow), headers: headers, clock: clock.New(),
	}
	for range max(1, c.Loops) {
		l, err := newLoop(f)
		if err != nil {
			f.Close()
			return nil, err
		}
		f.loops = append(f.loops, l)
		f.running.Go(l.run)
	}
	return f, nil
}

// Close ends all clients.
func (f *Fleet) Close() {
	f.each(func(l *loop) { l.stopped = true })
	f.running.Wait()
	f.loops = nil
}

// each has every loop carry something out, one after the other.
func (f *Fleet) each(task func(*loop)) {
	for _, l := range f.loops {
		l.do(func() { task(l) })
	}
}

// Add adds n clients, which connect while the method returns. subscribe says, by
// number of the client, what it asks for.
func (f *Fleet) Add(n int, subscribe func(client int) []Subscription) {
	conns := make(map[*loop][]*conn)
	for range n {
		if f.clients%f.streams == 0 {
			l := f.loops[f.clients/f.streams%len(f.loops)]
			f.last = &conn{loop: l, fd: -1}
			conns[l] = append(conns[l], f.last)
		}
		cl := &client{
			id: f.clients, conn: f.last, stream: uint32(2*len(f.last.clients) + 1),
			held: make([]uint32, f.catalogue.Len()), subscriptions: subscribe(f.clients),
		}
		for i := range cl.held {
			cl.held[i] = unwanted
		}
		f.last.clients = append(f.last.clients, cl)
		f.clients++
	}
	f.last = nil
	f.clients += (f.streams - f.clients%f.streams) % f.streams // the next one begins a connection
	f.each(func(l *loop) {
		for _, c := range conns[l] {
			for _, cl := range c.clients {
				for i := range cl.subscriptions {
					cl.want(&cl.subscriptions[i])
				}
			}
			l.clients = append(l.clients, c.clients...)
		}
		l.dialling = append(l.dialling, conns[l]...)
	})
}

// Leave ends the connections of the clients from number first on, and forgets them. They hold what they should, and
// first begins a connection.
func (f *Fleet) Leave(first int) {
	f.each(func(l *loop) {
		gone := func(cl *client) bool { return cl.id >= first }
		for _, cl := range l.clients {
			if gone(cl) {
				l.close(cl.conn)
			}
		}
		l.clients = slices.DeleteFunc(l.clients, gone)
	})
	f.clients = first
}

// Subscribe has every client ask for more.
func (f *Fleet) Subscribe(more func(client int) Subscription) error {
	f.each(func(l *loop) {
		for _, cl := range l.clients {
			s := more(cl.id)
			cl.want(&s)
			cl.subscriptions = append(cl.subscriptions, s)
			cl.subscribe(&s, false)
			if err := cl.conn.flush(); err != nil {
				l.fail(fmt.Errorf("client %d: %w", cl.id, err))
			}
		}
	})
	return f.err()
}

// Target says that the server will have these resources in a revision, before it does:
// who has that one already is taken to have got it now.
func (f *Fleet) Target(numbers []int, revision int) {
	due := uint32(revision) + 1
	f.each(func(l *loop) {
		l.now = l.fleet.clock.Now()
		for _, number := range numbers {
			if old := l.target[number]; old != due {
				l.target[number] = due
				for _, cl := range l.clients {
					cl.aim(number, old, due)
				}
			}
		}
	})
}

// Await waits until every client that reads holds what it should.
func (f *Fleet) Await(ctx context.Context) error {
	for _, l := range f.loops {
		waiter := make(chan error, 1)
		l.do(func() {
			l.waiter = waiter
			l.tell()
		})
		select {
		case err := <-waiter:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			waiting := 0
			l.do(func() { waiting, l.waiter = l.waiting, nil })
			return fmt.Errorf("%d clients of the loop do not hold what they should: %w", waiting, ctx.Err())
		}
	}
	return nil
}

// Latencies gives how long after a time each client came to hold all that it should,
// of those that did not already at the last Target.
func (f *Fleet) Latencies(since int64) *report.Histogram {
	var all report.Histogram
	f.each(func(l *loop) {
		for _, cl := range l.clients {
			if cl.doneAt != 0 {
				all.Add(time.Duration(cl.doneAt-since), 1)
				cl.doneAt = 0
			}
		}
	})
	return &all
}

// Counts gives what was received until now.
func (f *Fleet) Counts() Counts {
	var sum Counts
	f.each(func(l *loop) {
		sum.Responses += l.counts.Responses
		sum.Resources += l.counts.Resources
		sum.Removed += l.counts.Removed
		sum.Bytes += l.counts.Bytes
	})
	return sum
}

// Check returns an error unless every client holds exactly what it should: names,
// versions and payloads, which were compared when they came.
func (f *Fleet) Check() error {
	var errs []error
	f.each(func(l *loop) {
		errs = append(errs, l.err)
		for _, cl := range l.clients {
			if err := cl.check(); err != nil {
				errs = append(errs, err)
				return
			}
		}
	})
	return errors.Join(errs...)
}

func (f *Fleet) err() error {
	var errs []error
	f.each(func(l *loop) { errs = append(errs, l.err) })
	return errors.Join(errs...)
}

// Pause has the connections of the clients from number first on not read until Resume.
func (f *Fleet) Pause(first int) error {
	f.each(func(l *loop) {
		for _, c := range l.conns {
			if c.clients[0].id >= first {
				l.pause(c, true)
			}
		}
	})
	return f.err()
}

// Resume has all connections read.
func (f *Fleet) Resume() error {
	f.each(func(l *loop) {
		for _, c := range l.conns {
			if c.paused {
				l.pause(c, false)
			}
		}
	})
	return f.err()
}

// pause takes a connection's clients out of those that are waited for, or puts them
// back.
func (l *loop) pause(c *conn, paused bool) {
	if err := c.pause(paused); err != nil {
		l.fail(fmt.Errorf("client %d: %w", c.clients[0].id, err))
	}
	for _, cl := range c.clients {
		switch {
		case !cl.behind:
		case paused:
			l.waiting--
		default:
			l.waiting++
		}
	}
}
