package relay

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// router says where names live: xdstp names by their authority, others by the
// client's scope.
type router struct {
	hub         *hub
	rules       *keyer.Aggregation
	authorities keyer.Authorities // upstreams by authority (LOC-3)
}

// Open implements downstream.Router.
func (r *router) Open(node *corev3.Node, peer keyer.Peer) downstream.Routes {
	return &routes{router: r, node: node, peer: peer, scoped: make(map[string]*session), held: make(map[*session]struct{})}
}

// routes are one stream's.
type routes struct {
	router *router
	node   *corev3.Node
	peer   keyer.Peer
	scoped map[string]*session // by type URL: rules are evaluated once per stream and type
	scope  string
	held   map[*session]struct{}
}

// Scoped implements downstream.Routes.
func (r *routes) Scoped(typeURL string) (*cache.Store, error) {
	if s := r.scoped[typeURL]; s != nil {
		return s.store, nil
	}
	if r.router.authorities.Default == "" {
		return nil, status.Error(codes.FailedPrecondition, "no upstream is the default: only xdstp names of a configured authority are served")
	}
	if r.node == nil && r.router.rules.Otherwise != keyer.Share {
		// Clients without a node would all look alike, and so share by accident (AGG-2).
		return nil, status.Error(codes.InvalidArgument, "the stream's first request has no node, which decides what the client is to be served (STR-1)")
	}
	d, err := r.router.rules.Decide(r.node, typeURL, r.peer)
	if err != nil {
		return nil, err
	}
	s, err := r.hold(r.router.authorities.Default, d.Scope, nodeFor(d))
	if err != nil {
		return nil, err
	}
	r.scoped[typeURL], r.scope = s, d.Scope
	return s.store, nil
}

// Authority implements downstream.Routes.
func (r *routes) Authority(authority string) (*cache.Store, error) {
	name := r.router.authorities.Owner(authority)
	if name == "" {
		return nil, fmt.Errorf("%w: %q", downstream.ErrNoUpstream, authority)
	}
	own := r.router.hub.node
	s, err := r.hold(name, xdstpScope, func() *corev3.Node { return own })
	if err != nil {
		return nil, err
	}
	return s.store, nil
}

// hold acquires a session once for the stream.
func (r *routes) hold(plane, scope string, node func() *corev3.Node) (*session, error) {
	for s := range r.held {
		if s.key == (sessionKey{plane, scope}) {
			return s, nil
		}
	}
	s, err := r.router.hub.acquire(plane, scope, node)
	switch {
	case errors.Is(err, errClosed):
		return nil, status.Error(codes.Unavailable, err.Error())
	case err != nil: // a node that no request has room for
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	r.held[s] = struct{}{}
	return s, nil
}

// Rejected implements downstream.Routes.
func (r *routes) Rejected(store *cache.Store, typeURL string, change uint64, reason string) {
	for s := range r.held {
		if s.store == store {
			s.client.Reject(typeURL, change, reason)
		}
	}
}

// Scope implements downstream.Routes.
func (r *routes) Scope() string { return r.scope }

// Close implements downstream.Routes.
func (r *routes) Close() {
	for s := range r.held {
		r.router.hub.release(s)
	}
	r.held = nil
}
