package deltaclient

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

func TestRequests(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(c *xdsclient.Client) // before the stream
		then func(c *xdsclient.Client) // on the stream
		want []string
		more []string // after then
	}{{
		name: "STR-1 the node comes with the first request only",
		do:   func(c *xdsclient.Client) { c.Subscribe(clusterType, "a"); c.Subscribe(endpointType, "b") },
		want: []string{"Cluster node=n +a", "ClusterLoadAssignment +b"},
	}, {
		name: "SUB-3 legacy wildcard, then a name",
		do:   func(c *xdsclient.Client) { c.Subscribe(clusterType) },
		then: func(c *xdsclient.Client) { c.Subscribe(clusterType, "a") },
		want: []string{"Cluster node=n"},
		more: []string{"Cluster +a"},
	}, {
		name: "SUB-3 legacy wildcard and a name before the stream",
		do:   func(c *xdsclient.Client) { c.Subscribe(clusterType); c.Subscribe(clusterType, "a") },
		want: []string{"Cluster node=n", "Cluster +a"},
	}, {
		name: "SUB-3 without names on the stream, when an empty request would say nothing",
		do:   func(c *xdsclient.Client) { c.Subscribe(clusterType, "a") },
		then: func(c *xdsclient.Client) { c.Subscribe(clusterType) },
		want: []string{"Cluster node=n +a"},
		more: []string{"Cluster +*"},
	}, {
		name: "SUB-3 without names before the stream, beside a name",
		do:   func(c *xdsclient.Client) { c.Subscribe(clusterType, "a"); c.Subscribe(clusterType) },
		want: []string{"Cluster node=n +* +a"},
	}, {
		name: "SUB-3 what is not wanted any more is not requested, nor taken for a wildcard",
		do:   func(c *xdsclient.Client) { c.Subscribe(clusterType, "a"); c.Unsubscribe(clusterType, "a") },
		then: func(c *xdsclient.Client) {
			c.Unsubscribe(clusterType, "b")
			c.Unsubscribe(endpointType, "b")
			c.Unsubscribe(clusterType)
		},
	}, {
		name: "SUB-1 a type begins on the stream",
		then: func(c *xdsclient.Client) { c.Subscribe(clusterType, "*", "a"); c.Unsubscribe(clusterType, "*", "b") },
		more: []string{"Cluster node=n +* +a", "Cluster -* -b"},
	}, {
		name: "SUB-6 a name is asked for again",
		do:   func(c *xdsclient.Client) { c.Subscribe(clusterType, "a") },
		then: func(c *xdsclient.Client) { c.Subscribe(clusterType, "a") },
		want: []string{"Cluster node=n +a"},
		more: []string{"Cluster +a"},
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

func TestRES12_reconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{Node: &corev3.Node{Id: "n"}})
		c.Subscribe(clusterType)
		c.Subscribe(endpointType, "e")
		stop := running(t, c)
		s.send(t, response("1", "a@1", "b@2"))
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		s.next()
		expect(t, "held while disconnected", 2, c.Len(clusterType))
		c.Subscribe(clusterType, "c")
		running(t, c)
		expect(t, "requests", []string{"Cluster node=n a@1 b@2", "Cluster +c", "ClusterLoadAssignment +e"}, s.next())
	})
}

func TestRES14_versionsThatDoNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{MaxRequestSize: nameRoom + 100})
		c.Subscribe(clusterType)
		stop := running(t, c)
		long := strings.Repeat("x", 100)
		s.send(t, response("1", "a@"+long))
		_ = stop()
		s.next()
		running(t, c)
		expect(t, "requests", []string{"Cluster"}, s.next())
		expect(t, "held", 0, c.Len(clusterType))
		expect(t, "unanswered", []string{clusterType}, c.Unanswered())
	})
}

func TestRES17_longSubscriptionsAreSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{MaxRequestSize: 100})
		names := []string{strings.Repeat("a", 40), strings.Repeat("b", 200), strings.Repeat("c", 10), strings.Repeat("d", 10)}
		c.Subscribe(clusterType, names...)
		running(t, c)
		expect(t, "requests", []string{"Cluster +" + names[0], "Cluster +" + names[1], "Cluster +" + names[2] + " +" + names[3]}, s.next())
		c.Unsubscribe(clusterType, names...)
		expect(t, "requests", 3, len(s.next()))
	})
}
