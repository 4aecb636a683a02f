package relay

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/relay/admin"
	"github.com/xdsrelay/xdsrelay/relay/resolve"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// resolvedKey is the session of the names that the relay resolves by itself. What the
// admin port calls its upstream is none, whatever an upstream may be called.
func resolvedKey() sessionKey {
	return sessionKey{plane: admin.Resolved, scope: xdstpScope, resolved: true}
}

// newResolved builds what fills the store of these names, out of those of the upstreams.
func newResolved(r *router, cfg config.Resolve, fullState map[string]bool, obs resolve.Observer, panics *logs.Panics, log *slog.Logger) *plane {
	return &plane{
		name:     resolvedKey().plane,
		upstream: &resolving{resolve.Config{Settings: settingsOf(cfg), Sources: sources{r}, Observer: obs, Panics: panics, Log: log}},
		source:   cache.Source{FullState: fullState, Resolved: true, References: true},
	}
}

func settingsOf(cfg config.Resolve) resolve.Settings {
	return resolve.Settings{AlternativeAfter: cfg.AlternativeAfter.Std()}
}

// resolving is where resolvers come from.
type resolving struct {
	config resolve.Config // its Settings are guarded by hub.mu
}

// open implements origin.
func (o *resolving) open(cfg upstream.SessionConfig) (feed, error) {
	c := o.config
	c.Store = cfg.Store.(cache.Session)
	return &resolver{resolve.New(c), time.Now()}, nil
}

// Reach implements origin: the relay itself is always there.
func (*resolving) Reach(context.Context) error { return nil }

// Causes implements origin.
func (*resolving) Causes() []upstream.Cause { return nil }

// Close implements origin: a resolver ends with its context.
func (*resolving) Close() {}

// resolver is a feed that asks nobody but the stores of other feeds.
type resolver struct {
	*resolve.Resolver

	since time.Time
}

// Status implements feed. What a resolver depends on are the upstreams, which have a
// status each.
func (r *resolver) Status() upstream.Status {
	return upstream.Status{Upstream: resolvedKey().plane, State: upstream.StateConnected, Since: r.since}
}

// sources are the upstreams' sessions, as the resolver sees them.
type sources struct{ router *router }

// Upstream implements resolve.Sources.
func (s sources) Upstream(authority string) (resolve.Upstream, bool) {
	now := s.router.now.Load()
	name := now.authorities.Owner(authority)
	return resolve.Upstream{Name: name, Of: now.planes[name]}, name != ""
}

// Open implements resolve.Sources.
func (s sources) Open(from resolve.Upstream, changed func()) (resolve.Source, error) {
	hub := s.router.hub
	of, _ := from.Of.(*plane)
	own, err := hub.acquire(claim{}, sessionKey{plane: from.Name, of: of, scope: xdstpScope}, asItself, nil)
	if err != nil {
		return nil, err
	}
	own.turned.Store(&changed)
	return &sourceOf{hub: hub, session: own, changed: &changed}, nil
}

// sourceOf is a session that the resolver uses.
type sourceOf struct {
	hub     *hub
	session *session
	changed *func()
}

// Store implements resolve.Source.
func (s *sourceOf) Store() *cache.Store { return s.session.store }

// Away implements resolve.Source.
func (s *sourceOf) Away() (since time.Time, open bool) {
	if st := s.session.client.Status(); st.State == upstream.StateConnecting {
		return st.Since, st.Streams > 0
	}
	return time.Time{}, false
}

// Tell implements resolve.Source.
func (s *sourceOf) Tell(w ack.Outcome) { s.session.client.Tell(w) }

// Close implements resolve.Source.
func (s *sourceOf) Close() {
	s.session.turned.CompareAndSwap(s.changed, nil) // a resolver that began since has its own
	s.hub.release(s.session)
}

// turned is who is told when the state of a session changes, or one of its streams ends;
// nil: nobody.
type turned = atomic.Pointer[func()]

// observeTurns has obs, and who is told, hear of changes.
func observeTurns(obs upstream.Observer, who *turned) upstream.Observer {
	if obs == nil {
		obs = upstream.NopObserver{}
	}
	return turnObserver{obs, who}
}

type turnObserver struct {
	upstream.Observer

	who *turned
}

// StateChanged implements upstream.Observer.
func (o turnObserver) StateChanged(state upstream.State) {
	o.Observer.StateChanged(state)
	o.tell()
}

// StreamClosed implements upstream.Observer.
func (o turnObserver) StreamClosed(stream string, reason upstream.Reason) {
	o.Observer.StreamClosed(stream, reason)
	o.tell()
}

func (o turnObserver) tell() {
	if changed := o.who.Load(); changed != nil {
		(*changed)()
	}
}
