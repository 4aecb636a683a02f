package xdsclient

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/retry"
)

// ErrRunning is returned by Run and Follow of a client that runs already.
var ErrRunning = errors.New("xdsclient: the client runs already")

// Backoff is how long Follow waits between two streams: uniformly between
// nothing and a bound that doubles from Base to Max (OPS-2).
type Backoff struct {
	Base, Max time.Duration // DefaultBackoff's where 0
}

// DefaultBackoff is for a person who watches.
func DefaultBackoff() Backoff {
	return Backoff{Base: 500 * time.Millisecond, Max: 10 * time.Second}
}

// Run opens a stream, asks for everything that is subscribed, presenting what
// is held (RES-12, ACK-5), and follows the stream until it ends or ctx does. With
// a stream for each type the end of one ends all. The error says why and is never
// nil: ctx's cause, ErrRunning, an [*UnservedError], or what gRPC says, of which
// google.golang.org/grpc/status gives the code; with a stream for each type it is
// a [*StreamError] around that. What is held stays: calling Run again is the way
// to reconnect.
func (c *Client) Run(ctx context.Context) error {
	return c.drive(ctx, func(ctx context.Context, l *link) error { return l.run(ctx) })
}

// Follow is Run again and again, for each stream by itself, until ctx ends, a
// stream is impossible ([*UnservedError]), or lost gives an error, which it
// returns. lost, which may be nil, is called with the reason for which a stream
// ended and the delay before the next one, by several goroutines if there are
// several streams. The delay begins anew after a stream that brought a response.
func (c *Client) Follow(ctx context.Context, b Backoff, lost func(reason error, delay time.Duration) error) error {
	def := DefaultBackoff()
	if b.Base <= 0 {
		b.Base = def.Base
	}
	if b.Max <= 0 {
		b.Max = def.Max
	}
	return c.drive(ctx, func(ctx context.Context, l *link) error { return l.follow(ctx, b, lost) })
}

// drive carries each out for every link, those that are added meanwhile too,
// until ctx ends or the first of them has.
func (c *Client) drive(ctx context.Context, each func(context.Context, *link) error) error {
	if !c.running.TryLock() {
		return ErrRunning
	}
	defer c.running.Unlock()
	if !c.options.PerType {
		return each(ctx, c.links[0])
	}
	all, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	c.starts(func(l *link) { running.Go(func() { cancel(each(all, l)) }) })
	<-all.Done()
	c.starts(nil)
	running.Wait()
	return context.Cause(all)
}

// starts begins all links that there are, and has those begun that will be
// added; nil ends that.
func (c *Client) starts(start func(*link)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start = start
	for _, l := range c.links {
		if start != nil {
			start(l)
		}
	}
}

// follow is run again and again.
func (l *link) follow(ctx context.Context, b Backoff, lost func(error, time.Duration) error) error {
	delays := retry.Backoff{Base: b.Base, Max: b.Max}
	for {
		before := l.responses
		err := l.run(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, never := errors.AsType[*UnservedError](err); never {
			return err
		}
		if l.responses != before {
			delays.Reset()
		}
		delay := delays.Next()
		if lost != nil {
			if err := lost(err, delay); err != nil {
				return err
			}
		}
		if !retry.Sleep(ctx, delay) {
			return context.Cause(ctx)
		}
	}
}
