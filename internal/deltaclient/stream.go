package deltaclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// ErrRunning is returned by Run and Follow of a client that runs already.
var ErrRunning = errors.New("deltaclient: the client runs already")

// stream is one ADS stream.
type stream struct {
	// immutable after Run has made it
	ctx    context.Context
	cancel context.CancelCauseFunc
	grpc   grpc.ClientStream
	wake   chan struct{} // one slot: the queue has something

	// guarded by the client's mu
	queue    []*discoveryv3.DeltaDiscoveryRequest
	nodeSent bool
}

// Run opens a stream, asks for everything that is subscribed, presenting what
// is held (RES-12), and follows the stream until it ends or ctx does. The error
// says why and is never nil: ctx's cause, ErrRunning, or what gRPC says, of which
// google.golang.org/grpc/status gives the code. What is held stays: calling Run
// again is the way to reconnect.
func (c *Client) Run(ctx context.Context) error {
	if !c.begin() {
		return ErrRunning
	}
	defer c.end()
	return c.run(ctx)
}

func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running {
		return false
	}
	c.running = true
	return true
}

func (c *Client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
}

func (c *Client) run(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := &stream{wake: make(chan struct{}, 1)}
	// gRPC tells the server of a context's deadline, and a server that ends the
	// stream a moment before it has come would be the reason instead.
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	defer s.cancel(nil)
	unlink := context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })
	defer unlink()
	desc := &grpc.StreamDesc{StreamName: "DeltaAggregatedResources", ServerStreams: true, ClientStreams: true}
	var err error
	s.grpc, err = c.conn.NewStream(s.ctx, desc, discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName,
		grpc.ForceCodecV2(wire.Codec()), grpc.MaxCallRecvMsgSize(maxReceiveSize))
	if err != nil {
		return s.reason(err)
	}
	if c.options.OnOpen != nil {
		c.options.OnOpen()
	}
	c.attach(s)
	var writer sync.WaitGroup
	writer.Go(func() { c.write(s) })
	err = s.reason(c.read(s))
	s.cancel(err)
	c.detach()
	writer.Wait()
	return err
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
func (c *Client) attach(s *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = s
	for _, t := range c.order {
		c.enqueueLocked(t.first(c.nodeSizeLocked(), c.options.MaxRequestSize)...)
	}
}

func (c *Client) detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream, c.answers = nil, nil
	for _, t := range c.order {
		t.requested = false
	}
}

// nodeSizeLocked is what the node adds to the next request.
func (c *Client) nodeSizeLocked() int {
	if c.stream.nodeSent {
		return 0
	}
	return nodeOverhead + proto.Size(c.options.Node)
}

// nodeOverhead is the tag and the length of the node, at most.
const nodeOverhead = 6

// enqueueLocked has requests written after those before them. It never blocks.
func (c *Client) enqueueLocked(reqs ...*discoveryv3.DeltaDiscoveryRequest) {
	s := c.stream
	if len(reqs) == 0 {
		return
	}
	if !s.nodeSent {
		reqs[0].Node, s.nodeSent = c.options.Node, true // STR-2
	}
	s.queue = append(s.queue, reqs...)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// read takes responses up until the stream ends.
func (c *Client) read(s *stream) error {
	var r wire.Received
	for {
		if err := s.grpc.RecvMsg(&r); err != nil {
			return err
		}
		if err := c.pass(s.ctx); err != nil {
			return err
		}
		c.handle(&r)
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
func (c *Client) write(s *stream) {
	var out []*discoveryv3.DeltaDiscoveryRequest
	for {
		c.mu.Lock()
		clear(out)
		out, s.queue = s.queue, out[:0]
		c.mu.Unlock()
		for _, req := range out {
			if err := s.grpc.SendMsg(req); err != nil {
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
