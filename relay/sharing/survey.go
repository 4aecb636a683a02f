package sharing

import (
	"cmp"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

const (
	// maxCases is how many reasons are told apart: one may quote what a node holds.
	maxCases = 1000
	// maxText bounds a reason and a node's ID, in bytes.
	maxText = 512
	// otherReasons stands for the reasons beyond maxCases.
	otherReasons = "other reasons"
)

// Key tells scopes apart, as the relay tells its sessions apart.
type Key struct{ Upstream, Scope, Basis string }

// KeyOf gives the key of the scope in which a client was placed.
func KeyOf(p *Placement) Key {
	return Key{Upstream: p.Upstream, Scope: p.Decision.Scope, Basis: p.Decision.Basis}
}

// Options say how a fleet is surveyed.
type Options struct {
	// Rules are the names of the rules in order, without "otherwise". Rules that decide
	// for nobody are listed, too.
	Rules []string
	// Policy is what becomes of clients that no rule matches.
	Policy rules.Policy
	// Unmentioned is [rules.Set.Unmentioned]; nil: nodes are not compared.
	Unmentioned func(rule string, a, b *corev3.Node) []string
}

// Survey counts clients by scope. It keeps one node of each scope that is shared, and
// none of the others.
type Survey struct {
	options  Options
	clients  int
	served   int
	scopes   map[Key]*scope
	types    map[string]*TypeTotals // by type URL
	order    []string               // of types, as they came
	rules    map[string]*RuleTotals
	failures cases
	refusals cases
}

// scope is a Scope in the making.
type scope struct {
	Scope

	fields Fields
	node   *corev3.Node // the first client's, as the control plane sees it; nil if nobody compares
}

// NewSurvey begins a survey.
func NewSurvey(options Options) *Survey {
	s := &Survey{
		options: options, scopes: make(map[Key]*scope), types: make(map[string]*TypeTotals),
		rules: make(map[string]*RuleTotals), failures: make(cases), refusals: make(cases),
	}
	for _, name := range append(slices.Clone(options.Rules), rules.Otherwise) {
		s.rules[name] = &RuleTotals{Rule: name}
	}
	return s
}

// Add counts a client with the ID of its node, and all placements that it has. One
// without any counts as a client that is served nothing.
func (s *Survey) Add(node string, placements ...Placement) {
	s.clients++
	c := client{survey: s, node: clip(node, maxText)}
	for i := range placements {
		c.place(&placements[i])
	}
	if len(c.scopes) > 0 {
		s.served++
	}
}

// Know adds a scope that need not have clients, or completes one that has: what is known
// of it beside them.
func (s *Survey) Know(key Key, known Scope) {
	at := s.scopes[key]
	if at == nil {
		at = &scope{Scope: Scope{Types: make(map[string]int)}}
		s.scopes[key] = at
	}
	known.Clients, known.Types, known.Failed = at.Clients, at.Types, cmp.Or(at.Failed, known.Failed)
	at.fields = Fields{known.Unmentioned, known.More}
	at.Scope = known
}

// Has reports whether the scope has a client, or is known.
func (s *Survey) Has(key Key) bool { return s.scopes[key] != nil }

// client is one that is being counted: it counts once for each scope, rule and reason,
// however many types lead there.
type client struct {
	survey   *Survey
	node     string
	scopes   []*scope
	decided  []string // rules
	failed   []string
	refused  []string
	failures []reason
	refusals []reason
}

func once[T comparable](seen *[]T, v T) bool {
	if slices.Contains(*seen, v) {
		return false
	}
	*seen = append(*seen, v)
	return true
}

func (c *client) place(p *Placement) {
	t := c.survey.typeTotals(p.TypeURL)
	t.Clients++
	if p.ByName {
		t.ByName++
	}
	switch {
	case p.Refused != nil:
		t.Refused++
		c.refuse(p)
	case p.Served():
		c.serve(p, t)
	}
}

func (c *client) refuse(p *Placement) {
	rule, why := p.Refusal()
	of := c.survey.ruleTotals(rule)
	if once(&c.decided, rule) {
		of.Clients++
	}
	if once(&c.refused, rule) {
		of.Refused++
	}
	if because := (reason{rule, clip(why, maxText)}); once(&c.refusals, because) {
		c.survey.refusals.add(because, c.node)
	}
}

func (c *client) serve(p *Placement, t *TypeTotals) {
	d := &p.Decision
	of := c.survey.ruleTotals(d.Rule)
	if once(&c.decided, d.Rule) {
		of.Clients++
	}
	if d.Failed != nil {
		t.Failed++
		if once(&c.failed, d.Rule) {
			of.Failed++
		}
		if because := (reason{d.Rule, clip(Reason(d.Failed), maxText)}); once(&c.failures, because) {
			c.survey.failures.add(because, c.node)
		}
	}
	at := c.survey.scope(p, c.node)
	if d.Failed != nil && at.Failed == "" { // maybe for one of its types only
		at.Failed = clip(Reason(d.Failed), maxText)
	}
	if once(&c.scopes, at) {
		at.Clients++
		c.survey.compare(at, d)
	}
	at.Types[t.Type]++
}

// scope finds or makes the scope of a placement.
func (s *Survey) scope(p *Placement, node string) *scope {
	key, d := KeyOf(p), &p.Decision
	at := s.scopes[key]
	if at != nil {
		return at
	}
	at = &scope{Scope: Scope{
		Upstream: key.Upstream, Scope: key.Scope, Rule: d.Rule, Parts: d.Parts,
		Isolated: Isolated(d, s.options.Policy), Types: make(map[string]int), First: node,
	}}
	// The clients of an isolated scope have equal nodes.
	if !at.Isolated && s.options.Unmentioned != nil {
		at.node = d.Client
	}
	s.scopes[key] = at
	return at
}

// Isolated reports whether a decision gives the client a scope that only equal clients
// share (AGG-2).
func Isolated(d *rules.Decision, policy rules.Policy) bool {
	return d.Failed != nil || d.Rule == rules.Otherwise && policy != rules.Share
}

// compare notes what the first client's node and that of another one differ in. What
// counts is what the control plane would see of them: a field that a rule replaces cannot
// tell them apart.
func (s *Survey) compare(at *scope, d *rules.Decision) {
	if at.node == nil || at.node == d.Client || at.fields.Full() {
		return
	}
	at.fields.Add(s.options.Unmentioned(d.Rule, at.node, d.Client))
}

func (s *Survey) typeTotals(typeURL string) *TypeTotals {
	t := s.types[typeURL]
	if t == nil {
		t = &TypeTotals{Type: keyer.ShortName(typeURL)}
		s.types[typeURL] = t
		s.order = append(s.order, typeURL)
	}
	return t
}

func (s *Survey) ruleTotals(rule string) *RuleTotals {
	t := s.rules[rule]
	if t == nil {
		t = &RuleTotals{Rule: rule}
		s.rules[rule] = t
	}
	return t
}

// reason is why a rule fails or refuses.
type reason struct{ rule, why string }

// cases counts clients by reason.
type cases map[reason]*Case

func (c cases) add(r reason, node string) {
	at := c[r]
	if at == nil && len(c) >= maxCases {
		r.why = otherReasons
		at = c[r]
	}
	if at == nil {
		at = &Case{Rule: r.rule, Reason: r.why, Example: node}
		c[r] = at
	}
	at.Clients++
}
