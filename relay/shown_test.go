package relay

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// Sessions that forward other metadata are other nodes to a control plane, as those of other
// scopes are. What the node is called does not give the metadata away.
func TestShown_AGG3_ACC6(t *testing.T) {
	own := &corev3.Node{Id: "relay"}
	d := &rules.Decision{Scope: "shared", Basis: "rule", Client: &corev3.Node{Id: "client"}, Node: new(corev3.Node)}
	ids := make(map[string]bool)
	for _, token := range []string{"", "a", "b"} {
		f, err := forward(peerWith(map[string][]string{"token": {token}}), []string{"token"})
		if err != nil {
			t.Fatal(err)
		}
		if token == "" {
			f.key = ""
		}
		node := forwarding(own, f.key)
		for _, as := range []shown{asItself(), asDecided(d, "replica")} {
			ids[as.node(node).GetId()] = true
		}
		if again := forwarding(own, f.key); again.GetId() != node.GetId() {
			t.Error("another node for the same metadata")
		}
	}
	if len(ids) != 6 || own.GetId() != "relay" {
		t.Errorf("%d nodes of 6: %v", len(ids), ids)
	}
}
