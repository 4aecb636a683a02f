package upstream

import (
	"slices"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// anyServer is a control plane that takes streams of every method and does what the
// test says. Requests of either variant are shown as those of the state of the world.
type anyServer struct {
	t       *testing.T
	unknown []string // methods that it does not serve
	wg      sync.WaitGroup

	mu      sync.Mutex
	streams map[string]chan *anyStream // by method
}

type anyStream struct {
	grpc.ServerStream

	t       *testing.T
	opened  time.Time
	reqs    chan *discoveryv3.DiscoveryRequest
	halfEnd chan struct{} // closed when the client has half-closed or gone
	end     chan error
}

func (n *network) serveAny(host string, unknown ...string) *anyServer {
	n.t.Helper()
	return n.serveAnyWith(host, nil, unknown...)
}

func (n *network) serveAnyWith(host string, opts []grpc.ServerOption, unknown ...string) *anyServer {
	n.t.Helper()
	lis := bufconn.Listen(1 << 20)
	s := &anyServer{t: n.t, unknown: unknown, streams: map[string]chan *anyStream{}}
	script := &plane.Script{
		Delta: func(g plane.DeltaStream) error { return s.take(g, true) },
		State: func(g plane.StateStream) error { return s.take(g, false) },
	}
	script.Serve(lis, append(opts, allowPings())...)
	n.mu.Lock()
	n.hosts[host] = lis
	n.mu.Unlock()
	n.t.Cleanup(func() { script.Stop(); s.wg.Wait() })
	return s
}

// opened is where streams of a method are handed over.
func (a *anyServer) opened(method string) chan *anyStream {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams[method] == nil {
		a.streams[method] = make(chan *anyStream, 100)
	}
	return a.streams[method]
}

func (a *anyServer) take(stream grpc.ServerStream, delta bool) error {
	method, _ := grpc.Method(stream.Context())
	as := &anyStream{
		ServerStream: stream, t: a.t, opened: time.Now(), end: make(chan error, 1),
		reqs: make(chan *discoveryv3.DiscoveryRequest, 1<<10), halfEnd: make(chan struct{}),
	}
	if slices.Contains(a.unknown, method) {
		a.opened(method) <- as
		return status.Error(codes.Unimplemented, "unknown service")
	}
	a.wg.Go(func() {
		defer close(as.halfEnd)
		for {
			req, err := receive(stream, delta)
			if err != nil {
				return
			}
			as.reqs <- req
		}
	})
	a.opened(method) <- as
	select {
	case err := <-as.end:
		return err
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

func receive(stream grpc.ServerStream, delta bool) (*discoveryv3.DiscoveryRequest, error) {
	req := new(discoveryv3.DiscoveryRequest)
	if !delta {
		return req, stream.RecvMsg(req)
	}
	d := new(discoveryv3.DeltaDiscoveryRequest)
	if err := stream.RecvMsg(d); err != nil {
		return nil, err
	}
	req.Node, req.TypeUrl, req.ResourceNames, req.ResponseNonce, req.ErrorDetail = d.Node, d.TypeUrl, d.ResourceNamesSubscribe, d.ResponseNonce, d.ErrorDetail
	return req, nil
}

// accept waits for the next stream of a method.
func (a *anyServer) accept(method string) *anyStream {
	a.t.Helper()
	select {
	case as := <-a.opened(method):
		return as
	case <-time.After(time.Hour):
		a.t.Fatalf("no stream of %s was opened", method)
		return nil
	}
}

func (as *anyStream) next() *discoveryv3.DiscoveryRequest {
	as.t.Helper()
	select {
	case req := <-as.reqs:
		return req
	case <-time.After(time.Hour):
		as.t.Fatal("no request came")
		return nil
	}
}

// silent fails if another request came.
func (as *anyStream) silent() {
	as.t.Helper()
	if len(as.reqs) > 0 {
		as.t.Errorf("one request too many: %v", <-as.reqs)
	}
}

// state sends a state of the world: resources named in field 1 of their payload.
func (as *anyStream) state(typeURL, version, nonce string, names ...string) {
	as.t.Helper()
	r := &discoveryv3.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: version, Nonce: nonce}
	for _, name := range names {
		r.Resources = append(r.Resources, &anypb.Any{TypeUrl: typeURL, Value: named(name)})
	}
	as.send(r)
}

func (as *anyStream) send(m any) {
	as.t.Helper()
	if err := as.SendMsg(m); err != nil {
		as.t.Fatalf("Send: %v", err)
	}
}

func named(name string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
}
