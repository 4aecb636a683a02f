package downstream

import (
	"errors"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/verdict"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// ErrNoUpstream says that nobody claims an authority (LOC-4).
var ErrNoUpstream = errors.New("no upstream is configured for this authority")

// Router finds the stores that serve a stream. Open is called from any goroutine.
type Router interface {
	// Open is called with a stream's first request. The node is nil if the client
	// gave none. It is the router's from then on; nobody changes the peer.
	Open(node *corev3.Node, peer *keyer.Peer) Routes
}

// Routes are one stream's. The methods are called one at a time. What
// they answer is by one plan of where names live.
type Routes interface {
	// Scoped gives the store for a name of a type that is opaque, or for its wildcard. A
	// *rules.RefusedError ends the stream with PERMISSION_DENIED, any other with
	// INVALID_ARGUMENT; a status error ends it as it is.
	Scoped(typeURL, name string) (*cache.Store, error)
	// Named gives the store for an xdstp name, by its authority and its directives, and
	// the key that it has there. An error that wraps ErrNoUpstream has the name answered
	// as not existing. Any other ends the stream, as it is if it is a status error and
	// else with UNAVAILABLE: what cannot be looked up now must not be taken from the
	// client.
	Named(name keyer.Name) (store *cache.Store, key string, err error)
	// Reopen gives the routes of the same client by the plan that is in force now, which
	// are to be closed too; nil if that is the plan that these routes are of.
	Reopen() Routes
	// Distrusts reports whether versions that clients present of what lives in a store are
	// not to be believed: a reload changed a moment ago who serves it, and the versions may
	// be another server's (ACK-4).
	Distrusts(store *cache.Store) bool
	// Listens reports whether some control plane's answer may wait for what Tell tells.
	Listens() bool
	// Tell tells what became of content of a store with the client (ACK-7). It does not block.
	Tell(store *cache.Store, w verdict.Word)
	// Scope names the scope that Scoped decided on, for the admin port.
	Scope() string
	// Close lets go of the stores.
	Close()
}
