package rules

import (
	"errors"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// verifier compiles requirements that are right.
func verifier(t testing.TB, list ...Requirement) *Verifier {
	t.Helper()
	v, problems := CompileVerify(list)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return v
}

func TestVerify_ACC5(t *testing.T) {
	v := verifier(t,
		Requirement{"trust-domain", `peer.spiffe.startsWith("spiffe://td/")`, false},
		Requirement{"own-node", `node.id == peer.spiffe.substring("spiffe://td/".size())`, false},
		Requirement{"role", `node.metadata.role == "sidecar"`, false})
	role := func(value any) *structpb.Struct {
		s, err := structpb.NewStruct(map[string]any{"role": value})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	web := keyer.Peer{SPIFFE: "spiffe://td/web"}
	for _, tt := range []struct {
		name   string
		node   *corev3.Node
		peer   keyer.Peer
		rule   string // that refuses
		reason string
	}{
		{"all are true", &corev3.Node{Id: "web", Metadata: role("sidecar")}, web, "", ""},
		{"another trust domain", &corev3.Node{Id: "web"}, keyer.Peer{SPIFFE: "spiffe://other/web"}, "trust-domain", "is false"},
		{"no certificate", &corev3.Node{Id: "web"}, keyer.Peer{}, "trust-domain", "is false"},
		{"another client's node", &corev3.Node{Id: "db", Metadata: role("sidecar")}, web, "own-node", "is false"},
		{"no node", nil, web, "own-node", "the client sent no node"},
		{"a key that is missing", &corev3.Node{Id: "web"}, web, "role", "no such key"},
		{"a value of another type", &corev3.Node{Id: "web", Metadata: role(7)}, web, "role", "is false"},
	} {
		err := v.Verify(tt.node, tt.peer)
		if tt.rule == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		refused, ok := errors.AsType[*UnverifiedError](err)
		if !ok || refused.Rule != tt.rule || !strings.Contains(refused.Reason(), tt.reason) {
			t.Errorf("%s: %v, want a refusal by %s that says %q", tt.name, err, tt.rule, tt.reason)
			continue
		}
		if strings.Contains(err.Error(), "spiffe") || strings.Contains(err.Error(), "metadata") {
			t.Errorf("%s: the client is shown the rule: %v", tt.name, err)
		}
	}
}

// A result that is no bool refuses: what metadata holds shows only when there is a node.
func TestVerifyNoBool_ACC5(t *testing.T) {
	v := verifier(t, Requirement{"enabled", `node.metadata.enabled`, false})
	for value, served := range map[any]bool{true: true, false: false, "true": false, 1.0: false} {
		s, err := structpb.NewStruct(map[string]any{"enabled": value})
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Verify(&corev3.Node{Metadata: s}, keyer.Peer{}); (err == nil) != served {
			t.Errorf("%v: %v", value, err)
		}
	}
}

// A node of megabytes takes no longer than a rule's cost allows, and is refused.
func TestVerifyHostileNode_ACC5_OPS5(t *testing.T) {
	v := verifier(t, Requirement{"walk", `node.metadata.list.all(x, node.metadata.list.exists(y, y == x))`, false})
	list := make([]any, 20_000)
	for i := range list {
		list[i] = float64(i)
	}
	s, err := structpb.NewStruct(map[string]any{"list": list})
	if err != nil {
		t.Fatal(err)
	}
	refused, ok := errors.AsType[*UnverifiedError](v.Verify(&corev3.Node{Metadata: s}, keyer.Peer{}))
	if !ok || refused.Failed == nil {
		t.Errorf("%v, want a rule that fails", refused)
	}
}

func TestVerifyNothing_ACC5(t *testing.T) {
	for _, v := range []*Verifier{nil, verifier(t)} {
		if err := v.Verify(nil, keyer.Peer{}); err != nil {
			t.Error(err)
		}
	}
}

func TestVerifyExplain_ACC5(t *testing.T) {
	v := verifier(t,
		Requirement{"own-node", `node.id == peer.spiffe`, false},
		Requirement{"role", `node.metadata.role == "sidecar"`, false},
		Requirement{"cluster", `node.cluster != ""`, false})
	got := v.Explain(&corev3.Node{Id: "a", Cluster: "c"}, keyer.Peer{SPIFFE: "spiffe://td/a"})
	want := []struct{ rule, result, why string }{
		{"own-node", DoesNotMatch, `node.id is "a"`}, {"role", Fails, "no such key"}, {"cluster", Matches, `node.cluster is "c"`},
	}
	for i, w := range want {
		if got[i].Rule != w.rule || got[i].Result != w.result || !strings.Contains(got[i].Why, w.why) {
			t.Errorf("%+v, want %+v", got[i], w)
		}
	}
}

// BenchmarkVerify measures what a stream costs more when it begins (ACC-5).
func BenchmarkVerify(b *testing.B) {
	metadata, err := structpb.NewStruct(map[string]any{"role": "sidecar", "labels": map[string]any{"app": "web", "version": "v1"}})
	if err != nil {
		b.Fatal(err)
	}
	node := &corev3.Node{Id: "web", Cluster: "shop", Metadata: metadata}
	peer := keyer.Peer{SPIFFE: "spiffe://td/web", URIs: []string{"spiffe://td/web"}, Subject: "CN=web"}
	v := verifier(b,
		Requirement{"trust-domain", `peer.spiffe.startsWith("spiffe://td/")`, false},
		Requirement{"own-node", `"spiffe://td/" + node.id == peer.spiffe`, false},
		Requirement{"role", `node.metadata.role == "sidecar"`, false})
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Verify(node, peer); err != nil {
			b.Fatal(err)
		}
	}
}
