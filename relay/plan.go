package relay

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// plan is what one configuration says of where names live. It is not changed: a new
// configuration brings another one.
type plan struct {
	rules       *rules.Set
	planes      map[string]*plane   // upstreams by name
	authorities keyer.Authorities   // upstreams by authority (LOC-3)
	forward     map[string][]string // names of clients' metadata that go there, by upstream (ACC-6)
	node        *corev3.Node        // the relay's own: what control planes are shown for xdstp names
	named       []string            // the rules' names, in order
	access      *config.AccessSets  // what clients may get (ACC-2), and which nodes they may present (ACC-5)
	verifies    []string            // the names of its rules about nodes, in order
	shadows     []string            // the names of rules that are not enforced, in order
	auditAll    bool                // names that are allowed are audited too
	distrust    distrust
	passed      passed // what is served 1:1
	listens     bool   // some upstream's answers wait for what clients make of a response (ACK-7)

	// What decides where names live, as it is configured: to be compared with another plan's.
	scoping []any               // rules, and what becomes of clients that no rule matches
	claims  map[string][]string // authorities by upstream
}

// newPlan reads a valid configuration. The planes are to be added by who has them. The error is that of an authority that two
// upstreams claim, or of a rule.
func newPlan(cfg *config.Config) (*plan, error) {
	set, err := cfg.Rules()
	if err != nil {
		return nil, err
	}
	access, err := cfg.AccessSets()
	if err != nil {
		return nil, err
	}
	p := &plan{
		access: access,
		rules:  set, verifies: cfg.VerifyNames(), shadows: cfg.ShadowNames(), auditAll: cfg.Audit.Level == config.AuditAll, forward: make(map[string][]string), node: ownNode(cfg), named: cfg.RuleNames(),
		scoping: []any{cfg.Aggregation.Rules, cfg.Aggregation.Otherwise}, claims: make(map[string][]string),
	}
	p.passed = passedBy(cfg)
	for _, u := range cfg.Upstreams {
		p.listens = p.listens || u.NackWait != 0 && u.Path == "" && u.APIType != config.REST
		if len(u.Forward) > 0 {
			p.forward[u.Name] = slices.Sorted(slices.Values(u.Forward))
			p.scoping = append(p.scoping, u.Name, p.forward[u.Name])
		}
		if u.Default {
			p.authorities.Default = u.Name
			p.claims[u.Name] = append(p.claims[u.Name], "default")
		}
		p.claims[u.Name] = append(p.claims[u.Name], u.Authorities...)
		for _, a := range u.Authorities {
			if err := p.authorities.Claim(a, u.Name); err != nil {
				return nil, fmt.Errorf("upstream %q: %w", u.Name, err)
			}
		}
	}
	return p, nil
}

// reconnectTime is how long after a reload clients may come back, beside the time over
// which their streams end, with versions of the servers that they were led to before.
const reconnectTime = 5 * time.Minute

// distrust says until when versions that clients present are not to be believed, since a
// reload changed who serves the names that they are of: another server may use the same
// versions for other contents (ACK-4).
type distrust struct {
	scoped time.Time            // of names without xdstp
	planes map[string]time.Time // of xdstp names, by upstream
}

// distrusts reports whether versions of what lives in a session are not to be believed.
func (p *plan) distrusts(key sessionKey, now time.Time) bool {
	if key.scope != xdstpScope {
		return now.Before(p.distrust.scoped)
	}
	return !key.resolved && now.Before(p.distrust.planes[key.plane])
}

// succeed notes what of the plan before leads clients elsewhere now. The streams of these
// clients end within the drain time; then they come back.
func (p *plan) succeed(before *plan, now time.Time, drain time.Duration) {
	until := now.Add(drain + reconnectTime)
	p.distrust.scoped = before.distrust.scoped
	if !reflect.DeepEqual(p.scoping, before.scoping) || p.authorities.Default != before.authorities.Default {
		p.distrust.scoped = until
	}
	for name, plane := range before.planes {
		if p.planes[name] != plane {
			p.distrust.scoped = until
		}
	}
	p.distrust.planes = make(map[string]time.Time)
	for name, plane := range p.planes {
		p.distrust.planes[name] = before.distrust.planes[name]
		if before.planes[name] != plane || !slices.Equal(p.claims[name], before.claims[name]) ||
			!slices.Equal(p.forward[name], before.forward[name]) {
			p.distrust.planes[name] = until
		}
	}
}

// resolves reports whether the relay resolves a name by itself: what has directives, of
// which servers know nothing (NAME-8).
func resolves(name keyer.Name) bool {
	return name.Alt() != "" || name.Entry() != ""
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
	case resolves(name):
		return resolvedKey(), name.Resolved(), nil
	}
	return p.key(p.authorities.Owner(name.Authority)), name.Canonical(), nil
}

// key names the session of an upstream's xdstp names.
func (p *plan) key(upstream string) sessionKey {
	return sessionKey{plane: upstream, of: p.planes[upstream], scope: xdstpScope}
}
