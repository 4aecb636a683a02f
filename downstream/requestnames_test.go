package downstream

import (
	"slices"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
)

// The names of a request have a bound that grows with it, as those of a poll have: short ones are for few. A stream
// whose client goes beyond it ends before anything of the request is carried out.
func TestRequestNames_LIM3(t *testing.T) {
	names := func(n int) []string { return slices.Repeat([]string{"a"}, n) }
	locators := func(n int) []*discovery.ResourceLocator {
		return slices.Repeat([]*discovery.ResourceLocator{{Name: "a"}}, n)
	}
	const most, mostLocators = 104_000, 130_000 // of 3 and of 5 bytes, with some room for the node
	for name, ask := range map[string]struct {
		delta *request
		state *stateRequestMsg
		says  string
	}{
		"many names":    {&request{ResourceNamesSubscribe: names(most)}, &stateRequestMsg{ResourceNames: names(most)}, ""},
		"many locators": {&request{ResourceLocatorsSubscribe: locators(mostLocators)}, &stateRequestMsg{ResourceLocators: locators(mostLocators)}, ""},
		"too many names": {
			&request{ResourceNamesSubscribe: names(2 * most)}, &stateRequestMsg{ResourceNames: names(2 * most)},
			"the request has too many names in 624",
		},
		"too many locators": {
			&request{ResourceLocatorsSubscribe: locators(2 * mostLocators)}, &stateRequestMsg{ResourceLocators: locators(2 * mostLocators)},
			"the request has too many names in 1300",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				h.opaque.real(clusterType, "1", "a")
				delta, state := h.client(), h.state()
				ask.delta.TypeUrl, ask.state.TypeUrl = clusterType, clusterType
				delta.send(ask.delta)
				state.send(ask.state)
				if ask.says == "" {
					h.advance(mergeTime)
					if d, s := delta.take(), state.take(); len(d) != 1 || len(d[0].Resources) != 1 || len(s) != 1 || len(s[0].Resources) != 1 {
						h.Errorf("the clients got %v and %v", d, s)
					}
					return
				}
				delta.endedWith(codes.ResourceExhausted, ask.says)
				state.endedWith(codes.ResourceExhausted, ask.says)
				if len(h.router.nodes) > 0 {
					h.Errorf("nodes were looked at: %v", h.router.nodes)
				}
			})
		})
	}
}
