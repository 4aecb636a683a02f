package relay

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"github.com/xdsrelay/xdsrelay/relay/passthrough"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// passSpread is the time over which a command has clients connect again: it is to be seen at once, and a fleet is not
// to arrive in one moment.
const passSpread = 2 * time.Second

// passed says which streams are served 1:1. It is not changed: it is a part of a plan.
type passed struct {
	configured []passthrough.Rule // by the configuration
	ordered    []passthrough.Rule // by commands
	rules      []passthrough.Rule // those in force
}

// passedBy gives the rules of a configuration.
func passedBy(cfg *config.Config) passed {
	var all []passthrough.Rule
	for _, x := range cfg.Passthrough {
		all = append(all, passthrough.Rule{Upstream: x.Upstream, Scope: x.Scope, TypeURL: x.TypeURL()})
	}
	return passed{configured: all, rules: all}
}

// after keeps the commands that were given before a reload. Those about the configuration's own rules end if these
// changed.
func (p passed) after(before *passed) passed {
	p.ordered = before.ordered
	if slices.Equal(p.configured, before.configured) {
		p.rules = before.rules
		return p
	}
	p.rules = slices.Clone(p.configured)
	for _, x := range p.ordered {
		p.rules = withRule(p.rules, x)
	}
	return p
}

// withRule adds a rule, unless it is there.
func withRule(all []passthrough.Rule, x passthrough.Rule) []passthrough.Rule {
	if slices.Contains(all, x) {
		return all
	}
	return append(slices.Clip(all), x)
}

// passage serves the streams 1:1 that a rule selects. It implements downstream.Passage, and finds their places.
type passage struct {
	*passthrough.Server

	router *router
}

func newPassage(r *router, panics *logs.Panics, log *slog.Logger) passage {
	return passage{passthrough.NewServer(passage{router: r}, downstream.EndStream, panics, log), r}
}

// On implements downstream.Passage.
func (p passage) On() bool { return len(p.router.now.Load().passed.rules) > 0 }

// Takes implements downstream.Passage.
func (p passage) Takes(to downstream.Routes, typeURL, service string) bool {
	r, ok := to.(*routes)
	if f, is := to.(*foreseen); is {
		r, ok = f.routes, true
	}
	if !ok || len(r.plan.passed.rules) == 0 {
		return false
	}
	at, err := r.passes(typeURL, service)
	return err == nil && at != nil
}

// Find implements passthrough.Finder.
func (p passage) Find(t *downstream.Through, node *corev3.Node, typeURL string) (passthrough.Place, error) {
	peer := downstream.PeerOf(t.Context())
	if node == nil && p.router.NodeMatters(&peer) {
		return nil, nil // it may come with a later request (STR-1)
	}
	to, err := p.router.open(node, &peer)
	if err != nil {
		return nil, err
	}
	x := &passedPlace{router: p.router, method: t.Method, typeURL: typeURL, service: t.TypeURL}
	if x.session, err = x.enter(to); x.session == nil || err != nil {
		to.Close()
		return nil, nil //nolint:nilerr // the cache serves the client, and its stream says why not
	}
	x.routes, x.served = to, map[string]bool{}
	return x, nil
}

// passes finds out where a stream goes that is served 1:1: nil if it is not. service is the type of its service;
// "": it is aggregated.
func (r *routes) passes(typeURL, service string) (*downstream.Origin, error) {
	d, err := r.weigh(typeURL, cache.Wildcard)
	if err != nil {
		return nil, err
	}
	plane, err := r.planeOf(&d)
	if err != nil {
		return nil, err
	}
	selects := func(x passthrough.Rule) bool { return x.Selects(plane, d.Scope, service) }
	if !slices.ContainsFunc(r.plan.passed.rules, selects) {
		return nil, nil
	}
	if u := r.router.hub.configOf(r.plan.planes[plane]); !u.HasStreams() {
		return nil, nil // it has no streams
	}
	return &downstream.Origin{Upstream: plane, Scope: d.Scope}, nil
}

// passedPlace is the place of a client that is served 1:1.
type passedPlace struct {
	// immutable
	router  *router
	session *session
	method  string
	typeURL string // of the first request
	service string // the type of the stream's service; "": it is aggregated

	mu     sync.Mutex // guards what follows
	routes *routes
	next   downstream.Access // what the plan in force allows, too, where it ends the stream; nil: it does not
	served map[string]bool   // whether the session's upstream is that of a type
	closed bool
}

// enter finds the session of the client by its routes; nil if it is not served 1:1.
func (x *passedPlace) enter(to *routes) (*session, error) {
	if at, err := to.passes(x.typeURL, x.service); at == nil || err != nil {
		return nil, err
	}
	d, plane, _, err := to.judge(x.typeURL, cache.Wildcard)
	if err != nil {
		return nil, err
	}
	s, _, err := to.enter(plane, &d)
	return s, err
}

// Origin implements passthrough.Place.
func (x *passedPlace) Origin() downstream.Origin {
	return downstream.Origin{Upstream: x.session.key.plane, Scope: x.session.key.scope}
}

