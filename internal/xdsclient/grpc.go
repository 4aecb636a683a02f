package xdsclient

import (
	"context"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// window is the flow-control window of a connection and of a stream. A fixed one
// saves the bandwidth estimation's pings.
const window = 1 << 20

// maxReceiveSize is what a client takes in one response. It is far above what a
// server that splits its responses sends (RES-9), for those that do not.
const maxReceiveSize = 64 << 20

// Dial makes a connection for clients to target, in gRPC's syntax; nothing is
// dialled before it is used. creds may be nil, for plain text. opts are applied
// last. The caller closes the connection when its clients have ended.
func Dial(target string, creds credentials.TransportCredentials, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	// Follow backs off by itself: gRPC's own delay, at most two minutes unless it is
	// told otherwise, must not be the longer one.
	reconnect := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
	return grpc.NewClient(target, append([]grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(window),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 10 * time.Second}),
	}, opts...)...)
}

// grpcStream is a stream of any of the gRPC methods.
type grpcStream struct {
	grpc.ClientStream

	sotw bool
}

// openGRPC opens a stream of a method, given by its full name.
func openGRPC(ctx context.Context, conn grpc.ClientConnInterface, method string, sotw bool) (wireStream, error) {
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	s, err := conn.NewStream(ctx, desc, method, grpc.ForceCodecV2(wire.Codec()), grpc.MaxCallRecvMsgSize(maxReceiveSize))
	if err != nil {
		return nil, err
	}
	return grpcStream{s, sotw}, nil
}

// Send implements wireStream.
func (s grpcStream) Send(req proto.Message, node *corev3.Node) error {
	if node != nil {
		switch req := req.(type) {
		case *discoveryv3.DeltaDiscoveryRequest:
			req.Node = node
		case *discoveryv3.DiscoveryRequest:
			req.Node = node
		}
	}
	return s.SendMsg(req)
}

// Recv implements wireStream.
func (s grpcStream) Recv(r *wire.Received) error {
	r.State = s.sotw
	return s.RecvMsg(r)
}
