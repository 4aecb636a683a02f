package xdsclient

import (
	"net/http"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
)

// Options say how a client behaves. Without more than Conn it is an incremental ADS client
// without a node that keeps versions and accepts every response.
type Options struct {
	Form Form
	// Conn leads to the server, by Dial for example; with REST HTTP and URL do, which has
	// no path: "http://127.0.0.1:18101".
	Conn grpc.ClientConnInterface
	HTTP *http.Client
	URL  string
	// Node goes out with the first request of every stream (STR-2). It is shared
	// with the caller, who must not change it.
	Node *corev3.Node
	// KeepResources keeps resources, not only their names and versions.
	KeepResources bool
	// PerType gives each type a stream of its own, of the type's own service
	// (VAR-1, VAR-2). Without it there is one stream for all types, ADS. Over REST
	// it is always so.
	PerType bool
	// ResourceInSotW says, with SotW and REST, that resources may be wrapped in
	// envoy.service.discovery.v3.Resource (RES-13). It is announced in a copy of the
	// Node. What comes wrapped is understood with and without it.
	ResourceInSotW bool
	// PresentVersion has a state-of-the-world stream begin with the version that was
	// accepted last even if something that is wanted was not answered, as Envoys do. A server
	// that goes by versions alone leaves such a client without what it lacks.
	PresentVersion bool
	// PollInterval is, over REST, the least time from one poll to the next for the
	// same; DefaultPollInterval if 0.
	PollInterval time.Duration
	// OnOpen is called when a stream is open and nothing was received yet, with the type
	// that it is for, "" with one stream for all types.
	OnOpen func(typeURL string)
	// OnResponse is called with every response before it is applied and answered.
	// An error rejects it: the response changes nothing and the server gets the
	// error's text (a NACK). The Response is valid during the call only.
	//
	// Both are called by the goroutine that reads a stream, so that nothing is
	// received on it meanwhile, and may call the client's methods. With several
	// streams they are called by several goroutines, at the same time.
	OnResponse func(*Response) error
}

// DefaultPollInterval is for a person who watches.
const DefaultPollInterval = time.Second

// maxRequest is what servers accept by default, with room to spare. State-of-the-world
// requests have all names in one message and are not bounded.
const maxRequest = 4<<20 - 64<<10
