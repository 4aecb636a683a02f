package stateclient

import (
	"context"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/apiservices"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// New makes a client that uses conn, which may come from [xdsclient.Dial]. It
// does nothing before Run or Follow.
func New(conn grpc.ClientConnInterface, options xdsclient.Options) *xdsclient.Client {
	return xdsclient.New(streams{requests: requests{options.PresentVersion}, conn: conn, perType: options.PerType}, announced(options))
}

// announced adds the client features that the options ask for to their node, in both
// spellings (RES-13).
func announced(options xdsclient.Options) xdsclient.Options {
	if !options.ResourceInSotW {
		return options
	}
	node := new(corev3.Node)
	if options.Node != nil {
		node = proto.CloneOf(options.Node)
	}
	for _, feature := range wire.WrappingFeatures() {
		if !slices.Contains(node.GetClientFeatures(), feature) {
			node.ClientFeatures = append(node.ClientFeatures, feature)
		}
	}
	options.Node = node
	return options
}

// streams is the variants over gRPC.
type streams struct {
	requests

	conn    grpc.ClientConnInterface
	perType bool
}

// Serves implements xdsclient.Protocol.
func (p streams) Serves(typeURL string) error {
	switch {
	case keyer.ShortName(typeURL) == "vhds":
		return &xdsclient.UnservedError{TypeURL: typeURL, Variant: "state-of-the-world"}
	case p.perType && apiservices.Of(typeURL).State == "":
		return &xdsclient.UnservedError{TypeURL: typeURL, Variant: "state-of-the-world per-type"}
	default:
		return nil
	}
}

// Open implements xdsclient.Protocol.
func (p streams) Open(ctx context.Context, typeURL string, opened func()) (xdsclient.Stream, error) {
	method := discoveryv3.AggregatedDiscoveryService_StreamAggregatedResources_FullMethodName
	if p.perType {
		if err := p.Serves(typeURL); err != nil {
			return nil, err
		}
		method = apiservices.Of(typeURL).StateMethod()
	}
	s, err := xdsclient.OpenStream(ctx, p.conn, method)
	if err != nil {
		return nil, err
	}
	opened()
	return stream{s}, nil
}

// stream is a stream of any of the methods.
type stream struct{ grpc.ClientStream }

// Send implements xdsclient.Stream.
func (s stream) Send(req proto.Message, node *corev3.Node) error {
	if node != nil {
		req.(*discoveryv3.DiscoveryRequest).Node = node
	}
	return s.SendMsg(req)
}

// Recv implements xdsclient.Stream.
func (s stream) Recv(r *wire.Received) error {
	r.State = true
	return s.RecvMsg(r)
}
