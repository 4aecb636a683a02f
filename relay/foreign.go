package relay

import (
	"context"
	"log/slog"
	"reflect"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// maxLoggedName bounds a name in a line of the log, in bytes.
const maxLoggedName = 256

// speaks says for which authorities an upstream speaks (LOC-3): for its own ones, and for
// those that no upstream has. It is nil where no other upstream has any.
func (p *plan) speaks(upstream string) func(authority string) bool {
	others := false
	for name, claims := range p.claims {
		others = others || (name != upstream && len(claims) > 0)
	}
	if !others {
		return nil
	}
	authorities := p.authorities
	return func(authority string) bool {
		owner := authorities.Owner(authority)
		return owner == upstream || owner == ""
	}
}

// respeak has the stores know for which authorities their upstreams speak by another plan.
// The caller holds the hub's mu.
func (o *overhaul) respeak(h *hub) {
	for name, p := range o.planes {
		p.source.Speaks = o.plan.speaks(name)
	}
	before := o.router.now.Load()
	if before == nil || reflect.DeepEqual(before.claims, o.plan.claims) {
		return
	}
	for _, s := range h.sessions {
		if p := s.key.of; p != nil && o.planes[p.name] == p {
			s.store.Session().SetSpeaks(p.source.Speaks)
		}
	}
}

// maxForeign bounds of how many upstreams and authorities it is noted that there was a warning.
const maxForeign = 64

func newForeigners(o cache.Observer, log *slog.Logger) *foreigners {
	return &foreigners{Observer: o, log: log, seen: logs.Once[foreigner]{Most: maxForeign}}
}

// foreigners logs that a control plane sends resources of another one's authorities, which
// nothing but a human can put right.
type foreigners struct {
	cache.Observer

	log  *slog.Logger
	seen logs.Once[foreigner]
}

type foreigner struct{ upstream, authority string }

// Foreign implements cache.Observer.
func (f *foreigners) Foreign(upstream, typeURL, name string, n int) {
	f.Observer.Foreign(upstream, typeURL, name, n)
	level := slog.LevelDebug
	if f.first(upstream, name) {
		level = slog.LevelWarn
	}
	f.log.Log(context.Background(), level, "an upstream sends resources of another upstream's authority for a whole type: the relay ignores them",
		"upstream", upstream, "type", typeURL, "resources", n, "name", logs.Head(name, maxLoggedName))
}

// first reports whether an upstream did not send anything of the authority of a name before.
func (f *foreigners) first(upstream, name string) bool {
	key, err := keyer.Key(name)
	if err != nil {
		return false // such a name is left out for another reason
	}
	return f.seen.First(foreigner{upstream, logs.Head(keyer.AuthorityOf(key), maxLoggedName)})
}
