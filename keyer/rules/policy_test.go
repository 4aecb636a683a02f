package rules_test

import (
	"errors"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

const clusterURL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

func ask(t rapid.TB, p rules.Policy, node *corev3.Node, peer keyer.Peer) (rules.Decision, error) {
	t.Helper()
	set, problems := rules.Compile(rules.Config{Otherwise: p})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	d, byName, err := set.Subject(node, peer).Decide(clusterURL)
	if byName {
		t.Error("a set without rules decides by name")
	}
	return d, err
}

func decide(t *testing.T, p rules.Policy, node *corev3.Node, peer keyer.Peer) rules.Decision {
	t.Helper()
	before := proto.Clone(node)
	d, err := ask(t, p, node, peer)
	if err != nil {
		t.Fatal(err)
	}
	if shared := p == rules.Share; d.Client != node || d.Whole == shared || (d.Node == node) == shared || !proto.Equal(before, node) {
		t.Errorf("AGG-3: the decision's node is %v, whole: %t, want the client's, unchanged, where it is isolated", d.Node, d.Whole)
	}
	if d.Scope == "" || d.Rule != "otherwise" {
		t.Errorf("AGG-1: scope %q by rule %q", d.Scope, d.Rule)
	}
	return d
}

func TestZeroAggregationIsolates(t *testing.T) {
	d := decide(t, rules.Config{}.Otherwise, &corev3.Node{Id: "a"}, keyer.Peer{})
	if !strings.HasPrefix(d.Scope, "isolated-") {
		t.Errorf("AGG-2: scope %q without a policy", d.Scope)
	}
	if d := decide(t, rules.Policy(17), &corev3.Node{Id: "a"}, keyer.Peer{}); !strings.HasPrefix(d.Scope, "isolated-") {
		t.Errorf("AGG-2: scope %q by an unknown policy", d.Scope)
	}
}

// AGG-2: clients meet in an isolated scope only if all that a server could tell
// them apart by is the same.
func TestIsolate(t *testing.T) {
	node := func(change func(*corev3.Node)) *corev3.Node {
		n := &corev3.Node{
			Id: "sidecar", Cluster: "web",
			Metadata:       &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewStringValue("1"), "b": structpb.NewBoolValue(true)}},
			Locality:       &corev3.Locality{Region: "r", Zone: "z"},
			ClientFeatures: []string{"envoy.lb.x"},
		}
		if change != nil {
			change(n)
		}
		return n
	}
	base := decide(t, rules.Isolate, node(nil), keyer.Peer{}).Scope
	if !strings.HasPrefix(base, "isolated-") || len(base) != len("isolated-")+32 {
		t.Errorf("scope %q, want isolated- and 32 hexadecimal digits", base)
	}
	same := []struct {
		name string
		node *corev3.Node
		peer keyer.Peer
	}{
		{"AGG-1 equal node", node(nil), keyer.Peer{}},
		{"AGG-1 another connection", node(nil), keyer.Peer{Addr: "192.0.2.1:1234"}},
	}
	for _, tc := range same {
		t.Run(tc.name, func(t *testing.T) {
			if got := decide(t, rules.Isolate, tc.node, tc.peer).Scope; got != base {
				t.Errorf("scope %q, want %q", got, base)
			}
		})
	}

	seen := map[string]string{base: "the base"}
	for _, tc := range []struct {
		name string
		node *corev3.Node
		peer keyer.Peer
	}{
		{"AGG-2 no node", nil, keyer.Peer{}},
		{"AGG-2 other id", node(func(n *corev3.Node) { n.Id = "other" }), keyer.Peer{}},
		{"AGG-2 id and cluster joined", node(func(n *corev3.Node) { n.Id, n.Cluster = "sidecarweb", "" }), keyer.Peer{}},
		{"AGG-2 other metadata", node(func(n *corev3.Node) { n.Metadata.Fields["b"] = structpb.NewBoolValue(false) }), keyer.Peer{}},
		{"AGG-2 other feature", node(func(n *corev3.Node) { n.ClientFeatures[0] = "envoy.lb.y" }), keyer.Peer{}},
		{"AGG-2 other locality", node(func(n *corev3.Node) { n.Locality.SubZone = "s" }), keyer.Peer{}},
		{"AGG-2 unknown field", node(func(n *corev3.Node) { n.ProtoReflect().SetUnknown([]byte{0xfa, 0x3f, 0x01, 'x'}) }), keyer.Peer{}},
		{"AGG-2 other unknown field", node(func(n *corev3.Node) { n.ProtoReflect().SetUnknown([]byte{0xfa, 0x3f, 0x01, 'y'}) }), keyer.Peer{}},
		{"AGG-2 SPIFFE ID", node(nil), keyer.Peer{SPIFFE: "ab"}},
		{"AGG-2 subject", node(nil), keyer.Peer{Subject: "ab"}},
		{"AGG-2 SPIFFE ID and subject", node(nil), keyer.Peer{SPIFFE: "a", Subject: "b"}},
		{"AGG-2 DNS name", node(nil), keyer.Peer{DNS: []string{"ab"}}},
		{"AGG-2 two DNS names", node(nil), keyer.Peer{DNS: []string{"a", "b"}}},
		{"AGG-2 DNS name and URI", node(nil), keyer.Peer{DNS: []string{"a"}, URIs: []string{"b"}}},
		{"AGG-2 URI", node(nil), keyer.Peer{URIs: []string{"ab"}}},
		{"AGG-2 email", node(nil), keyer.Peer{Emails: []string{"ab"}}},
		{"AGG-2 IP", node(nil), keyer.Peer{IPs: []string{"ab"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scope := decide(t, rules.Isolate, tc.node, tc.peer).Scope
			if other, ok := seen[scope]; ok {
				t.Errorf("shares scope %q with %s", scope, other)
			}
			seen[scope] = tc.name
		})
	}

	ab := decide(t, rules.Isolate, node(nil), keyer.Peer{DNS: []string{"a", "b"}}).Scope
	if ba := decide(t, rules.Isolate, node(nil), keyer.Peer{DNS: []string{"b", "a"}}).Scope; ba != ab {
		t.Errorf("AGG-1: the order of names in a certificate changes the scope")
	}
}

