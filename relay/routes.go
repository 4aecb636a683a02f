package relay

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// router says where names live: xdstp names by their authority, others by the
// client's scope.
type router struct {
	hub *hub
	now atomic.Pointer[plan] // what the configuration in force says; never nil once the relay is built
}

// Open implements downstream.Router.
func (r *router) Open(node *corev3.Node, peer keyer.Peer) downstream.Routes {
	now := r.now.Load()
	return &routes{
		router: r, plan: now, subject: now.rules.Subject(node, peer), nameless: node == nil,
		scoped: make(map[string]*session), held: make(map[*session]struct{}),
	}
}

// ownNode is what control planes are shown for xdstp names.
func (r *router) ownNode() *corev3.Node { return r.now.Load().node }

// routes are one stream's.
type routes struct {
	router   *router
	plan     *plan               // of the time when the stream began
	subject  *rules.Subject      // the client, before its rules
	nameless bool                // it gave no node
	scoped   map[string]*session // by type URL, unless names decide: rules are evaluated once per stream and type
	scope    string
	held     map[*session]struct{}
}

// Scoped implements downstream.Routes.
func (r *routes) Scoped(typeURL, name string) (*cache.Store, error) {
	if s := r.scoped[typeURL]; s != nil {
		return s.store, nil
	}
	d, byName, err := r.subject.Decide(typeURL)
	if byName {
		d, err = r.subject.DecideName(typeURL, name)
	}
	if err != nil {
		return nil, err
	}
	plane := cmp.Or(d.Upstream, r.plan.authorities.Default)
	if plane == "" {
		return nil, status.Error(codes.FailedPrecondition, "no upstream is the default: only xdstp names of a configured authority are served")
	}
	if r.nameless && (d.Failed != nil || d.Rule == rules.Otherwise && r.plan.rules.Policy() != rules.Share) {
		// Clients without a node would all look alike, and so share by accident (AGG-2).
		return nil, status.Error(codes.InvalidArgument, "the stream's first request has no node, which decides what the client is to be served (STR-1)")
	}
	s, err := r.hold(sessionKey{plane: plane, scope: d.Scope, template: d.Template}, nodeFor(d))
	if err != nil {
		return nil, err
	}
	if !byName {
		r.scoped[typeURL] = s
	}
	r.scope = d.Scope
	return s.store, nil
}

// Named implements downstream.Routes.
func (r *routes) Named(name keyer.Name) (store *cache.Store, key string, err error) {
	at, key, err := r.plan.home(name)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %q", downstream.ErrNoUpstream, name.Authority)
	}
	s, err := r.hold(at, r.router.ownNode)
	if err != nil {
		return nil, "", err
	}
	return s.store, key, nil
}

// hold acquires a session once for the stream.
func (r *routes) hold(key sessionKey, node func() *corev3.Node) (*session, error) {
	for s := range r.held {
		if s.key == key {
			return s, nil
		}
	}
	s, err := r.router.hub.acquire(key, node)
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
