package rules_test

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

func ExampleSubject_Decide() {
	set, problems := rules.Compile(rules.Config{
		Rules: []rules.Rule{{
			Name:  "gateways",
			Match: `node.id.startsWith("gw-") && type in [lds, cds]`,
			Scope: []string{`regex.replace(node.id, "-[0-9]+$", "")`, `node.locality.zone`},
			Node:  rules.Node{ID: `"relay-" + node.cluster`},
		}},
		Otherwise: rules.Share,
	})
	if len(problems) > 0 {
		fmt.Println(problems)
		return
	}
	node := &corev3.Node{Id: "gw-web-17", Cluster: "edge", Locality: &corev3.Locality{Zone: "eu-1a"}, ClientFeatures: []string{"xds.config.resource-in-sotw"}}
	subject := set.Subject(node, keyer.Peer{})
	for _, typeURL := range []string{clusterURL, routeURL} {
		d, _, err := subject.Decide(typeURL)
		if err != nil {
			fmt.Println(err)
			return
		}
		own := &corev3.Node{Id: "relay", Cluster: "relays", ClientFeatures: []string{"envoy.example"}}
		upstream := rules.UpstreamNode(&d, own, "relay~1")
		fmt.Println(d.Rule, d.Scope, upstream.GetId(), upstream.GetLocality().GetZone(), upstream.GetClientFeatures())
	}
	// Output:
	// gateways gateways["gw-web","eu-1a"] relay-edge eu-1a [envoy.example]
	// otherwise shared relay~1  [envoy.example]
}

func ExampleSubject_DecideName() {
	set, _ := rules.Compile(rules.Config{Rules: []rules.Rule{{
		Name: "shards", Match: `type == rds`, Scope: []string{`name.split("/")[0]`},
	}}})
	subject := set.Subject(&corev3.Node{Id: "a"}, keyer.Peer{})
	_, byName, _ := subject.Decide(routeURL)
	d, _ := subject.DecideName(routeURL, "shard-3/web")
	fmt.Println(byName, d.Scope)
	// Output:
	// true shards["shard-3"]
}

func ExampleCompile() {
	_, problems := rules.Compile(rules.Config{Rules: []rules.Rule{{
		Name: "sidecars", Match: `node.metadata.role == "sidecar" && type == "cds"`, Scope: []string{"node.clustr"},
	}}})
	for _, p := range problems {
		fmt.Printf("%s:%d:%d: %s\n", p.Field, p.Line, p.Column, p.Message)
	}
	// Output:
	// match:1:44: type is a type URL, never "cds": use cds without quotes
	// scope[0]:1:6: undefined field "clustr", did you mean "cluster"?
}

func ExampleSubject_Explain() {
	set, _ := rules.Compile(rules.Config{Rules: []rules.Rule{
		{Name: "sidecars", Match: `node.metadata.role == "sidecar"`},
		{Name: "web", Match: `type in [lds, cds]`, Scope: []string{`node.cluster`}},
	}})
	node := &corev3.Node{Cluster: "shop"}
	for _, r := range set.Subject(node, keyer.Peer{}).Explain(clusterURL, nil).Rules {
		fmt.Printf("%s %s: %s\n", r.Rule, r.Result, r.Why)
	}
	// Output:
	// sidecars fails: match: node.metadata.role == "sidecar": no such key: role
	// web not reached:
}
