package behaviours

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"google.golang.org/protobuf/types/known/anypb"
)

// What ztunnels ask for: all workloads and services, and all policies. Both are the same for each of them.
const (
	addresses = "type.googleapis.com/istio.workload.Address"
	policies  = "type.googleapis.com/istio.security.Authorization"
)

// istiodSees is the node of the rule for ztunnels.
const istiodSees = "ztunnel~10.0.0.1~relay.istio-system~istio-system.svc.cluster.local"

// ztunnels get from relays what istiod gives each of them, through all changes, and istiod sees one of them.
func TestZtunnels_SUB15_SUB10_VAR8(t *testing.T) {
	t.Parallel()
	for relays := range 3 {
		t.Run(fmt.Sprintf("%d relays", relays), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, plane.Istio(), relays, config.AggregatedDeltaGRPC, func(c *config.Config) {
				c.Aggregation.Otherwise = config.Refuse
				c.Aggregation.Rules = []config.Rule{{
					Name: "ztunnels", Match: "type in ['" + addresses + "', '" + policies + "']", Scope: []string{}, Node: config.RuleNode{ID: "'" + istiodSees + "'"},
				}}
			})
			testZtunnels(w, relays > 0)
		})
	}
}

func testZtunnels(w *world, shared bool) {
	w.t.Helper()
	resource := func(typeURL, name, content string) plane.Resource {
		return plane.Resource{TypeURL: typeURL, Name: name, Payload: &anypb.Any{TypeUrl: typeURL, Value: []byte(content)}}
	}
	const pod, service, policy = "Kubernetes//Pod/shop/web-1", "shop/web.shop.svc.cluster.local", "shop/allow"
	w.plane.Apply(plane.Change{Set: []plane.Resource{resource(addresses, pod, "1"), resource(addresses, service, "1"), resource(policies, policy, "1")}})
	var all []*client
	join := func() {
		c := w.dial(xdsclient.Incremental, addresses, "*")
		c.Subscribe(policies, "*")
		all = append(all, c)
	}
	hear := func(what string, want ...string) {
		w.t.Helper()
		for _, c := range all {
			c.hears(what, append([]string(nil), want...)...)
		}
	}
	join()
	join()
	hear("SUB-1 all there is", "+"+pod, "+"+service, "+"+policy)
	w.plane.Apply(plane.Change{Set: []plane.Resource{resource(addresses, pod, "2"), resource(policies, "shop/deny", "1")}})
	hear("RES-1 what changed", "+"+pod, "+shop/deny")
	w.plane.Apply(plane.Change{Remove: []plane.Key{{TypeURL: addresses, Name: pod}, {TypeURL: policies, Name: policy}}})
	hear("RES-5 what is gone", "-"+pod, "-"+policy)
	all = nil
	join()
	hear("a later one", "+"+service, "+shop/deny")
	if open := w.plane.Open(); shared && (len(open) != 1 || !strings.HasPrefix(open[0].Node.GetId(), istiodSees)) {
		w.t.Errorf("SUB-10: istiod sees %v", open)
	}
}
