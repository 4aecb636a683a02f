package rules_test

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// podToken is like a projected token of Kubernetes.
func podToken() *keyer.Token {
	return &keyer.Token{
		Issuer: "https://kubernetes.default.svc", Subject: "system:serviceaccount:shop:web", Audience: []string{"xds", "other"},
		Claims: map[string]any{
			"iss": "https://kubernetes.default.svc", "sub": "system:serviceaccount:shop:web", "level": 3.0, "groups": []any{"a", "b"},
			"kubernetes.io": map[string]any{"namespace": "shop", "serviceaccount": map[string]any{"name": "web"}},
		},
	}
}

// What rules see of clients without certificates, and what of a client that has nothing: then every
// comparison is false, or fails (ACC-1).
func TestPeer_ACC1(t *testing.T) {
	pod, user := keyer.Peer{Token: podToken(), Listener: "pods"}, keyer.Peer{User: &keyer.User{UID: 0, GID: 1 << 31}, Listener: "local"}
	for _, tt := range []struct {
		require string
		pod     bool
		user    bool
		none    bool
	}{
		{`peer.token.sub == "system:serviceaccount:shop:web"`, true, false, false},
		{`peer.token.iss == "https://kubernetes.default.svc" && "xds" in peer.token.aud`, true, false, false},
		{`peer.token.claims["kubernetes.io"].namespace == "shop"`, true, false, false},
		{`peer.token.claims["kubernetes.io"].serviceaccount.name == "web"`, true, false, false},
		{`"b" in peer.token.claims.groups && peer.token.claims.level == 3.0`, true, false, false},
		{`has(peer.token.claims.level) && peer.token.claims.level > 2`, true, false, false},
		{`peer.token.sub == ""`, false, true, true},
		{`peer.token.claims == {}`, false, true, true},
		{`peer.token.claims.sub != "x"`, true, false, false},
		{`peer.trust_domain == "" && peer.spiffe_path == ""`, true, true, true},
		{`peer.uid == 0`, false, true, false},
		{`peer.gid == 2147483648`, false, true, false},
		{`peer.uid == -1 && peer.gid == -1`, true, false, true},
		{`listener == "default"`, false, false, true},
		{`listener in ["pods", "local"]`, true, true, false},
	} {
		v, problems := rules.CompileVerify([]rules.Requirement{{Name: "r", Require: tt.require}})
		if len(problems) > 0 {
			t.Errorf("%s: %v", tt.require, problems)
			continue
		}
		for _, c := range []struct {
			name string
			peer keyer.Peer
			want bool
		}{{"a pod", pod, tt.pod}, {"a user", user, tt.user}, {"nobody", keyer.Peer{}, tt.none}} {
			if err := v.Verify(&corev3.Node{Id: "a"}, c.peer); (err == nil) != c.want {
				t.Errorf("ACC-1: %s for %s: %v, want %t", tt.require, c.name, err, c.want)
			}
		}
	}
}

// The parts of a SPIFFE ID are compared as they are.
func TestPeerSPIFFE_ACC5(t *testing.T) {
	v, problems := rules.CompileVerify([]rules.Requirement{{
		Name: "r", Require: `peer.trust_domain == "td" && peer.spiffe_path == "/ns/shop/" + node.id && peer.spiffe == "spiffe://td" + peer.spiffe_path`,
	}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for id, want := range map[string]bool{
		"spiffe://td/ns/shop/a": true, "spiffe://td.evil/ns/shop/a": false, "spiffe://td/ns/shop/b": false, "": false,
	} {
		if err := v.Verify(&corev3.Node{Id: "a"}, keyer.Peer{SPIFFE: id}); (err == nil) != want {
			t.Errorf("ACC-5: %q: %v, want %t", id, err, want)
		}
	}
}

// Clients with other identities are isolated from each other. A renewed token, which differs in what
// changes with each token, is the same identity.
func TestPeerScopes_AGG2(t *testing.T) {
	set, problems := rules.Compile(rules.Config{Otherwise: rules.Isolate, Upstream: "u"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	other := podToken()
	other.Subject = "system:serviceaccount:shop:api"
	node := &corev3.Node{Id: "a"}
	seen := make(map[string]int)
	for i, peer := range []keyer.Peer{
		{}, {User: &keyer.User{UID: 1, GID: 1}}, {User: &keyer.User{UID: 1, GID: 2}}, {User: &keyer.User{UID: 2, GID: 1}},
		{Token: podToken()}, {Token: other}, {SPIFFE: "spiffe://td/a"},
	} {
		d, _, err := set.Subject(node, peer).Decide("type.googleapis.com/envoy.config.cluster.v3.Cluster")
		if err != nil {
			t.Fatal(err)
		}
		if before, twice := seen[d.Scope]; twice {
			t.Errorf("AGG-2: %d and %d are both in %s", before, i, d.Scope)
		}
		seen[d.Scope] = i
		renewed := peer
		if peer.Token != nil {
			renewed.Token = &keyer.Token{Issuer: peer.Token.Issuer, Subject: peer.Token.Subject, Audience: []string{"xds"}, Claims: map[string]any{"new": true}}
		}
		again, _, err := set.Subject(node, renewed).Decide("type.googleapis.com/envoy.config.cluster.v3.Cluster")
		if err != nil || again.Scope != d.Scope {
			t.Errorf("AGG-2: %d is in %s, then in %s: %v", i, d.Scope, again.Scope, err)
		}
	}
}

// A scope may have the whole peer as a part, whatever it is.
func TestPeerAsPart_AGG1(t *testing.T) {
	set, problems := rules.Compile(rules.Config{Rules: []rules.Rule{{Name: "r", Match: "true", Scope: []string{"peer", "peer.token"}}}, Otherwise: rules.Refuse, Upstream: "u"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	seen := make(map[string]bool)
	for _, peer := range []keyer.Peer{{}, {User: &keyer.User{}}, {Token: podToken()}, {Token: &keyer.Token{Issuer: "i"}}, {Token: &keyer.Token{Subject: "i"}}} {
		d, _, err := set.Subject(&corev3.Node{Id: "a"}, peer).Decide("type.googleapis.com/envoy.config.cluster.v3.Cluster")
		if err != nil || seen[d.Scope] || !strings.HasPrefix(d.Scope, "r[") {
			t.Errorf("AGG-1: %+v: %q, %v", peer, d.Scope, err)
		}
		seen[d.Scope] = true
	}
}
