package explain

import (
	"encoding/json"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"github.com/xdsrelay/xdsrelay/relay"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
)

// Outcome is what becomes of a client's names of a type.
type Outcome string

// The outcomes.
const (
	Shared   Outcome = "shared"   // with all clients of the scope
	Isolated Outcome = "isolated" // by "otherwise"; only clients with an equal node and identity share
	Failed   Outcome = "failed"   // a rule could not be evaluated, and the client is isolated
	Refused  Outcome = "refused"  // nothing is served
	ByName   Outcome = "by name"  // it depends on the name, and none was given
	XDSTP    Outcome = "xdstp"    // the rules play no part: all clients share
)

// Client is what becomes of one client. As JSON it is stable: fields are added to it and
// not changed.
type Client struct {
	Node string `json:"node"` // its ID
	// Listener is the client's listener, if that has access rules of its own. Otherwise Verify, and the
	// Access of Types, are those of access.
	Listener string `json:"listener,omitempty"`
	// Verify are the rules of verify in order, each with what it said; UnverifiedBy is the
	// first of those that do not let the client present its node. Then the relay refuses the
	// client, whatever Types has.
	Verify       []rules.RuleResult `json:"verify,omitempty"`
	UnverifiedBy string             `json:"unverified_by,omitempty"`
	Types        []Type             `json:"types"`
}

// Type is what becomes of its names of one type, or of one name.
type Type struct {
	Type    string  `json:"type"` // short name, or the type URL where there is none
	TypeURL string  `json:"type_url"`
	Name    string  `json:"name,omitempty"` // empty: the type as a whole
	Outcome Outcome `json:"outcome"`
	ByName  bool    `json:"by_name"`                        // the type is decided name by name
	PerName int     `json:"evaluations_per_name,omitempty"` // what that costs: so many expressions, at most, for each subscription
	// Rules are all rules in order, each with what it said; none for an xdstp name.
	Rules    []rules.RuleResult `json:"rules"`
	Rule     string             `json:"rule,omitempty"`     // that decided, or "otherwise"
	Policy   string             `json:"policy,omitempty"`   // of "otherwise", if that decided
	Scope    string             `json:"scope,omitempty"`    // none for an xdstp name, nor where nothing is served
	Parts    []any              `json:"parts,omitempty"`    // of the scope
	Upstream string             `json:"upstream,omitempty"` // who is asked
	Default  bool               `json:"default_upstream"`   // which is so because it is the default one
	Resolved bool               `json:"resolved,omitempty"` // the relay resolves the xdstp name by itself, starting there
	Reason   string             `json:"reason,omitempty"`   // why it failed or is refused
	Access   *Access            `json:"access,omitempty"`   // by access.rules; none without rules, unless the type is denied
	// UpstreamNode is what the control plane is shown: an envoy.config.core.v3.Node. In its
	// id "*" stands for the replica. First says that it is so if the client is the first of
	// its scope.
	UpstreamNode json.RawMessage `json:"upstream_node,omitempty"`
	First        bool            `json:"first_client,omitempty"`
}

// Served reports whether the client is served everything as the rules mean it: nothing is
// refused, no rule failed, and the name is not denied.
func (c *Client) Served() bool {
	if c.UnverifiedBy != "" {
		return false
	}
	for _, t := range c.Types {
		denied := t.Name != "" && t.Access != nil && !t.Access.Allowed
		if t.Outcome == Failed || t.Outcome == Refused || denied {
			return false
		}
	}
	return true
}

// Explainer explains by one configuration.
type Explainer struct {
	config   *config.Config
	rules    *rules.Set
	access   *config.AccessSets
	upstream string // the default one
}

// New takes a valid configuration. The error is that of its rules.
func New(cfg *config.Config) (*Explainer, error) {
	set, err := cfg.Rules()
	if err != nil {
		return nil, err
	}
	access, err := cfg.AccessSets()
	if err != nil {
		return nil, err
	}
	e := &Explainer{config: cfg, rules: set, access: access}
	for _, u := range cfg.Upstreams {
		if u.Default {
			e.upstream = u.Name
		}
	}
	return e, nil
}

