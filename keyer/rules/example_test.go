package rules_test

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

func ExampleSubject_Decide() {
	set, _ := rules.Compile(rules.Config{Otherwise: rules.Share})
	node := &corev3.Node{Id: "sidecar-1", ClientFeatures: []string{"xds.config.resource-in-sotw"}}
	d, _, err := set.Subject(node, keyer.Peer{}).Decide("type.googleapis.com/envoy.config.cluster.v3.Cluster")
	if err != nil {
		fmt.Println(err)
		return
	}
	upstream := rules.UpstreamNode(d.Node, []string{"envoy.example"})
	fmt.Println(d.Scope, d.Rule, upstream.GetId(), upstream.GetClientFeatures())
	// Output:
	// shared otherwise sidecar-1 [envoy.example]
}
