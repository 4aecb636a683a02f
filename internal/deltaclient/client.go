package deltaclient

import (
	"context"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/apiservices"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// New makes a client that uses conn. It does nothing before Run or Follow.
func New(conn grpc.ClientConnInterface, options xdsclient.Options) *xdsclient.Client {
	return xdsclient.New(protocol{conn: conn, perType: options.PerType}, options)
}

// protocol is the incremental variants; request.go has what is in their requests.
type protocol struct {
	conn    grpc.ClientConnInterface
	perType bool
}

// Serves implements xdsclient.Protocol.
func (p protocol) Serves(typeURL string) error {
	if p.perType && apiservices.Of(typeURL).Delta == "" {
		return &xdsclient.UnservedError{TypeURL: typeURL, Variant: "incremental per-type"}
	}
	return nil
}

// Open implements xdsclient.Protocol.
func (p protocol) Open(ctx context.Context, typeURL string, opened func()) (xdsclient.Stream, error) {
	method := discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName
	if p.perType {
		if err := p.Serves(typeURL); err != nil {
			return nil, err
		}
		method = apiservices.Of(typeURL).DeltaMethod()
	}
	s, err := xdsclient.OpenStream(ctx, p.conn, method)
	if err != nil {
		return nil, err
	}
	opened()
	return stream{s}, nil
}

// FullState implements xdsclient.Protocol: absence says nothing here.
func (protocol) FullState(string) bool { return false }

// Version implements xdsclient.Protocol.
func (protocol) Version(r *wire.Resource) string { return r.Version }

// stream is a stream of any of the incremental methods.
type stream struct{ grpc.ClientStream }

// Send implements xdsclient.Stream.
func (s stream) Send(req proto.Message, node *corev3.Node) error {
	if node != nil {
		req.(*discoveryv3.DeltaDiscoveryRequest).Node = node
	}
	return s.SendMsg(req)
}

// Recv implements xdsclient.Stream.
func (s stream) Recv(r *wire.Received) error { return s.RecvMsg(r) }