// Client explains what becomes of a client's names of types, given by URL; if name is not
// nil, of that name of each.
func (e *Explainer) Client(node *corev3.Node, peer keyer.Peer, typeURLs []string, name *string) *Client {
	c := e.client(node, peer)
	subject := e.rules.Subject(node, peer)
	for _, url := range typeURLs {
		t := e.typ(subject, url, name)
		t.Access = e.allowed(node, peer, url, name)
		c.Types = append(c.Types, t)
	}
	return c
}

// client explains whether a client may present its node (ACC-5).
func (e *Explainer) client(node *corev3.Node, peer keyer.Peer) *Client {
	set := e.access.Of(peer.Through())
	c := &Client{Node: node.GetId(), Types: []Type{}, Verify: set.Verifier.Explain(node, peer), Listener: set.Listener}
	for _, r := range c.Verify {
		if r.Result != rules.Matches {
			c.UnverifiedBy = r.Rule
			break
		}
	}
	return c
}

func (e *Explainer) typ(subject *rules.Subject, typeURL string, name *string) Type {
	why := subject.Explain(typeURL, name)
	if whole := subject.Explain(typeURL, nil); whole.ByName { // whether or not there is a name
		why.ByName, why.PerName = true, whole.PerName
	}
	p := sharing.Place(subject, typeURL, name, e.upstream)
	t := Type{
		Type: keyer.ShortName(typeURL), TypeURL: typeURL, ByName: why.ByName, PerName: why.PerName,
		Rules: append([]rules.RuleResult{}, why.Rules...),
		Rule:  p.Decision.Rule, Upstream: p.Upstream, Default: p.Decision.Upstream == "" && p.Upstream != "",
	}
	if name != nil {
		t.Name = *name
	}
	switch {
	case p.Refused != nil:
		t.Outcome = Refused
		t.Rule, t.Reason = p.Refusal()
	case p.ByName && name == nil:
		t.Outcome = ByName
	default:
		t.serve(&p.Decision, e.rules.Policy())
		t.UpstreamNode = asJSON(relay.UpstreamNode(e.config, &p.Decision))
	}
	if t.Rule == rules.Otherwise {
		t.Policy = e.rules.Policy().String()
	}
	return t
}

// serve fills in what a client is served by.
func (t *Type) serve(d *rules.Decision, policy rules.Policy) {
	t.Scope, t.Parts = d.Scope, d.Parts
	switch {
	case d.Failed != nil:
		t.Outcome, t.Reason = Failed, sharing.Reason(d.Failed)
	case sharing.Isolated(d, policy):
		t.Outcome = Isolated
	default:
		t.Outcome, t.First = Shared, d.Whole
	}
}

// Name explains an xdstp name.
func (e *Explainer) Name(node *corev3.Node, peer keyer.Peer, name keyer.Name, spelling string) *Client {
	url := "type.googleapis.com/" + name.Type
	t := Type{Type: keyer.ShortName(url), TypeURL: url, Name: spelling, Outcome: XDSTP, Rules: []rules.RuleResult{}}
	home, err := relay.HomeOf(e.config, name)
	if err != nil {
		t.Outcome, t.Reason = Refused, fmt.Sprintf("the name does not exist: %v", err)
	} else {
		t.Upstream, t.Resolved = home.Upstream, home.Resolved
		t.Default = !e.claims(name.Authority)
		t.UpstreamNode = asJSON(home.Node)
	}
	t.Access = e.allowed(node, peer, url, &spelling)
	c := e.client(node, peer)
	c.Types = append(c.Types, t)
	return c
}

// claims reports whether an upstream claims an authority by name or pattern.
func (e *Explainer) claims(authority string) bool {
	var claimed keyer.Authorities
	for _, u := range e.config.Upstreams {
		for _, a := range u.Authorities {
			_ = claimed.Claim(a, u.Name) // the configuration is valid
		}
	}
	return claimed.Owner(authority) != ""
}

// asJSON gives a node with the names of the fields as in YAML files.
func asJSON(node *corev3.Node) json.RawMessage {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(node)
	var tree any
	if err == nil {
		err = json.Unmarshal(text, &tree)
	}
	if err != nil { // what a file, or the relay, cannot have brought
		tree = err.Error()
	}
	// Again, since protojson varies its spaces on purpose.
	text, _ = json.Marshal(tree) //nolint:errchkjson // what Unmarshal gave
	return text
}