// AGG-2: a node that cannot be hashed is not put anywhere.
func TestIsolateRefusesWhatItCannotHash(t *testing.T) {
	_, err := ask(t, rules.Isolate, &corev3.Node{Id: "\xff"}, keyer.Peer{})
	refused, ok := errors.AsType[*rules.RefusedError](err)
	if !ok || refused.Cause == nil || !errors.Is(err, refused.Cause) || !strings.Contains(err.Error(), "encoding the node") {
		t.Errorf("AGG-2: error %v, want a refusal with its cause", err)
	}
}

// AGG-1, AGG-2: scopes are equal exactly if nodes and identities are.
func TestPropertyIsolate(t *testing.T) {
	// Few letters, so that equal clients and equal concatenations are common.
	word := rapid.StringMatching(`[ab]{0,2}`)
	words := rapid.SliceOfN(word, 0, 2)
	rapid.Check(t, func(t *rapid.T) {
		type client struct {
			ID, Cluster string
			Features    []string
			SPIFFE      string
			DNS         []string
		}
		draw := func(label string) (client, string) {
			c := client{
				ID: word.Draw(t, label+" id"), Cluster: word.Draw(t, label+" cluster"), Features: words.Draw(t, label+" features"),
				SPIFFE: word.Draw(t, label+" spiffe"), DNS: rapid.SliceOfNDistinct(word, 0, 1, rapid.ID[string]).Draw(t, label+" dns"),
			}
			d, err := ask(t, rules.Isolate, &corev3.Node{Id: c.ID, Cluster: c.Cluster, ClientFeatures: c.Features},
				keyer.Peer{SPIFFE: c.SPIFFE, DNS: c.DNS})
			if err != nil {
				t.Fatal(err)
			}
			return c, d.Scope
		}
		one, oneScope := draw("one")
		two, twoScope := draw("two")
		if equal := cmp.Equal(one, two); equal != (oneScope == twoScope) {
			t.Fatalf("AGG-2: %+v has scope %q, %+v has %q", one, oneScope, two, twoScope)
		}
	})
}

func TestShare(t *testing.T) {
	scope := func(id string, features ...string) string {
		return decide(t, rules.Share, &corev3.Node{Id: id, ClientFeatures: features}, keyer.Peer{SPIFFE: "spiffe://td/" + id}).Scope
	}
	if got := decide(t, rules.Share, nil, keyer.Peer{}).Scope; got != "shared" {
		t.Errorf("AGG-1: scope %q without a node", got)
	}
	for _, tc := range []struct{ name, got, want string }{
		{"AGG-1 no features", scope("a"), "shared"},
		{"AGG-3 features of the protocol", scope("a", "xds.config.resource-in-sotw", "xds.config.supports-resource-ttl"), "shared"},
		{"LRS-1 the stream of load reports", scope("a", "envoy.lb.x", "envoy.lrs.supports_send_all_clusters"), scope("a", "envoy.lb.x")},
		{"AGG-3 order of features", scope("a", "envoy.lb.x", "envoy.lb.y"), scope("b", "envoy.lb.y", "envoy.lb.x")},
		{"AGG-3 feature twice", scope("a", "envoy.lb.x", "envoy.lb.x"), scope("b", "envoy.lb.x")},
		{"AGG-3 features of the protocol beside it", scope("a", "xds.config.supports-resource-in-sotw", "envoy.lb.x"), scope("b", "envoy.lb.x")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("scope %q, want %q", tc.got, tc.want)
			}
		})
	}
	scopes := []string{"shared", scope("a", "envoy.lb.x"), scope("a", "envoy.lb.y"), scope("a", "envoy.lb.x", "envoy.lb.y"), scope("a", "xds.endpoint.x"), scope("a", "unheard.of")}
	seen := map[string]bool{}
	for _, s := range scopes {
		if !strings.HasPrefix(s, "shared") || seen[s] {
			t.Errorf("AGG-3: scopes %q, want them to differ by features", scopes)
		}
		seen[s] = true
	}
}

