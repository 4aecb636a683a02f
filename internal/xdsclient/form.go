package xdsclient

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Form is what a client speaks.
type Form int

// The forms. The first two have ADS (VAR-4, VAR-3) and a stream for each type (VAR-2,
// VAR-1).
const (
	Incremental Form = iota
	SotW
	REST // state of the world in proto3 JSON, each type polled by itself (VAR-5)
)

// messages makes the requests of a form and tells what its responses mean. The methods
// are called by any goroutine, with the client's lock held.
type messages interface {
	// first gives the requests that a stream begins with for a type of which
	// something is wanted. reserved bytes of the first one are for the node; none
	// should pass limit.
	first(t *typeState, reserved, limit int) []proto.Message
	// change gives the requests that tell of names subscribed and unsubscribed. t
	// has them already.
	change(t *typeState, subscribe, unsubscribe []string, limit int) []proto.Message
	// answer gives the ACK of a response, or its NACK if there is a reason (STR-8, ACK-2).
	answer(a answer) proto.Message
	// fullState tells whether what is missing in a response for a type does not
	// exist (RES-8).
	fullState(typeURL string) bool
	// version gives the version that a resource is held at (ACK-4).
	version(r *wire.Resource) string
}

// answer is what a response is answered with.
type answer struct {
	of      *typeState // nil if the response is for a type that was never subscribed
	typeURL string
	nonce   string
	version string // version_info of the response if it is accepted, else of the last one that was
	reason  error  // nil: accepted
}

// wireStream is an open stream. One goroutine sends while another receives.
type wireStream interface {
	// Send sends a request, with the node if there is one. An error of io.EOF says
	// that receiving tells why the stream has ended.
	Send(req proto.Message, node *corev3.Node) error
	// Recv takes the next response. What is wrong with a response alone is its Err.
	Recv(r *wire.Received) error
}

// UnservedError says that a form has no way to ask for a type. No server can
// change that.
type UnservedError struct {
	TypeURL string
	Variant string // such as "incremental per-type"
}

func (e *UnservedError) Error() string {
	return fmt.Sprintf("%s cannot be asked for: there is no %s service for it", keyer.ShortName(e.TypeURL), e.Variant)
}

// Serves gives nil if the client's form has a way to ask for a type, else an
// *UnservedError. What is subscribed nevertheless is asked for where one stream
// is for all types, and ends the client where it would need one of its own.
func (c *Client) Serves(typeURL string) error {
	service, perType := xds.ServiceOf(typeURL), c.options.PerType
	switch form := c.options.Form; {
	case form == REST && service.Path == "":
		return &UnservedError{typeURL, "REST"}
	case form == SotW && keyer.ShortName(typeURL) == "vhds":
		return &UnservedError{typeURL, "state-of-the-world"}
	case form == SotW && perType && service.State == "":
		return &UnservedError{typeURL, "state-of-the-world per-type"}
	case form == Incremental && perType && service.Delta == "":
		return &UnservedError{typeURL, "incremental per-type"}
	}
	return nil
}

// open opens a stream for a type, or for all types where typeURL is "". It calls opened
// once, then or when the stream receives, as soon as there is a connection. The stream
// ends with ctx.
func (c *Client) open(ctx context.Context, typeURL string, opened func()) (wireStream, error) {
	o := &c.options
	state, delta := discoveryv3.AggregatedDiscoveryService_StreamAggregatedResources_FullMethodName, discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName
	if o.PerType {
		if err := c.Serves(typeURL); err != nil {
			return nil, err
		}
		service := xds.ServiceOf(typeURL)
		state, delta = service.StateMethod(), service.DeltaMethod()
	}
	if o.Form == REST {
		base, err := url.Parse(o.URL)
		if err != nil {
			return nil, failed(codes.InvalidArgument, err)
		}
		return &poller{
			client: o.HTTP, interval: o.PollInterval, ctx: ctx, typeURL: typeURL, url: base, opened: sync.OnceFunc(opened), wake: notify.New(),
		}, nil
	}
	method := delta
	if o.Form == SotW {
		method = state
	}
	s, err := openGRPC(ctx, o.Conn, method, o.Form == SotW)
	if err != nil {
		return nil, err
	}
	opened()
	return s, nil
}

// announced gives a copy of a node with the client features of wrapped resources, in both
// spellings (RES-13).
func announced(node *corev3.Node) *corev3.Node {
	if node == nil {
		node = new(corev3.Node)
	}
	node = proto.CloneOf(node)
	for _, feature := range wire.WrappingFeatures() {
		if !slices.Contains(node.GetClientFeatures(), feature) {
			node.ClientFeatures = append(node.ClientFeatures, feature)
		}
	}
	return node
}
