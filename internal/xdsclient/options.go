package xdsclient

import (
	"context"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Options say how a client behaves. The zero value is a client without a node
// that keeps versions and accepts every response.
type Options struct {
	// Node goes out with the first request of every stream (STR-2). It is shared
	// with the caller, who must not change it.
	Node *corev3.Node
	// Keep is what is kept of a resource beside its version.
	Keep Keep
	// MaxRequestSize bounds a request in bytes (RES-14, RES-17); 0 is
	// DefaultMaxRequestSize. State-of-the-world requests have all names in one
	// message and are not bounded.
	MaxRequestSize int
	// PerType gives each type a stream of its own, of the type's own service
	// (VAR-1, VAR-2). Without it there is one stream for all types, ADS. Over REST
	// it is always so.
	PerType bool
	// ResourceInSotW says, with the state-of-the-world variants, that resources may
	// be wrapped in envoy.service.discovery.v3.Resource (RES-13). It is announced in
	// a copy of the Node. What comes wrapped is understood with and without it.
	ResourceInSotW bool
	// PresentVersion has a state-of-the-world stream begin with the version that was
	// accepted last even if something that is wanted was not answered, as Envoys do. A server
	// that goes by versions alone leaves such a client without what it lacks.
	PresentVersion bool
	// PollInterval is, over REST, the least time from one poll to the next for the
	// same; DefaultPollInterval if 0.
	PollInterval time.Duration
	// OnOpen is called when a stream is open and nothing was received yet.
	OnOpen func()
	// OnStream is OnOpen with the type that the stream is for, "" with one stream
	// for all types.
	OnStream func(typeURL string)
	// OnResponse is called with every response before it is applied and answered.
	// An error rejects it: the response changes nothing and the server gets the
	// error's text (a NACK). The Response is valid during the call only.
	//
	// All are called by the goroutine that reads a stream, so that nothing is
	// received on it meanwhile, and may call the client's methods. With several
	// streams they are called by several goroutines, at the same time.
	OnResponse func(*Response) error
}

// DefaultPollInterval is for a person who watches.
const DefaultPollInterval = time.Second

// DefaultMaxRequestSize is what servers accept by default, with room to spare.
const DefaultMaxRequestSize = 4<<20 - 64<<10

// Keep is what a client keeps of a resource beside its name and version.
type Keep int

// What can be kept; each includes the ones before it.
const (
	KeepVersions Keep = iota
	KeepDigests       // of the payloads: see wire.Resource.Digest
	KeepResources
)

// window is the flow-control window of a connection and of a stream. A fixed one
// saves the bandwidth estimation's pings.
const window = 1 << 20

// MaxReceiveSize is what a client takes in one response. It is far above what a
// server that splits its responses sends (RES-9), for those that do not.
const MaxReceiveSize = 64 << 20

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

// OpenStream opens a stream of a discovery service's method, given by its full
// name, over a connection. It receives what [wire.Codec] does.
func OpenStream(ctx context.Context, conn grpc.ClientConnInterface, method string) (grpc.ClientStream, error) {
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	return conn.NewStream(ctx, desc, method, grpc.ForceCodecV2(wire.Codec()), grpc.MaxCallRecvMsgSize(MaxReceiveSize))
}
