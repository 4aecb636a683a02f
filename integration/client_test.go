package integration

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// xdsClient is a client of any variant that behaves as told: it holds what it is
// sent, may stop reading, may not acknowledge, and comes back with its versions.
type xdsClient interface {
	// common is what it holds, and what it noticed on the wire.
	common() *holdings
	// connect opens the streams and presents what is held and wanted; a client that
	// is not warm forgets everything first.
	connect(warm bool) error
	disconnect()
	// connected reports whether every stream is up. Its end counts as a change.
	connected() bool
	// subscribe changes what is wanted and tells the server.
	subscribe(typeURL string, sub, unsub []string)
	// pause stops reading; resume goes on.
	pause()
	resume()
	// holdACKs keeps the ACKs of a type back until releaseACKs.
	holdACKs(typeURL string)
	releaseACKs(typeURL string)
}

// newVariantClient makes a client in plain text. addr is that of the variant's
// server: REST has its own.
func newVariantClient(t testing.TB, v variant, addr, node string, options ...grpc.DialOption) xdsClient {
	t.Helper()
	switch {
	case v.rest:
		return newRESTClient(t, addr, node)
	case v.sotw:
		return newSotwClient(t, v, addr, node, options...)
	}
	c := newClient(t, addr, node, options...)
	c.variant = v
	return c
}

// dial opens a connection in plain text, unless options say otherwise.
func dial(t testing.TB, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.6, MaxDelay: 50 * time.Millisecond}, MinConnectTimeout: patience,
		}),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// grpcClient is what gRPC clients have in common: one stream for ADS, else one for
// each type.
type grpcClient struct {
	holdings
	variant

	features []string // announced by the node
	forgets  bool     // keeps neither responses nor nonces: for those who measure memory

	conn    *grpc.ClientConn
	streams map[string]*clientStream // guarded by mu; nil: not connected
	err     error                    // why a stream ended

	take     func(*clientStream) error             // reads one response
	announce func(s *clientStream, typeURL string) // sends a type's first request
}

// clientStream is one stream. The client's mu guards its maps.
type clientStream struct {
	grpc.ClientStream
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	sending sync.Mutex // one sender at a time, so that requests go out in their order

	nonces map[string]bool
	begun  map[string]bool     // types that were asked for
	named  map[string]bool     // SotW: types of which something was named (SUB-2)
	nonce  map[string]string   // SotW: of the last response that was acknowledged
	owed   map[string][]string // nonces whose ACKs are held back
	sent   bool
}

func newGRPCClient(t testing.TB, v variant, addr, node string, options ...grpc.DialOption) *grpcClient {
	t.Helper()
	c := &grpcClient{holdings: newHoldings(node), variant: v, conn: dial(t, addr, options...)}
	t.Cleanup(func() {
		c.disconnect()
		_ = c.conn.Close()
	})
	return c
}

func (c *grpcClient) connect(warm bool) error {
	c.mu.Lock()
	c.streams, c.err = make(map[string]*clientStream), nil
	c.beginLocked(warm)
	var types []string
	for _, typeURL := range slices.Sorted(maps.Keys(c.subs)) {
		if len(c.subs[typeURL]) > 0 { // an empty first request would mean "*"
			types = append(types, typeURL)
		}
	}
	c.mu.Unlock()
	if !c.perType {
		if _, err := c.openStream("", true); err != nil {
			return err
		}
	}
	for _, typeURL := range types {
		if err := c.begin(typeURL, true); err != nil {
			return err
		}
	}
	return nil
}

// begin sends a type's first request, on a stream that it opens if there is none.
// If the server is not there it waits for it, or ends the client as a stream's
// end does.
func (c *grpcClient) begin(typeURL string, wait bool) error {
	c.mu.Lock()
	s := c.streams[c.stream(typeURL)]
	c.mu.Unlock()
	if s == nil {
		var err error
		if s, err = c.openStream(typeURL, wait); err != nil {
			c.mu.Lock()
			c.err = err
			c.bump()
			c.mu.Unlock()
			return err
		}
	}
	c.announce(s, typeURL)
	return nil
}

func (c *grpcClient) openStream(typeURL string, wait bool) (*clientStream, error) {
	ctx, cancel := context.WithCancel(context.Background())
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	g, err := c.conn.NewStream(ctx, desc, c.method(typeURL), grpc.WaitForReady(wait))
	if err != nil {
		cancel()
		return nil, err
	}
	s := &clientStream{
		ClientStream: g, ctx: ctx, cancel: cancel, done: make(chan struct{}), nonces: make(map[string]bool),
		begun: make(map[string]bool), named: make(map[string]bool), nonce: make(map[string]string), owed: make(map[string][]string),
	}
	c.mu.Lock()
	c.streams[c.stream(typeURL)] = s
	c.mu.Unlock()
	go func() {
		defer close(s.done)
		c.read(s)
	}()
	return s, nil
}

func (c *grpcClient) read(s *clientStream) {
	for {
		c.open(s.ctx.Done())
		if err := c.take(s); err != nil {
			c.mu.Lock()
			if c.err == nil && c.streams != nil {
				c.err = err
			}
			if status.Code(err) == codes.Internal {
				c.faultLocked("a response that cannot be read: %v", err)
			}
			c.bump()
			c.mu.Unlock()
			return
		}
	}
}

// nodeLocked is the node, for the first request of a stream (STR-1).
func (c *grpcClient) nodeLocked(s *clientStream) *corev3.Node {
	if s.sent {
		return nil
	}
	s.sent = true
	return c.nodeProto(c.features)
}

// disconnect ends the streams and waits until nothing reads them any more.
func (c *grpcClient) disconnect() {
	c.mu.Lock()
	streams := c.streams
	c.streams = nil
	c.mu.Unlock()
	c.resume()
	for _, s := range streams {
		s.cancel()
	}
	for _, s := range streams {
		<-s.done
	}
}

func (c *grpcClient) connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams != nil && c.err == nil
}

// ended is why a stream ended.
func (c *grpcClient) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *grpcClient) holdACKs(typeURL string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent[typeURL] = true
}
