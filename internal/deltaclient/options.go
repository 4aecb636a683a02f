package deltaclient

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
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
	// DefaultMaxRequestSize.
	MaxRequestSize int
	// OnOpen is called when a stream is open and nothing was sent yet.
	OnOpen func()
	// OnResponse is called with every response before it is applied and answered.
	// An error rejects it: the response changes nothing and the server gets the
	// error's text (a NACK). The Response is valid during the call only.
	//
	// Both are called by the goroutine that reads, so that nothing is received
	// meanwhile, and may call the client's methods.
	OnResponse func(*Response) error
}

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
