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
	follow      map[string]bool   // upstreams whose redirects are followed (LOC-1)
}

// resolves reports whether the relay resolves a name by itself: what has directives, of
// which servers know nothing (NAME-8), and what may be a redirect that it follows.
func (r *router) resolves(name keyer.Name) bool {
	return name.Alt() != "" || name.Entry() != "" || r.follow[r.authorities.Owner(name.Authority)]
}

// claimed reports whether there is an upstream for a name or one of its alternatives.
func (r *router) claimed(name keyer.Name) bool {
	for n := range name.Alternatives() {
		if r.authorities.Owner(n.Authority) != "" {
			return true
		}
	}
	return false
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

// Named implements downstream.Routes.
func (r *routes) Named(name keyer.Name) (store *cache.Store, key string, err error) {
	if !r.router.claimed(name) {
		return nil, "", fmt.Errorf("%w: %q", downstream.ErrNoUpstream, name.Authority)
	}
	at, key := sessionKey{plane: r.router.authorities.Owner(name.Authority), scope: xdstpScope}, name.Canonical()
	if r.router.resolves(name) {
		at, key = resolvedKey(), name.Resolved()
	}
	own := r.router.hub.node
	s, err := r.holdKey(at, func() *corev3.Node { return own })
	if err != nil {
		return nil, "", err
	}
	return s.store, key, nil
}

// hold acquires a session once for the stream.
func (r *routes) hold(plane, scope string, node func() *corev3.Node) (*session, error) {
	return r.holdKey(sessionKey{plane: plane, scope: scope}, node)
}

func (r *routes) holdKey(key sessionKey, node func() *corev3.Node) (*session, error) {
	for s := range r.held {
		if s.key == key {
			return s, nil
		}
	}
	s, err := r.router.hub.acquireKey(key, node)
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