func TestRefuse(t *testing.T) {
	d, err := ask(t, rules.Refuse, &corev3.Node{Id: "sidecar"}, keyer.Peer{})
	refused, ok := errors.AsType[*rules.RefusedError](err)
	if !ok {
		t.Fatalf("AGG-2: Decide = %+v, %v, want a *RefusedError", d, err)
	}
	if want := (rules.RefusedError{Node: "sidecar", TypeURL: clusterURL, Rule: "otherwise"}); *refused != want {
		t.Errorf("AGG-2: %+v, want %+v", *refused, want)
	}
	const text = `aggregation rule "otherwise" refuses resources of type "type.googleapis.com/envoy.config.cluster.v3.Cluster" for node "sidecar"`
	if err.Error() != text {
		t.Errorf("AGG-2: error %q, want %q", err, text)
	}
	if d.Scope != "" || d.Rule != "" || d.Node != nil {
		t.Errorf("AGG-2: a refusal with the decision %+v", d)
	}
}

func TestPolicy(t *testing.T) {
	for _, p := range []rules.Policy{rules.Isolate, rules.Share, rules.Refuse} {
		if got, err := rules.ParsePolicy(p.String()); err != nil || got != p {
			t.Errorf("AGG-2: ParsePolicy(%q) = %v, %v", p.String(), got, err)
		}
	}
	for _, s := range []string{"", "Share", "shared", rules.Policy(17).String()} {
		if got, err := rules.ParsePolicy(s); err == nil || got != rules.Isolate || !strings.Contains(err.Error(), "expected share, isolate or refuse") {
			t.Errorf("AGG-4: ParsePolicy(%q) = %v, %v, want an error", s, got, err)
		}
	}
}

// AGG-3: a whole node goes up as it is, but for the features that are the protocol's.
func TestUpstreamNode(t *testing.T) {
	own := &corev3.Node{
		Id: "relay", Cluster: "relays", UserAgentName: "xdsrelay", Locality: &corev3.Locality{Region: "r", Zone: "z"},
		ClientFeatures: []string{"xds.config.supports-resource-ttl", "envoy.lb.x"},
	}
	const id = "relay~1"
	features := []string{"envoy.lb.x", "xds.config.supports-resource-ttl"}
	ours := func(features ...string) *corev3.Node {
		n := proto.CloneOf(own)
		n.Id, n.ClientFeatures = id, features
		return n
	}
	passed := []string{"envoy.lb.x", "envoy.lb.y", "unheard.of", "xds.config.supports-resource-ttl", "xds.endpoint.z"}
	for _, tc := range []struct {
		name   string
		policy rules.Policy
		node   *corev3.Node
		want   *corev3.Node
	}{
		{"AGG-3 shared: the relay's own", rules.Share, &corev3.Node{Id: "a", Cluster: "web"}, ours(features...)},
		{"AGG-3 no node", rules.Share, nil, ours(features...)},
		{"AGG-3 isolated: as it is", rules.Isolate, &corev3.Node{Id: "a", Cluster: "web"}, &corev3.Node{Id: "a", Cluster: "web", ClientFeatures: features}},
		{
			"AGG-3 features of the client", rules.Share,
			&corev3.Node{Id: "a", ClientFeatures: []string{
				"xds.endpoint.z", "envoy.lb.y", "xds.config.resource-in-sotw", "unheard.of", "xds.config.supports-resource-in-sotw",
				"xds.config.supports-resource-ttl", "envoy.lrs.supports_send_all_clusters", "envoy.lb.x",
			}}, ours(passed...),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, was := proto.Clone(tc.node), proto.Clone(own)
			d := decide(t, tc.policy, tc.node, keyer.Peer{})
			got := rules.UpstreamNode(&d, own, id)
			if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("UpstreamNode (-want +got):\n%s", diff)
			}
			if got == tc.node || !proto.Equal(before, tc.node) || !proto.Equal(was, own) {
				t.Errorf("the client's node or the relay's was changed: %v, %v", tc.node, own)
			}
		})
	}

	// STR-2, AGG-3: what this build does not know of goes upstream, too.
	node := &corev3.Node{}
	node.ProtoReflect().SetUnknown([]byte{0xfa, 0x3f, 0x01, 'x'})
	d := decide(t, rules.Isolate, node, keyer.Peer{})
	if got := rules.UpstreamNode(&d, own, id).ProtoReflect().GetUnknown(); string(got) != "\xfa\x3f\x01x" {
		t.Errorf("AGG-3: unknown fields %q", got)
	}
}
