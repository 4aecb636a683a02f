package relay

import (
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// AGG-1: rules are evaluated once per stream and type: a stream's second name of a type
// costs a look into a map, and no memory.
func TestAGG1NothingPerName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuledRouter(t)
		r.reload(t, rules.Isolate, rules.Rule{Name: "r", Match: `node.cluster == "web"`, Scope: []string{"node.cluster"}})
		stream := r.join(t, &corev3.Node{Id: "a", Cluster: "web"})
		defer stream.Close()
		if n := testing.AllocsPerRun(100, func() {
			if _, err := stream.Scoped(clusterType, "a"); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("AGG-1: a name costs %g allocations", n)
		}
	})
}
