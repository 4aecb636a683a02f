package sharing_test

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
)

func ExampleSurvey() {
	set, _ := rules.Compile(rules.Config{Rules: []rules.Rule{{Name: "clusters", Match: "true", Scope: []string{"node.cluster"}}}})
	survey := sharing.NewSurvey(sharing.Options{Rules: []string{"clusters"}, Policy: set.Policy(), Unmentioned: set.Unmentioned})
	for _, node := range []*corev3.Node{{Id: "a-1", Cluster: "a"}, {Id: "a-2", Cluster: "a", UserAgentName: "envoy"}, {Id: "b-1", Cluster: "b"}} {
		client := set.Subject(node, keyer.Peer{})
		survey.Add(node.GetId(), sharing.Place(client, "type.googleapis.com/envoy.config.cluster.v3.Cluster", nil, "primary"))
	}
	r := survey.Result(10)
	fmt.Println(r.Clients, r.Scopes, r.Ratio, r.Largest[0].Scope, r.Largest[0].Unmentioned)
	// Output:
	// 3 2 1.5 clusters["a"] [user_agent_name]
}
