package downstream

import (
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
)

// The relay refuses a name with dynamic parameters by itself. What the client has of the name without them stays.
func TestDynamicParameters_DYN1_ABS4(t *testing.T) {
	locators := []*discovery.ResourceLocator{
		{Name: "b"}, {Name: "a", DynamicParameters: map[string]string{"env": "prod"}},
		{Name: "a", DynamicParameters: map[string]string{"env": "test"}}, {Name: "*", DynamicParameters: map[string]string{"env": "test"}},
	}
	runAll(t, []scenario{
		{"DYN-1 ABS-4 incremental", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.client()
			c.subscribe(clusterType, "a")
			c.wants("Cluster +a=1")
			c.send(&request{TypeUrl: clusterType, ResourceLocatorsSubscribe: locators})
			got := c.wants("Cluster !*=InvalidArgument !a=InvalidArgument", "Cluster +b=1")
			if says := got[0].ResourceErrors[0].ErrorDetail.GetMessage(); says != errParameters.Error() {
				h.Errorf("the reason is %q", says)
			}
			if n := h.seen.refused[codes.InvalidArgument]; n != 3 {
				h.Errorf("%d refusals were counted", n)
			}
			h.opaque.set(clusterType, "2", "a", "b")
			c.wants("Cluster +a=2 +b=2")
			c.send(&request{TypeUrl: clusterType, ResourceLocatorsUnsubscribe: locators})
			h.quiet()
			h.opaque.set(clusterType, "3", "a", "b")
			c.wants("Cluster +a=3")
			if n := h.status().Types[clusterType].Subscriptions; n != 1 {
				h.Errorf("%d subscriptions", n)
			}
		}},
		{"DYN-1 ABS-4 state of the world", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.state()
			c.send(&stateRequestMsg{TypeUrl: clusterType, ResourceNames: []string{"a"}, ResourceLocators: locators})
			got := c.wants("Cluster a@1 b@1 !*=InvalidArgument !a=InvalidArgument")
			if says := got[0].ResourceErrors[0].ErrorDetail.GetMessage(); says != errParameters.Error() {
				h.Errorf("the reason is %q", says)
			}
			c.asks(clusterType, "a")
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster a@2")
		}},
		{"ABS-4 a name that begins with a NUL", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.subscribe(clusterType, "a", "\x00a")
			got := c.wants("Cluster -\x00a !\x00a=InvalidArgument", "Cluster +a=1")
			if says := got[0].ResourceErrors[0].ErrorDetail.GetMessage(); says != errReserved.Error() {
				h.Errorf("the reason is %q", says)
			}
		}},
	})
}
