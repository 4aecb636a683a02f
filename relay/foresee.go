package relay

import (
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/admin"
	"github.com/xdsrelay/xdsrelay/relay/passthrough"
)

// Foresee says what Reload would do, or ReloadAnyway. It changes nothing. The error names what of the configuration cannot be
// used.
func (r *Relay) Foresee(cfg *config.Config, anyway bool) (*admin.Foreseen, error) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	if r.ended || r.draining.Load() {
		return nil, ErrEnding
	}
	next, changed, waiting := config.Live(r.now.Load().config, cfg)
	secure, o, err := r.prepared(next)
	if err != nil {
		return nil, err
	}
	defer secure.discard()
	defer o.discard()
	v := &admin.Foreseen{Changed: linesOf(changed), Waiting: linesOf(waiting)}
	refused, moved := r.router.refused(o.plan), make(map[string]string)
	v.Clients = len(refused)
	if !anyway && mayRefuse(changed) {
		if err := refuses(refused); err != nil {
			v.Error = err.Error()
		}
	}
	if len(changed) > 0 {
		v.Unknown = r.foresee(o.plan, refused, moved)
	}
	for who, text := range refused {
		if text != "" {
			delete(moved, who)
		}
	}
	v.Moved.Clients, v.Moved.Some = someOf(moved)
	v.Refused.Clients, v.Refused.Some = someOf(refused)
	return v, nil
}

// foresee adds the clients that another plan would refuse, and those whose streams it would end.
func (r *Relay) foresee(next *plan, refused, moved map[string]string) (unknown int) {
	sessions := make(map[sessionKey]*session)
	for _, s := range r.hub.list() {
		sessions[s.key] = s
	}
	by := func(now *routes) (*foreseen, error) {
		if err := next.verify(now.node, now.peer); err != nil {
			return nil, err
		}
		return &foreseen{r.router.by(next, now.node, now.peer), sessions}, nil
	}
	tell := func(now *routes, reason downstream.MoveEnd) {
		who := now.account()
		switch {
		case reason == downstream.EndRefused || reason == downstream.EndUnverified:
			if refused[who] == "" {
				refused[who] = now.shown(string(reason))
			}
		case reason != "" && moved[who] == "":
			moved[who] = now.shown(string(reason))
		}
	}
	r.passage.Places(func(place passthrough.Place, types []string) {
		x := place.(*passedPlace)
		x.mu.Lock()
		defer x.mu.Unlock()
		tell(x.routes, x.foresee(by, types))
	})
	return r.server.Foresee(func(now downstream.Routes) (downstream.Routes, error) {
		own, ok := now.(*routes)
		if !ok {
			return nil, nil // the client may have less by a plan that is in force already, and leaves
		}
		f, err := by(own)
		if err != nil {
			return nil, err
		}
		return f, nil
	}, func(now downstream.Routes, reason downstream.MoveEnd) { tell(now.(*routes), reason) })
}

// foresee says why the stream would end by the routes that by gives; "": it would not. The caller holds mu.
func (x *passedPlace) foresee(by func(*routes) (*foreseen, error), types []string) downstream.MoveEnd {
	next, err := by(x.routes)
	if err != nil {
		return downstream.EndUnverified
	}
	at, err := next.passes(x.typeURL, x.service)
	if at == nil || err != nil {
		return downstream.EndMoved
	}
	if store, err := next.Scoped(x.typeURL, cache.Wildcard); err != nil || store != x.session.store {
		return downstream.EndMoved
	}
	for _, typeURL := range types {
		if x.routes.Access().Differs(next.Access(), typeURL) {
			return downstream.EndNarrowed
		}
	}
	return ""
}

// foreseen are routes by a plan that is not in force. They begin no session, and nothing counts, logs or audits what they are
// asked.
type foreseen struct {
	*routes

	sessions map[sessionKey]*session // those that there are
}

// unbegun stands for the store of a session that is not there.
var unbegun = new(cache.Store)

// Scoped implements downstream.Routes.
func (f *foreseen) Scoped(typeURL, name string) (*cache.Store, error) {
	d, err := f.weigh(typeURL, name)
	if err != nil {
		return nil, err
	}
	plane, err := f.planeOf(&d)
	if err != nil {
		return nil, err
	}
	return f.store(sessionKey{plane: plane, of: f.plan.planes[plane], scope: d.Scope, basis: d.Basis})
}

// Named implements downstream.Routes.
func (f *foreseen) Named(name keyer.Name) (store *cache.Store, key string, err error) {
	at, key, err := f.plan.home(name)
	if err != nil {
		return nil, "", downstream.ErrNoUpstream
	}
	store, err = f.store(at)
	return store, key, err
}

func (f *foreseen) store(key sessionKey) (*cache.Store, error) {
	if !key.resolved {
		meta, err := f.forwards(key.plane)
		if err != nil {
			return nil, err
		}
		key.forwarded = meta.key
	}
	if s := f.sessions[key]; s != nil {
		return s.store, nil
	}
	return unbegun, nil
}

// Access implements downstream.Routes.
func (f *foreseen) Access() downstream.Access { return downstream.Unwatched(f.routes.Access()) }
