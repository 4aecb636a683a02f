package relay

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// plan is what one configuration says of where names live. It is not changed: a new
// configuration brings another one.
type plan struct {
	rules       *rules.Set
	planes      map[string]*plane // upstreams by name
	authorities keyer.Authorities // upstreams by authority (LOC-3)
	follow      map[string]bool   // upstreams whose redirects are followed (LOC-1)
	node        *corev3.Node      // what control planes are shown for xdstp names
	named       []string          // the rules' names, in order
}

// newPlan reads a valid configuration. The planes are to be added by who has them. The error is that of an authority that two
// upstreams claim, or of a rule.
func newPlan(cfg *config.Config) (*plan, error) {
	set, err := cfg.Rules()
	if err != nil {
		return nil, err
	}
	p := &plan{rules: set, follow: make(map[string]bool), node: rules.UpstreamNode(cfg.NodeProto(), features()), named: cfg.RuleNames()}
	for _, u := range cfg.Upstreams {
		if u.Default {
			p.authorities.Default = u.Name
		}
		p.follow[u.Name] = u.Redirects == config.FollowRedirects
		for _, a := range u.Authorities {
			if err := p.authorities.Claim(a, u.Name); err != nil {
				return nil, fmt.Errorf("upstream %q: %w", u.Name, err)
			}
		}
	}
	return p, nil
}

// resolves reports whether the relay resolves a name by itself: what has directives, of
// which servers know nothing (NAME-8), and what may be a redirect that it follows.
func (p *plan) resolves(name keyer.Name) bool {
	return name.Alt() != "" || name.Entry() != "" || p.follow[p.authorities.Owner(name.Authority)]
}

// claimed reports whether there is an upstream for a name or one of its alternatives.
func (p *plan) claimed(name keyer.Name) bool {
	for n := range name.Alternatives() {
		if p.authorities.Owner(n.Authority) != "" {
			return true
		}
	}
	return false
}

var errNoUpstream = errors.New("no upstream has the authority")

// home says where a name lives: in which session, and under which key. Names that the
// relay resolves by itself live together.
func (p *plan) home(name keyer.Name) (at sessionKey, key string, err error) {
	switch {
	case !p.claimed(name):
		return sessionKey{}, "", fmt.Errorf("%w: %.256q", errNoUpstream, name.Authority)
	case p.resolves(name):
		return resolvedKey(), name.Resolved(), nil
	}
	return p.key(p.authorities.Owner(name.Authority)), name.Canonical(), nil
}

// key names the session of an upstream's xdstp names.
func (p *plan) key(upstream string) sessionKey {
	return sessionKey{plane: upstream, of: p.planes[upstream], scope: xdstpScope}
}
