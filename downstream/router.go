package downstream

import (
	"errors"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrNoUpstream says that no upstream claims an authority (LOC-4).
var ErrNoUpstream = errors.New("no upstream is configured for this authority")

// ErrNoRoom says that a name's scope would be one too many, and ErrShareOfScopes that the client has its
// share of them (LIM-1). ErrNoMemory says that there is no memory for it (LIM-3). All are statuses with
// UNAVAILABLE.
var (
	ErrNoRoom        error = &crowdedError{LimitScopes, "there are too many scopes"}
	ErrShareOfScopes error = &crowdedError{LimitShare, "less than a tenth of limits.scopes is free, and this client's address or identity has its share (limits.share): try again later, or another replica"}
	ErrNoMemory      error = &crowdedError{LimitMemory, "the relay is short of memory and takes on no new scopes: try again in some seconds"}
)

// crowdedError ends the stream or the poll of a client with a name that has no room for its scope. The
// client keeps what it has, and comes back, or goes to another server (ABS-2). Its stream cannot go on
// without the name: a list that lacks it would remove it (RES-7), and nobody would ask for it again.
type crowdedError struct {
	limit Limit
	text  string
}

func (e *crowdedError) Error() string { return e.text }

// GRPCStatus is what the status package asks errors for.
func (e *crowdedError) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.text) }

// crowded returns the crowdedError behind an error, nil if there is none.
func crowded(err error) *crowdedError {
	c, _ := errors.AsType[*crowdedError](err)
	return c
}

// Router finds the stores that serve a stream or a poll. Open may be called from any goroutine.
type Router interface {
	// Open is called with the first request. The node is nil if the request has none. The
	// router may keep the node; the server does not change the peer. The error is a status, with
	// which the stream or poll ends: the client may not present the node (ACC-5).
	Open(node *corev3.Node, peer *keyer.Peer) (Routes, error)
	// NodeMatters reports whether the node decides what a client gets, or whether it is served at all.
	NodeMatters(peer *keyer.Peer) bool
}

// Routes are those of one stream or poll. The methods are called one at a time. All answers are by
// one plan of where names live.
type Routes interface {
	// Scoped returns the store for an opaque name of a type, or for its wildcard. Every error
	// ends the stream: a *rules.RefusedError with PERMISSION_DENIED, a status error with itself,
	// such as one that wraps ErrNoRoom, ErrShareOfScopes or ErrNoMemory, any other with INVALID_ARGUMENT.
	Scoped(typeURL, name string) (*cache.Store, error)
	// Named returns the store for an xdstp name, by its authority and its directives, and
	// the key of the name there. If the error wraps ErrNoUpstream, the client is told that the
	// resource does not exist. Any other error ends the stream: a status error with itself, any
	// other with UNAVAILABLE. The client must not lose a resource because a look-up failed.
	Named(name keyer.Name) (store *cache.Store, key string, err error)
	// Reopen returns the routes of the same client by the plan in force. The caller has to close
	// them too. nil: these routes are of the plan in force. The error is that of Router.Open.
	Reopen() (Routes, error)
	// Distrusts reports whether the relay must ignore the versions that the client presents of
	// resources of a type in a store: a reload has just given the store another server, or the
	// client accepted the type in another scope last. The versions may be of other contents there
	// (ACK-4).
	Distrusts(store *cache.Store, typeURL string) bool
	// Accepted notes that the client accepted content of a type in a store. It reports whether it
	// is to be told no more of the type.
	Accepted(store *cache.Store, typeURL string) bool
	// Access returns what says which names the client may get; nil: it may get all.
	Access() Access
	// Listens reports whether an answer to a control plane may wait for Tell.
	Listens() bool
	// Tell tells the control plane of a store that the client was sent its content, or how the
	// client answered (ACK-7). It does not block.
	Tell(store *cache.Store, w ack.Outcome)
	// Scope returns the scope that Scoped decided on, for the admin port.
	Scope() string
	// Close releases the stores.
	Close()
	// Pause does the same at the end of a poll: the client comes back for the next one.
	Pause()
}

// Use is what an Access is asked for.
type Use = delivery.Use

// Access says what the client of one stream or poll may get (ACC-2). Its methods are called one at
// a time.
type Access interface {
	delivery.Judge
	// Subscribes returns why the client may not subscribe to a name, a glob or "*"; nil if it
	// may. The answer must not depend on whether there is such a resource.
	Subscribes(typeURL, spelling string) error
	// Forget is told of a name that the client does not subscribe to any more: nothing need be remembered of it.
	Forget(typeURL, spelling string)
	// Differs reports whether the client may get other names of a type by another Access, which
	// may be nil.
	Differs(next Access, typeURL string) bool
}

// Watched is an Access that notes what it is asked whether the client may subscribe to it.
type Watched interface {
	Access

	// Unwatched gives one that decides alike, and notes nothing.
	Unwatched() Access
}

// Unwatched gives an access for what the client does not subscribe to.
func Unwatched(a Access) Access {
	if w, is := a.(Watched); is {
		return w.Unwatched()
	}
	return a
}
