package stateclient

import (
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

func TestRequests(t *testing.T) {
	type client = xdsclient.Client
	for _, tt := range []struct {
		name string
		do   func(c *client) // before the stream
		then func(c *client) // on the stream
		want []string
		more []string // after then
	}{{
		name: "STR-2 the node comes with the first request only",
		do:   func(c *client) { c.Subscribe(clusterType, "a"); c.Subscribe(endpointType, "b") },
		want: []string{"ads: Cluster node=n [a]", "ads: ClusterLoadAssignment [b]"},
	}, {
		name: "SUB-2 SUB-4 legacy wildcard, names beside it, and names alone",
		do:   func(c *client) { c.Subscribe(clusterType) },
		then: func(c *client) {
			c.Subscribe(clusterType, "a")
			c.Unsubscribe(clusterType, "a")
			c.Subscribe(clusterType, "b")
			c.Unsubscribe(clusterType, "*")
			c.Unsubscribe(clusterType, "b")
		},
		want: []string{"ads: Cluster node=n []"},
		more: []string{"ads: Cluster [* a]", "ads: Cluster [*]", "ads: Cluster [* b]", "ads: Cluster [b]", "ads: Cluster []"},
	}, {
		name: "SUB-2 a legacy wildcard is taken back by naming it first",
		do:   func(c *client) { c.Subscribe(clusterType) },
		then: func(c *client) { c.Unsubscribe(clusterType, "*") },
		want: []string{"ads: Cluster node=n []"},
		more: []string{"ads: Cluster [*]", "ads: Cluster []"},
	}, {
		name: "SUB-4 no legacy wildcard for types that are not full-state",
		do:   func(c *client) { c.Subscribe(endpointType) },
		want: []string{"ads: ClusterLoadAssignment node=n [*]"},
	}, {
		name: "SUB-1 the wildcard by name, beside a name",
		do:   func(c *client) { c.Subscribe(clusterType, "*", "a") },
		want: []string{"ads: Cluster node=n [* a]"},
	}, {
		name: "SUB-2 what is not wanted any more is not requested",
		do:   func(c *client) { c.Subscribe(clusterType, "a"); c.Unsubscribe(clusterType, "a") },
	}, {
		name: "VAR-3 a type begins on the stream, and WARM-1 asks again",
		then: func(c *client) { c.Subscribe(endpointType, "a"); c.Subscribe(endpointType, "a") },
		more: []string{"ads: ClusterLoadAssignment node=n [a]", "ads: ClusterLoadAssignment [a]"},
	}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript()
				c := New(serve(t, s), xdsclient.Options{Node: &corev3.Node{Id: "n"}})
				if tt.do != nil {
					tt.do(c)
				}
				running(t, c)
				expect(t, "requests", tt.want, s.next())
				if tt.then != nil {
					tt.then(c)
				}
				expect(t, "requests on the stream", tt.more, s.next())
			})
		})
	}
}

func TestRES13_announcement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		node := &corev3.Node{Id: "n", ClientFeatures: []string{"f"}}
		c := New(serve(t, s), xdsclient.Options{Node: node, ResourceInSotW: true})
		c.Subscribe(clusterType)
		running(t, c)
		expect(t, "requests", []string{"ads: Cluster node=n,f,xds.config.resource-in-sotw,xds.config.supports-resource-in-sotw []"}, s.next())
		expect(t, "the caller's node", []string{"f"}, node.GetClientFeatures())
		if got := announced(xdsclient.Options{ResourceInSotW: true}).Node.GetClientFeatures(); len(got) != 2 {
			t.Errorf("features without a node: %q", got)
		}
		again := announced(announced(xdsclient.Options{ResourceInSotW: true}))
		if got := again.Node.GetClientFeatures(); len(got) != 2 {
			t.Errorf("features announced twice: %q", got)
		}
	})
}

func TestACK5_reconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{})
		c.Subscribe(clusterType)
		c.Subscribe(endpointType, "a", "b")
		stop := running(t, c)
		s.send(t, "ads", response(clusterType, "1", "a@1"))
		s.send(t, "ads", response(endpointType, "2", "a@1"))
		_ = stop()
		s.next()
		stop = running(t, c)
		// Endpoints b are missing: the version would say that they are not.
		expect(t, "requests", []string{"ads: Cluster [] v=1", "ads: ClusterLoadAssignment [a b]"}, s.next())
		_ = stop()
		c.Subscribe(clusterType, "*")
		c.Unsubscribe(clusterType, "*")
		c.Subscribe(clusterType, "*")
		running(t, c)
		expect(t, "requests for what is not held", []string{"ads: Cluster [*]", "ads: ClusterLoadAssignment [a b]"}, s.next())
	})
}

func TestHoldAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{})
		c.Subscribe(clusterType, "a")
		running(t, c)
		s.next()
		c.HoldAcks(true)
		s.send(t, "ads", response(clusterType, "1", "a@1"))
		s.send(t, "ads", response(clusterType, "2", "a@2"))
		expect(t, "answers held back", nil, s.next())
		c.Subscribe(clusterType, "b")
		expect(t, "STR-9 a request before any answer", []string{"ads: Cluster [a b] v=2"}, s.next())
		c.HoldAcks(false)
		// The names of now: with those of then the answer would take b back.
		expect(t, "answers", []string{"ads: Cluster [a b] v=1 n=n1", "ads: Cluster [a b] v=2 n=n2"}, s.next())
	})
}
