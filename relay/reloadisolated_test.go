package relay

import (
	"fmt"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// Isolated clients that a reload all leads to other scopes have a new turn each. They keep what they hold until then,
// and get what has changed afterwards.
func TestReload_isolated_LIM2_RES14(t *testing.T) {
	const clients = 100
	a, b := newPlaneServer(t, contents{"x": "1", "y": "1"}), newPlaneServer(t, contents{"x": "2", "y": "1"})
	r := run(t, configOf(upstreamAt("a", a.address)))
	fleet := make([]*follower, clients)
	for i := range fleet {
		fleet[i] = r.join(fmt.Sprint("n", i))
	}
	for _, f := range fleet {
		f.holds(contents{"x": "1", "y": "1"})
	}
	r.reload(func(c *config.Config) {
		c.Upstreams = []config.Upstream{upstreamAt("b", b.address)}
		c.Upstreams[0].Default = true
	})
	for _, f := range fleet {
		f.holds(contents{"x": "2", "y": "1"})
	}
	for i, f := range fleet {
		if lost := f.lost(); lost != "" {
			t.Errorf("client %d lost %s", i, lost)
		}
	}
	r.shows("/metrics", fmt.Sprintf("xdsrelay_admission_seconds_count{work=\"scope\"} %d", 2*clients))
	r.check()
}
