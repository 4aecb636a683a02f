package xdsclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// link is one stream after the other: of all types, or of one.
type link struct {
	// immutable after newLink
	client  *Client
	typeURL string // "": of all types

	// owned by the goroutine that reads
	response  Response // its memory is used again
	responses uint64   // taken up so far

	// guarded by the client's mu
	stream  *stream  // nil while none is open
	answers []answer // held back, of the present stream
}

// stream is one open stream.
type stream struct {
	// immutable after run has made it
	ctx    context.Context
	cancel context.CancelCauseFunc
	wire   wireStream
	wake   chan struct{} // one slot: the queue has something

	// guarded by the client's mu
	queue    []outgoing
	nodeSent bool
}

// outgoing is a request on its way, with the node if it is the first (STR-2).
type outgoing struct {
	req  proto.Message
	node *corev3.Node
}

// StreamError says of which type the stream was that ended, where each type has
// a stream of its own.
type StreamError struct {
	TypeURL string
	Err     error
}

func (e *StreamError) Error() string { return keyer.ShortName(e.TypeURL) + ": " + e.Err.Error() }

// Unwrap gives the reason.
func (e *StreamError) Unwrap() error { return e.Err }

// run opens a stream and serves it until it ends.
func (l *link) run(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := &stream{wake: notify.New()}
	// gRPC tells the server of a context's deadline, and a server that ends the
	// stream a moment before it has come would be the reason instead.
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	defer s.cancel(nil)
	unlink := context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })
	defer unlink()
	err := l.serve(s)
	if l.typeURL != "" && ctx.Err() == nil {
		err = &StreamError{TypeURL: l.typeURL, Err: err}
	}
	return err
}

// serve carries a stream out.
func (l *link) serve(s *stream) (err error) {
	c := l.client
	if s.wire, err = c.open(s.ctx, l.typeURL, l.opened); err != nil {
		return s.reason(err)
	}
	l.attach(s)
	var writer sync.WaitGroup
	writer.Go(func() { l.write(s) })
	err = s.reason(l.read(s))
	s.cancel(err)
	l.detach()
	writer.Wait()
	return err
}

// opened tells that there is a stream.
func (l *link) opened() {
	if f := l.client.options.OnOpen; f != nil {
		f(l.typeURL)
	}
}

// reason is why the stream ended: our own reason or the caller's before gRPC's,
// which would only be that the call was cancelled.
func (s *stream) reason(err error) error {
	if cause := context.Cause(s.ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the server ended the stream: %w", err)
	}
	return err
}

// attach makes s the stream that requests go to and begins with what is wanted.
func (l *link) attach(s *stream) {
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	l.stream = s
	for _, t := range c.order {
		if t.link == l {
			l.beginLocked(t)
		}
	}
}

// beginLocked asks for a type on a stream that has not asked for it yet. There
// is nothing to ask where nothing is wanted: an empty request would mean
// everything (SUB-2, SUB-3).
func (l *link) beginLocked(t *typeState) {
	if !t.wanted() {
		return
	}
	c := l.client
	t.requested = true
	l.enqueueLocked(c.messages.first(t, l.nodeSizeLocked(), c.maxRequest)...)
}

func (l *link) detach() {
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	l.stream, l.answers = nil, nil
	for _, t := range c.order {
		if t.link == l {
			t.requested, t.named, t.nonce = false, false, "" // STR-3
			t.excused = nil
		}
	}
}

// nodeSizeLocked is what the node adds to the next request.
func (l *link) nodeSizeLocked() int {
	if l.stream.nodeSent {
		return 0
	}
	return nodeOverhead + proto.Size(l.client.options.Node)
}

// nodeOverhead is the tag and the length of the node, at most.
const nodeOverhead = 6

// enqueueLocked has requests written after those before them. It never blocks.
func (l *link) enqueueLocked(reqs ...proto.Message) {
	s := l.stream
	for _, req := range reqs {
		out := outgoing{req: req}
		if !s.nodeSent {
			out.node, s.nodeSent = l.client.options.Node, true // STR-2
		}
		s.queue = append(s.queue, out)
	}
	notify.Signal(s.wake)
}

// read takes responses up until the stream ends.
func (l *link) read(s *stream) error {
	var r wire.Received
	for {
		if err := s.wire.Recv(&r); err != nil {
			return err
		}
		if err := l.client.pass(s.ctx); err != nil {
			return err
		}
		l.handle(&r)
	}
}

// pass waits while the client is paused.
func (c *Client) pass(ctx context.Context) error {
	for {
		c.mu.Lock()
		paused := c.paused
		c.mu.Unlock()
		if paused == nil {
			return nil
		}
		select {
		case <-paused:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write sends what is queued until the stream ends.
func (l *link) write(s *stream) {
	var out []outgoing
	for {
		l.client.mu.Lock()
		clear(out)
		out, s.queue = s.queue, out[:0]
		l.client.mu.Unlock()
		for _, o := range out {
			if err := s.wire.Send(o.req, o.node); err != nil {
				// EOF only says that the stream is over, and reading tells why. Anything
				// else is known here alone.
				if !errors.Is(err, io.EOF) {
					s.cancel(err)
				}
				return
			}
		}
		if len(out) > 0 {
			continue
		}
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return
		}
	}
}
