package xdsclient

import (
	"context"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Protocol is one variant of the transport. Open and Serves are called without
// a lock. The others are called by any goroutine, with the client's lock held:
// they must not block, nor call the client.
type Protocol interface {
	// Serves gives nil if the variant has a way to ask for a type, else an
	// *UnservedError.
	Serves(typeURL string) error
	// Open opens a stream for a type, or for all types where typeURL is "". It
	// calls opened once, then or when the stream receives, as soon as there is a
	// connection. The stream ends with ctx.
	Open(ctx context.Context, typeURL string, opened func()) (Stream, error)
	// First gives the requests that a stream begins with for a type of which
	// something is wanted. reserved bytes of the first one are for the node; none
	// should pass limit.
	First(t *Type, reserved, limit int) []proto.Message
	// Change gives the requests that tell of names subscribed and unsubscribed. t
	// has them already.
	Change(t *Type, subscribe, unsubscribe []string, limit int) []proto.Message
	// Answer gives the request that accepts or rejects a response (STR-8).
	Answer(a Answer) proto.Message
	// FullState tells whether what is missing in a response for a type does not
	// exist (RES-8).
	FullState(typeURL string) bool
	// Version gives the version that a resource is held at (ACK-4).
	Version(r *wire.Resource) string
}

// Stream is an open stream. One goroutine sends while another receives.
type Stream interface {
	// Send sends a request of the Protocol's, with the node if there is one. An
	// error of io.EOF says that receiving tells why the stream has ended.
	Send(req proto.Message, node *corev3.Node) error
	// Recv takes the next response. What is wrong with a response alone is its Err.
	Recv(r *wire.Received) error
}

// Answer is what a response is answered with.
type Answer struct {
	Type    *Type // nil if the response is for a type that was never subscribed
	TypeURL string
	Nonce   string
	// Version is the version_info of the response if it is accepted, else of the
	// last one that was (ACK-2).
	Version string
	Reason  error // nil: accepted
}
