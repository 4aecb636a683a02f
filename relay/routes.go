package relay

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/smallmap"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"github.com/xdsrelay/xdsrelay/relay/audit"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// router says where names live: xdstp names by their authority, others by the
// client's scope.
type router struct {
	hub     *hub
	replica string               // which of several relays it is
	now     atomic.Pointer[plan] // what the configuration in force says; never nil once the relay is built

	decided    *decisions
	unverified unverified
	roster     roster
	extensions extensionLists
	lastScopes *lastScopes
	trail      *audit.Log // nil: there is no audit

	judge func(downstream.Access) downstream.Access // of tests, which take checks out; nil: none
}

// adopt puts a plan in force: streams that begin from now on go by it.
func (r *router) adopt(p *plan) {
	r.now.Store(p)
	r.decided.begin(p.named)
	r.unverified.begin(p.verifies, p.shadows)
}

// Open implements downstream.Router.
func (r *router) Open(node *corev3.Node, peer *keyer.Peer) (downstream.Routes, error) {
	opened, err := r.open(node, peer)
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// NodeMatters implements downstream.Router.
func (r *router) NodeMatters(peer *keyer.Peer) bool {
	p := r.now.Load()
	return !p.rules.Empty() || p.rules.Policy() != rules.Share || len(p.verifies) > 0 || !p.access.Of(peer.Through()).Rules.Empty()
}

// open is Open. The client may present the node if all rules about nodes of its listener say so (ACC-5).
func (r *router) open(node *corev3.Node, peer *keyer.Peer) (*routes, error) {
	p := r.now.Load()
	if err := p.verify(node, peer); err != nil {
		return nil, r.unverified.refuse(node, peer, err)
	}
	opened := r.by(p, node, peer)
	if len(p.verifies) > 0 {
		if shadow := p.access.Of(peer.Through()).Verifier.Shadow(); shadow != nil {
			opened.verifyInShadow(shadow)
		}
	}
	return opened, nil
}

// by gives a client its routes by a plan.
func (r *router) by(p *plan, node *corev3.Node, peer *keyer.Peer) *routes {
	return &routes{
		router: r, plan: p, node: node, shared: r.extensions.share(node),
		peer: peer, member: member{id: node.GetId()},
	}
}

// verify asks the rules about nodes: access.verify, or those of the client's listener.
func (p *plan) verify(node *corev3.Node, peer *keyer.Peer) (err error) {
	if len(p.verifies) == 0 {
		return nil
	}
	verifier := p.access.Of(peer.Through()).Verifier
	if verifier.Empty() {
		return nil
	}
	logs.Apart(func() { err = verifier.Verify(node, *peer) }) // of the stack of a stream at rest
	return err
}

// routes are one stream's.
type routes struct {
	router  *router
	node    *corev3.Node // nil: the client gave none
	shared  *extensions  // of the node: others find them as long as they are kept
	peer    *keyer.Peer
	plan    *plan                          // of the time when the routes were opened
	access  downstream.Access              // nil until it is asked for
	subject *rules.Subject                 // the client, before its rules; nil as long as no names decide
	scoped  smallmap.Map[string, *session] // by type URL, unless names decide: rules are evaluated once per stream and type
	scope   string
	held    smallmap.Map[sessionKey, *session] // names may put a client into thousands
	meta    smallmap.Map[string, forwarded]    // what of the client's metadata goes upstream, by upstream
	member  member
	who     claimKind
}

// Reopen implements downstream.Routes.
func (r *routes) Reopen() (downstream.Routes, error) {
	if r.router.now.Load() == r.plan {
		return nil, nil
	}
	next, err := r.router.open(r.node, r.peer)
	if err != nil {
		return nil, err
	}
	next.who = moved
	return next, nil
}

// Distrusts implements downstream.Routes.
func (r *routes) Distrusts(store *cache.Store, typeURL string) bool {
	for _, s := range r.held.All() {
		if s.store == store {
			return r.plan.distrusts(s.key, time.Now()) || s == r.scoped.Get(typeURL) && r.router.lastScopes.elsewhere(r.visitor(typeURL), s.key)
		}
	}
	return false
}

// Accepted implements downstream.Routes.
func (r *routes) Accepted(store *cache.Store, typeURL string) bool {
	s := r.scoped.Get(typeURL)
	if s != nil && s.store == store {
		r.router.lastScopes.note(r.visitor(typeURL), s.key)
	}
	return s == nil || s.store == store
}

func (r *routes) visitor(typeURL string) visitor {
	who := quota.ClientOf(r.peer)
	who.Identity = r.peer.Identity() // it is the same client when another CA issues its certificate
	return visitor{who, r.member.id, typeURL}
}

// Scoped implements downstream.Routes.
func (r *routes) Scoped(typeURL, name string) (*cache.Store, error) {
	if s := r.scoped.Get(typeURL); s != nil {
		return s.store, nil
	}
	d, plane, byName, err := r.judge(typeURL, name)
	if err != nil {
		return nil, err
	}
	s, began, err := r.enter(plane, &d)
	if err != nil {
		return nil, err
	}
	r.placed(typeURL, s, &d, began)
	if !byName {
		r.scoped.Set(typeURL, s)
	}
	r.scope = d.Scope
	return s.store, nil
}

// judge finds out which scope of which upstream the rules put the client into.
func (r *routes) judge(typeURL, name string) (d rules.Decision, plane string, byName bool, err error) {
	if r.plan.rules.Empty() { // not by weigh, whose frame the stack of a stream at rest has no room for
		d, byName, err = r.decide(typeURL, name)
	} else {
		byName, err = r.decideApart(typeURL, name, &d)
	}
	r.router.decided.decided(r.member.id, typeURL, d, err)
	if refused, is := errors.AsType[*rules.RefusedError](err); is && r.router.trail != nil {
		line := r.event("scope", audit.Deny, refused.Rule)
		line.Type, line.Name = typeURL, name
		r.router.trail.Note(line)
	}
	if err != nil {
		return d, "", byName, err
	}
	plane, err = r.planeOf(&d)
	return d, plane, byName, err
}

// weigh asks the rules, and tells nobody what they decided.
func (r *routes) weigh(typeURL, name string) (d rules.Decision, err error) {
	if r.plan.rules.Empty() {
		d, _, err = r.decide(typeURL, name)
	} else {
		_, err = r.decideApart(typeURL, name, &d)
	}
	return d, err
}

// planeOf names the upstream of a decision. The error is a status.
func (r *routes) planeOf(d *rules.Decision) (string, error) {
	plane := cmp.Or(d.Upstream, r.plan.authorities.Default)
	if plane == "" {
		return "", status.Error(codes.FailedPrecondition, "there is no default upstream: the relay serves only xdstp names of configured authorities")
	}
	if r.node == nil && sharing.Isolated(d, r.plan.rules.Policy()) {
		// Clients without a node would all look alike, and so share by accident (AGG-2).
		return "", status.Error(codes.InvalidArgument, "the stream's first request has no node, and the relay needs the node to choose the client's resources (STR-1)")
	}
	return plane, nil
}

// enter acquires the session of a decision, and reports whether that began with it.
func (r *routes) enter(plane string, d *rules.Decision) (s *session, began bool, err error) {
	s, err = r.hold(sessionKey{plane: plane, of: r.plan.planes[plane], scope: d.Scope, basis: d.Basis}, func() shown {
		began = true
		return asDecided(d, r.router.replica)
	})
	return s, began, err
}

// decide asks the rules. What they make of the client takes more memory than its node: it
// is kept only for streams that will ask again, for other names.
func (r *routes) decide(typeURL, name string) (d rules.Decision, byName bool, err error) {
	subject := r.subject
	if subject == nil {
		subject = r.plan.rules.Subject(r.node, *r.peer)
	}
	if d, byName, err = subject.Decide(typeURL); byName {
		r.subject = subject
		d, err = subject.DecideName(typeURL, name)
	}
	return d, byName, err
}

// decideApart is decide on a stack of its own: expressions take more of it than all else that a stream
// does, and it would stay.
func (r *routes) decideApart(typeURL, name string, decided *rules.Decision) (byName bool, err error) {
	var d rules.Decision
	logs.Apart(func() { d, byName, err = r.decide(typeURL, name) })
	*decided = d
	return byName, err
}

// placed notes where the rules have put the client, for /scopes.
func (r *routes) placed(typeURL string, s *session, d *rules.Decision, began bool) {
	if r.member.add(s, place{typeURL, d.Rule, d.Failed}) {
		r.router.compare(s, r.plan, d, r.member.id, began)
	}
}

// Named implements downstream.Routes.
func (r *routes) Named(name keyer.Name) (store *cache.Store, key string, err error) {
	at, key, err := r.plan.home(name)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %q", downstream.ErrNoUpstream, name.Authority)
	}
	s, err := r.hold(at, asItself)
	if err != nil {
		return nil, "", err
	}
	return s.store, key, nil
}