var errPlaneAway = status.Error(codes.Unavailable, "the control plane of this client, which is served 1:1, cannot be reached")

// Open implements passthrough.Place.
func (x *passedPlace) Open(ctx context.Context) (passthrough.Stream, error) {
	f, ok := x.session.client.current().(*upstream.Session)
	if !ok {
		return nil, passthrough.ErrMoved
	}
	stream, err := f.Beside(ctx, x.method)
	switch {
	case err == nil:
		return stream, nil
	case errors.Is(err, upstream.ErrNoStreams), errors.Is(err, upstream.ErrClosed):
		return nil, passthrough.ErrMoved
	case ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	x.router.hub.log.Info("no stream can be opened for a client that is served 1:1", "upstream", x.session.key.plane, "error", err)
	return nil, errPlaneAway
}

// Serves implements passthrough.Place (ACC-2).
func (x *passedPlace) Serves(typeURL, name string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.denies(typeURL, name); err != nil {
		return err
	}
	here := x.session.key.plane
	if keyer.IsXDSTP(name) {
		parsed, err := keyer.Parse(name)
		if err != nil {
			return status.Errorf(codes.InvalidArgument, "%.256q: %v", name, err)
		}
		if owner := x.routes.plan.authorities.Owner(parsed.Authority); owner != "" && owner != here {
			return elsewhere(typeURL, name, owner, here)
		}
		return nil
	}
	if x.served[typeURL] {
		return nil
	}
	d, err := x.routes.weigh(typeURL, cache.Wildcard)
	if err != nil {
		return downstream.ScopeError(err)
	}
	plane, err := x.routes.planeOf(&d)
	if err != nil {
		return err
	}
	if plane != here {
		return elsewhere(typeURL, name, plane, here)
	}
	x.served[typeURL] = true
	return nil
}

// elsewhere is the status of a stream whose client asks for what another upstream serves.
func elsewhere(typeURL, name, plane, here string) error {
	return status.Errorf(codes.FailedPrecondition, "type %.256q, name %.256q: the upstream %q serves it, and this stream is served 1:1 from %q: "+
		"one stream cannot have both", typeURL, name, plane, here)
}

// Judges implements passthrough.Place.
func (x *passedPlace) Judges(typeURL string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.ContainsFunc(x.judges(), func(a downstream.Access) bool { return a.ByName(typeURL) })
}

// Denies implements passthrough.Place (ACC-2).
func (x *passedPlace) Denies(typeURL, name string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	const content downstream.Use = 0
	for _, access := range x.judges() {
		allows := access.Allows(content, typeURL, name) // which is not audited: the subscription was
		access.Forget(typeURL, name)
		if !allows {
			return x.denies(typeURL, name)
		}
	}
	return nil
}

// judges gives what judges the client. The caller holds mu.
func (x *passedPlace) judges() []downstream.Access {
	if x.next != nil {
		return []downstream.Access{x.routes.Access(), x.next}
	}
	return []downstream.Access{x.routes.Access()}
}

// denies is Denies. Nothing is remembered of the name. The caller holds mu.
func (x *passedPlace) denies(typeURL, name string) error {
	for _, access := range x.judges() {
		err := access.Subscribes(typeURL, name)
		access.Forget(typeURL, name)
		if err != nil {
			return passthrough.Denied(typeURL, name, err.Error())
		}
	}
	return nil
}

// Check implements passthrough.Place. A client that is served as it was keeps to the new plan.
func (x *passedPlace) Check(types []string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || x.router.now.Load() == x.routes.plan {
		return nil
	}
	return x.renew(x.routes.node, types)
}

// Presents implements passthrough.Place. A client whose node leads where it is keeps its stream.
func (x *passedPlace) Presents(node *corev3.Node, types []string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if proto.Equal(x.routes.node, node) {
		return nil
	}
	return x.renew(node, types)
}

// renew opens the routes of a node by the plan in force. The error is a status that ends the client's stream. The caller
// holds mu.
func (x *passedPlace) renew(node *corev3.Node, types []string) error {
	to, err := x.router.open(node, x.routes.peer)
	if err != nil {
		return err
	}
	s, err := x.enter(to)
	_, refused := errors.AsType[*rules.RefusedError](err)
	switch {
	case refused:
		err = downstream.ScopeError(err)
	case err != nil || s == nil:
		err = passthrough.ErrCached // the cache serves the client, and its stream says why not
	case s != x.session:
		err = passthrough.ErrMoved
	case slices.ContainsFunc(types, func(typeURL string) bool { return x.routes.Access().Differs(to.Access(), typeURL) }):
		err = passthrough.ErrNarrowed
	}
	if err != nil {
		x.next = to.Access()
		to.Close()
		return err
	}
	x.routes.Close()
	x.routes, x.next, x.served = to, nil, map[string]bool{}
	return nil
}

// Close implements passthrough.Place.
func (x *passedPlace) Close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	x.routes.Close()
}