// forwards gives what of the client's metadata goes to an upstream. It is taken once: the
// plan's names do not change, nor does what came with the stream.
func (r *routes) forwards(upstream string) (forwarded, error) {
	names := r.plan.forward[upstream]
	if len(names) == 0 {
		return forwarded{}, nil
	}
	if f, known := r.meta.Lookup(upstream); known {
		return f, nil
	}
	f, err := forward(r.peer, names)
	if err != nil {
		return forwarded{}, err
	}
	r.meta.Set(upstream, f)
	return f, nil
}

// hold acquires a session once for the stream. What the relay resolves by itself it asks
// for without anything of the client's.
func (r *routes) hold(key sessionKey, as func() shown) (*session, error) {
	var f forwarded
	if !key.resolved {
		var err error
		if f, err = r.forwards(key.plane); err != nil {
			return nil, err
		}
		key.forwarded = f.key
	}
	if s := r.held.Get(key); s != nil {
		return s, nil
	}
	who := r.who
	if who == newcomer && r.held.Len() > 0 {
		who = served
	}
	s, err := r.router.hub.acquire(claim{who, quota.ClientOf(r.peer), r.peer.Addr}, key, as, f.metadata)
	switch {
	case errors.Is(err, errClosed):
		return nil, status.Error(codes.Unavailable, err.Error())
	case errors.Is(err, errNoRoom), errors.Is(err, downstream.ErrShareOfScopes), errors.Is(err, downstream.ErrNoMemory):
		return nil, err
	case err != nil: // a node that no request has room for
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if r.held.Len() == 0 {
		r.router.roster.add(r)
	}
	r.held.Set(key, s)
	return s, nil
}

// Listens implements downstream.Routes.
func (r *routes) Listens() bool { return r.plan.listens }

// Tell implements downstream.Routes.
func (r *routes) Tell(store *cache.Store, w ack.Outcome) {
	for _, s := range r.held.All() {
		if s.store == store {
			s.client.Tell(w)
		}
	}
}

// Scope implements downstream.Routes.
func (r *routes) Scope() string { return r.scope }

// Close implements downstream.Routes.
func (r *routes) Close() { r.leave(r.router.hub.release) }

// Pause implements downstream.Routes.
func (r *routes) Pause() { r.leave(r.router.hub.pause) }

func (r *routes) leave(give func(*session)) {
	r.router.roster.remove(r)
	for _, s := range r.held.All() {
		give(s)
	}
	r.held.Clear()
}
