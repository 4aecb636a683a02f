package downstream

import (
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
)

// What a state-of-the-world client is told of what it subscribes to.
func TestSotW_Subscriptions(t *testing.T) {
	runAll(t, []scenario{
		{"SUB-2 SUB-4 legacy wildcard of a full-state type", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.state()
			c.asks(clusterType)
			c.wants("Cluster a@1 b@1")
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster a@2 b@1")
			h.opaque.unset(clusterType, "b")
			c.wants("Cluster a@2")
		}},
		{"SUB-4 no legacy wildcard of other types", func(h *harness) {
			h.opaque.set(endpointType, "1", "a")
			c := h.state()
			c.asks(endpointType)
			c.wants()
			if n := h.status().Types[endpointType].Subscriptions; n != 0 {
				h.Errorf("%d subscriptions, want none", n)
			}
			c.asks(endpointType, "*")
			c.wants("ClusterLoadAssignment a@1")
		}},
		{"SUB-2 legacy, both, the name alone, nothing", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.state()
			c.asks(clusterType)
			c.wants("Cluster a@1 b@1")
			c.asks(clusterType, "*", "a")
			c.wants("Cluster a@1 b@1") // SUB-5
			c.asks(clusterType, "a")
			c.wants()
			h.opaque.set(clusterType, "2", "a", "b")
			c.wants("Cluster a@2")
			c.asks(clusterType)
			c.wants()
			h.opaque.set(clusterType, "3", "a", "b")
			c.wants() // an empty list is no wildcard any more
		}},
		{"SUB-5 STR-7 a new name is sent, an ACK is not answered", func(h *harness) {
			h.opaque.set(endpointType, "1", "a", "b")
			c := h.state()
			c.asks(endpointType, "a")
			c.wants("ClusterLoadAssignment a@1")
			c.asks(endpointType, "a", "b", "b", "a")
			c.wants("ClusterLoadAssignment b@1")
			c.asks(endpointType, "b")
			c.wants()
			h.opaque.set(endpointType, "2", "a", "b")
			c.wants("ClusterLoadAssignment b@2")
			c.ack(c.last[endpointType])
			c.ack(c.last[endpointType])
			c.wants()
		}},
		{"ABS-1 SUB-9 RES-2 RES-3 what does not exist", func(h *harness) {
			c := h.state()
			c.asks(listenerType, "l")
			c.wants("Listener !l=NotFound") // the list without it
			c.asks(routeType, "r")
			c.wants("RouteConfiguration !r=NotFound")
			late := h.state()
			late.asks(listenerType, "l")
			late.asks(routeType, "r")
			late.wants("Listener !l=NotFound", "RouteConfiguration !r=NotFound")
			h.opaque.set(listenerType, "1", "l")
			c.wants("Listener l@1")
			h.opaque.set(routeType, "1", "r")
			c.wants("RouteConfiguration r@1")
			h.opaque.unset(listenerType, "l")
			h.opaque.unset(routeType, "r")
			c.wants("Listener") // and no word for the route, which the client has
			h.opaque.set(routeType, "2", "r")
			c.wants("RouteConfiguration r@2")
		}},
		{"RES-3 a type without anything is told once to who asked for all", func(h *harness) {
			c := h.state()
			c.asks(endpointType, "*")
			c.wants("ClusterLoadAssignment")
			h.opaque.set(endpointType, "1", "a")
			c.wants("ClusterLoadAssignment a@1")
			h.opaque.unset(endpointType, "a")
			c.wants()
		}},
		{"RES-4 named and by wildcard", func(h *harness) {
			h.opaque.set(listenerType, "1", "a", "b")
			h.state().asks(listenerType, "*", "a")
			h.quiet() // both tables are filled
			c := h.state()
			c.asks(listenerType, "*", "a")
			c.wants("Listener a@1 b@1")
		}},
		{"GLOB-7 NAME-4 globs, in the server's spelling", func(h *harness) {
			h.a.set(clusterType, "1", ofA("d/1?p=1&q=2"), ofA("d/2?p=1&q=2"))
			c := h.state()
			c.asks(clusterType, ofA("d/*?q=2&p=1"), ofA("d/1?q=2&p=1"))
			c.wants("Cluster " + ofA("d/1?p=1&q=2") + "@1 " + ofA("d/2?p=1&q=2") + "@1")
			h.a.unset(clusterType, ofA("d/2?p=1&q=2"))
			c.wants("Cluster " + ofA("d/1?p=1&q=2") + "@1")
		}},
		{"GLOB-7 a glob of another type", func(h *harness) {
			glob := "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/d/"
			h.a.set(endpointType, "1", glob+"1")
			c := h.state()
			c.asks(endpointType, glob+"*")
			c.wants("ClusterLoadAssignment " + glob + "1@1")
			h.a.set(endpointType, "2", glob+"2")
			c.wants("ClusterLoadAssignment " + glob + "2@2")
			h.a.unset(endpointType, glob+"1")
			c.wants()
		}},
		{"RES-2 lists of several stores are one", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.a.set(clusterType, "1", ofA("x"))
			c := h.state()
			c.asks(clusterType, "*", ofA("x"), ofA("y"))
			c.take()
			h.opaque.set(clusterType, "2", "a")
			one := c.wants("Cluster a@2 " + ofA("x") + "@1")
			h.a.set(clusterType, "2", ofA("x"))
			two := c.wants("Cluster a@2 " + ofA("x") + "@2")
			h.a.set(clusterType, "1", ofA("x"))
			three := c.wants("Cluster a@2 " + ofA("x") + "@1")
			if one[0].VersionInfo == two[0].VersionInfo || one[0].VersionInfo != three[0].VersionInfo {
				h.Errorf("ACK-4: versions %q, %q, %q", one[0].VersionInfo, two[0].VersionInfo, three[0].VersionInfo)
			}
			h.a.unset(clusterType, ofA("x"))
			c.wants("Cluster a@2")
		}},
		{"VAR-8 RES-13 payloads are bare, unless the client knows Resource, in either spelling", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.a.set(clusterType, "1", ofA("d/1?p=1&q=2"))
			wrapped := "Cluster [a 1 a@1] [" + ofA("d/1?q=2&p=1") + " 1 " + ofA("d/1?p=1&q=2") + "@1]"
			for feature, want := range map[string]string{
				"xds.config.resource-in-sotw":          wrapped,
				"xds.config.supports-resource-in-sotw": wrapped,
				"xds.config.resource-in-sotw.not":      "Cluster a@1 " + ofA("d/1?p=1&q=2") + "@1",
			} {
				c := h.state()
				c.node = &corev3.Node{Id: "n", ClientFeatures: []string{feature}}
				c.asks(clusterType, "a", ofA("d/1?q=2&p=1"))
				got := c.take()
				if last := c.tell(got[len(got)-1]); last != want {
					h.Errorf("%s: got\n\t%s\nwant\n\t%s", feature, last, want)
				}
			}
		}},
	})
}

func TestSotW_Acknowledgements(t *testing.T) {
	runAll(t, []scenario{
		{"STR-3 STR-4 STR-6 a stale nonce is ignored, but for its NACK", func(h *harness) {
			h.opaque.set(endpointType, "1", "a", "b")
			c := h.stateOn(adsStream, false)
			c.asks(endpointType, "a")
			first := c.wants("ClusterLoadAssignment a@1")[0]
			c.asks(endpointType, "a", "b")
			second := c.wants("ClusterLoadAssignment b@1")[0]
			c.send(&stateRequestMsg{TypeUrl: endpointType, ResponseNonce: first.Nonce}) // would drop both
			c.send(&stateRequestMsg{TypeUrl: endpointType})                             // so would this
			c.send(&stateRequestMsg{TypeUrl: endpointType, ResponseNonce: "garbage"})
			c.send(&stateRequestMsg{TypeUrl: endpointType, ResponseNonce: "99"})
			h.opaque.set(endpointType, "2", "a")
			c.wants() // the second is not acknowledged
			c.nack(second, "no")
			c.wants("ClusterLoadAssignment a@2")
			if n := h.seen.count("nacked"); n != 1 {
				h.Errorf("%d NACKs, want 1", n)
			}
			if n := h.status().Types[endpointType].Subscriptions; n != 2 {
				h.Errorf("%d subscriptions, want 2", n)
			}
		}},
		{"STR-3 a nonce of another stream means nothing", func(h *harness) {
			h.opaque.set(endpointType, "1", "a")
			c := h.state()
			c.send(&stateRequestMsg{TypeUrl: endpointType, ResourceNames: []string{"a"}, ResponseNonce: "17", VersionInfo: "x"})
			c.wants("ClusterLoadAssignment a@1")
		}},
		{"ACK-1 ACK-3 what was rejected is not sent again", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			c.nack(c.wants("Cluster a@1")[0], "bad a")
			c.wants()
			h.opaque.set(clusterType, "2", "a")
			c.ack(c.wants("Cluster a@2")[0])
			s := h.status()
			if nack := s.Types[clusterType].LastNack; nack == nil || nack.Message != "bad a" || s.Variant != "sotw-ads" {
				h.Errorf("status %+v", s)
			}
		}},
		{"STR-6 requests that arrived together are answered once", func(h *harness) {
			h.opaque.set(endpointType, "1", "a", "b", "c")
			c := h.state()
			c.asks(endpointType, "a")
			c.asks(endpointType, "a", "b")
			c.asks(endpointType, "b", "c")
			held := map[string]bool{}
			for _, r := range c.take() {
				for _, x := range r.Resources {
					held[string(x.Value)] = true
				}
			}
			if !held["b@1"] || !held["c@1"] {
				h.Errorf("got %v", held)
			}
		}},
		{"RES-9 a large set is split, and acknowledged as one", func(h *harness) {
			long := strings.Repeat("x", 1000)
			names := []string{long + "1", long + "2", long + "3", long + "4", long + "5"}
			h.opaque.set(endpointType, "1", names...)
			c := h.stateOn(adsStream, false)
			c.asks(endpointType, names...)
			got := c.take()
			if len(got) < 2 {
				h.Fatalf("%d responses", len(got))
			}
			h.opaque.set(endpointType, "2", names[0])
			c.ack(got[0])
			c.wants()
			c.ack(got[len(got)-1])
			c.wants("ClusterLoadAssignment " + names[0] + "@2")
		}},
		{"OPS-3 a client that does not acknowledge gets the merged state", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			first := c.wants("Cluster a@1 b@1")[0]
			h.opaque.set(clusterType, "2", "a")
			h.opaque.set(clusterType, "3", "a")
			h.opaque.unset(clusterType, "b")
			c.wants()
			c.ack(first)
			c.wants("Cluster a@3")
			h.opaque.set(clusterType, "4", "a")
			c.wants()
			h.advance(ackWait)
			c.wants("Cluster a@4") // slow, not gone
		}},
	}, func(c *Config) { c.MaxMessageSize = headerRoom + 4096 })
}

// A relay that does not know everything must not take anything from a client.
func TestSotW_Warm(t *testing.T) {
	runAll(t, []scenario{
		{"RES-2 a warm client waits for the whole list", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			h.opaque.set(listenerType, "1", "l")
			c := h.state()
			c.asksWith(clusterType, "old")
			c.asks(listenerType)
			c.wants() // nobody knows whether that is all; listeners may need clusters
			h.opaque.settle()
			c.wants("Cluster a@1 b@1", "Listener l@1")
		}},
		{"RES-2 a warm client waits for every name", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.opaque.silent = true
			c := h.state()
			c.asksWith(clusterType, "old", "a", "b")
			c.wants()
			h.opaque.put(clusterType, resourceOf(clusterType, "a", "1"))
			c.wants()
			h.opaque.put(clusterType, resourceOf(clusterType, "b", "1"))
			c.wants("Cluster a@1 b@1")
		}},
		{"RES-2 a cold client does not", func(h *harness) {
			h.opaque.silent = true
			c := h.state()
			c.asks(clusterType, "a", "b")
			c.wants()
			h.opaque.put(clusterType, resourceOf(clusterType, "a", "1"))
			c.wants("Cluster a@1")
		}},
		{"RES-2 parts of all stores", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.a.silent = true
			c := h.state()
			c.asksWith(clusterType, "old", "*", ofA("x"))
			h.opaque.settle()
			c.wants()
			h.a.set(clusterType, "1", ofA("x"))
			c.wants() // "*" was not asked for yet when it was settled
			h.opaque.settle()
			c.wants("Cluster a@1 " + ofA("x") + "@1")
		}},
		{"ACK-5 the current version is not sent again", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			first := h.state()
			first.asks(clusterType)
			version := first.wants("Cluster a@1 b@1")[0].VersionInfo
			h.opaque.settle()
			again := h.state()
			again.asksWith(clusterType, version)
			again.wants()
			h.opaque.set(clusterType, "2", "b")
			got := again.wants("Cluster a@1 b@2")[0].VersionInfo
			if other := first.wants("Cluster a@1 b@2")[0].VersionInfo; got != other || got == version {
				h.Errorf("ACK-4: versions %q, %q, before %q", got, other, version)
			}
			behind := h.state()
			behind.asksWith(clusterType, version)
			behind.wants("Cluster a@1 b@2")
		}},
		{"ACK-4 ACK-5 a digest stands behind the server's system_version_info, and counts alone", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.state()
			c.asks(clusterType)
			version := c.wants("Cluster a@1 b@1")[0].VersionInfo
			digest, ok := strings.CutPrefix(version, "system-1/")
			if !ok {
				h.Errorf("version_info is %q", version)
			}
			h.opaque.settle()
			for _, known := range []string{version, digest, "of-another-replica/" + digest} {
				again := h.state()
				again.asksWith(clusterType, known)
				again.wants()
			}
			behind := h.state()
			behind.asksWith(clusterType, "system-1")
			behind.wants("Cluster a@1 b@1")
		}},
		{"ACK-4 the same names give the same version, in whatever order", func(h *harness) {
			h.opaque.set(endpointType, "1", "a", "b")
			one, two := h.state(), h.state()
			one.asks(endpointType, "a", "b")
			two.asks(endpointType, "b", "a")
			v, w := one.take()[0].VersionInfo, two.take()[0].VersionInfo
			if v != w || v == "" {
				h.Errorf("versions %q and %q", v, w)
			}
		}},
		{"WARM-2 names are sent though the version is current", func(h *harness) {
			h.opaque.set(endpointType, "1", "a")
			first := h.state()
			first.asks(endpointType, "a")
			version := first.wants("ClusterLoadAssignment a@1")[0].VersionInfo
			again := h.state()
			again.asksWith(endpointType, version, "a")
			again.wants("ClusterLoadAssignment a@1")
		}},
		{"RES-2 ERR-1 a list without what the relay does not serve, and why, once", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.state()
			c.asks(clusterType, "xdstp://b/envoy.config.cluster.v3.Cluster/x")
			c.wants("Cluster !xdstp://b/envoy.config.cluster.v3.Cluster/x=NotFound")
			c.asks(clusterType, "xdstp://b/envoy.config.cluster.v3.Cluster/x", "a", "xdstp://a")
			c.wants("Cluster a@1 !xdstp://a=InvalidArgument")
			c.asks(clusterType, "a", "xdstp://a/wrong.Type/y")
			c.wants("Cluster a@1 !xdstp://a/wrong.Type/y=InvalidArgument")
			c.asks(endpointType, "xdstp://")
			c.wants("ClusterLoadAssignment !xdstp://=InvalidArgument")
			c.ack(c.last[clusterType])
			c.ack(c.last[endpointType])
			c.wants()
			want := map[codes.Code]int{codes.NotFound: 1, codes.InvalidArgument: 3}
			for code, n := range want {
				if h.seen.refused[code] != n {
					h.Errorf("refused %v, want %v", h.seen.refused, want)
				}
			}
		}},
	})
}

// Make-before-break where a list says what is gone by not saying it.
func TestSotW_Order(t *testing.T) {
	runAll(t, []scenario{
		{"ADS-1 a removed cluster stays listed until the route has moved", func(h *harness) {
			h.opaque.set(clusterType, "1", "old")
			h.opaque.set(routeType, "old", "r")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			first := c.wants("Cluster old@1")[0]
			c.ack(first)
			c.asks(routeType, "r")
			route := c.wants("RouteConfiguration r@old")[0]
			h.opaque.set(clusterType, "1", "new")
			h.opaque.set(routeType, "new", "r")
			h.opaque.unset(clusterType, "old")
			held := c.wants("Cluster new@1 old@1")[0] // the route is not acknowledged
			c.ack(held)
			c.ack(route)
			moved := c.wants("RouteConfiguration r@new")[0]
			c.ack(moved)
			clean := c.wants("Cluster new@1")[0]
			if clean.VersionInfo == held.VersionInfo {
				h.Errorf("ACK-4: both lists have version %q", clean.VersionInfo)
			}
		}},
		{"ADS-1 a list that only lacks something waits for an ACK, or its time", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			h.opaque.set(routeType, "1", "r")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			c.ack(c.wants("Cluster a@1 b@1")[0])
			c.asks(routeType, "r")
			c.wants("RouteConfiguration r@1")
			h.opaque.unset(clusterType, "b")
			c.wants()
			h.advance(ackWait)
			c.wants("Cluster a@1")
		}},
		{"ADS-1 listeners do not wait", func(h *harness) {
			h.opaque.set(listenerType, "1", "a", "b")
			h.opaque.set(routeType, "1", "r")
			c := h.stateOn(adsStream, false)
			c.asks(listenerType)
			c.ack(c.wants("Listener a@1 b@1")[0])
			c.asks(routeType, "r")
			c.wants("RouteConfiguration r@1")
			h.opaque.unset(listenerType, "b")
			c.wants("Listener a@1")
		}},
		{"ADS-1 a named cluster stays listed too", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			h.opaque.set(routeType, "1", "r")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType, "a", "b")
			c.ack(c.wants("Cluster a@1 b@1")[0])
			c.asks(routeType, "r")
			route := c.wants("RouteConfiguration r@1")[0]
			h.opaque.unset(clusterType, "b")
			h.opaque.set(clusterType, "2", "a")
			c.ack(c.wants("Cluster a@2 b@1")[0])
			c.ack(route)
			c.wants("Cluster a@2")
		}},
		{"ADS-2 types do not block each other, nor are they overtaken", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.opaque.set(listenerType, "1", "l")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			c.wants("Cluster a@1")
			c.asks(listenerType)
			listeners := c.wants("Listener l@1")[0] // clusters are not acknowledged
			h.opaque.set(clusterType, "2", "a")
			c.wants()
			h.opaque.set(listenerType, "2", "l")
			c.wants()
			c.ack(listeners)
			c.wants("Cluster a@2", "Listener l@2")
		}},
		{"ADS-1 across stores", func(h *harness) {
			h.a.set(clusterType, "1", ofA("old"))
			h.opaque.set(clusterType, "1", "a")
			h.opaque.set(routeType, "1", "r")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType, "a", ofA("old"))
			for _, r := range c.take() {
				c.ack(r)
			}
			for _, r := range c.take() {
				c.ack(r)
			}
			c.asks(routeType, "r")
			c.ack(c.wants("RouteConfiguration r@1")[0])
			h.opaque.set(routeType, "2", "r")
			h.a.unset(clusterType, ofA("old"))
			route := c.wants("RouteConfiguration r@2")[0]
			h.opaque.set(clusterType, "2", "a")
			c.ack(c.wants("Cluster a@2 " + ofA("old") + "@1")[0])
			c.ack(route)
			c.wants("Cluster a@2")
		}},
	})
}

// Recorded requests of Envoy's.
func TestSotW_Warming(t *testing.T) {
	runAll(t, []scenario{
		{"WARM-1 STR-7 a start: CDS, EDS, LDS, RDS", func(h *harness) {
			h.opaque.set(clusterType, "1", "c1", "c2")
			h.opaque.set(endpointType, "1", "c1", "c2")
			h.opaque.set(listenerType, "1", "l")
			h.opaque.set(routeType, "1", "r")
			c := h.state()
			c.asks(clusterType)
			c.wants("Cluster c1@1 c2@1")
			c.asks(endpointType, "c1", "c2")
			c.wants("ClusterLoadAssignment c1@1 c2@1")
			c.asks(listenerType)
			c.wants("Listener l@1")
			c.asks(routeType, "r")
			c.wants("RouteConfiguration r@1")
			c.wants()
		}},
		{"WARM-1 a changed cluster asks for its endpoints again, once", func(h *harness) {
			h.opaque.set(clusterType, "1", "c1")
			h.opaque.set(endpointType, "1", "c1")
			c := h.state()
			c.asks(clusterType)
			c.wants("Cluster c1@1")
			c.asks(endpointType, "c1")
			c.wants("ClusterLoadAssignment c1@1")
			c.ack(c.last[endpointType])
			c.wants() // no cluster was sent since
			h.opaque.set(clusterType, "2", "c1")
			c.wants("Cluster c1@2")
			c.asks(endpointType, "c1")
			c.wants("ClusterLoadAssignment c1@1")
			c.ack(c.last[endpointType])
			c.ack(c.last[clusterType])
			c.wants()
		}},
		{"WARM-1 with an added cluster in the same request", func(h *harness) {
			h.opaque.set(clusterType, "1", "c1")
			h.opaque.set(endpointType, "1", "c1", "c2")
			c := h.state()
			c.asks(clusterType)
			c.wants("Cluster c1@1")
			c.asks(endpointType, "c1")
			c.wants("ClusterLoadAssignment c1@1")
			h.opaque.set(clusterType, "2", "c1", "c2")
			c.wants("Cluster c1@2 c2@2")
			c.asks(endpointType, "c1", "c2")
			c.wants("ClusterLoadAssignment c1@1", "ClusterLoadAssignment c2@1") // c2 had to be asked for
		}},
		{"WARM-1 the first request after a cluster is the ACK of what came before it", func(h *harness) {
			h.opaque.set(clusterType, "1", "c1")
			h.opaque.set(endpointType, "1", "c1")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			c.ack(c.wants("Cluster c1@1")[0])
			c.asks(endpointType, "c1")
			endpoints := c.wants("ClusterLoadAssignment c1@1")[0]
			h.opaque.set(clusterType, "2", "c1")
			c.wants("Cluster c1@2")
			c.ack(endpoints)
			c.wants()
			c.asks(endpointType, "c1")
			c.wants("ClusterLoadAssignment c1@1")
		}},
		{"WARM-1 a changed listener asks for its routes, and for one more in the same breath", func(h *harness) {
			h.opaque.set(listenerType, "1", "l")
			h.opaque.set(routeType, "1", "r", "r2")
			c := h.state()
			c.asks(listenerType)
			c.wants("Listener l@1")
			c.asks(routeType, "r")
			c.wants("RouteConfiguration r@1")
			h.opaque.set(listenerType, "2", "l")
			c.wants("Listener l@2")
			c.asks(routeType, "r")
			c.wants("RouteConfiguration r@1")
			h.opaque.set(listenerType, "3", "l")
			c.wants("Listener l@3")
			c.asks(routeType, "r", "r2") // nobody can tell that r is not needed again
			c.wants("RouteConfiguration r@1", "RouteConfiguration r2@1")
		}},
		{"WARM-1 on a stream of its own the same request asks again", func(h *harness) {
			h.opaque.set(endpointType, "1", "c1")
			c := h.stateOn(edsStream, true)
			c.asks(endpointType, "c1")
			c.wants("ClusterLoadAssignment c1@1")
			c.asks(endpointType, "c1")
			c.wants("ClusterLoadAssignment c1@1")
			h.opaque.set(endpointType, "1", "c2")
			c.asks(endpointType, "c1", "c2")
			c.wants("ClusterLoadAssignment c2@1")
		}},
		{"WARM-1 STR-4 asked again while a response without that is on its way", func(h *harness) {
			h.opaque.set(clusterType, "1", "c1", "c2")
			h.opaque.set(endpointType, "1", "c1", "c2")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			c.ack(c.wants("Cluster c1@1 c2@1")[0])
			c.asks(endpointType, "c1", "c2")
			first := c.wants("ClusterLoadAssignment c1@1 c2@1")[0]
			c.ack(first)
			h.opaque.set(clusterType, "2", "c1")
			h.opaque.set(endpointType, "2", "c2")
			second := c.wants("Cluster c1@2 c2@1", "ClusterLoadAssignment c2@2")[1]
			c.ack(first) // c1 is warmed: the client has not read the second response yet
			c.wants()    // STR-4
			c.ack(second)
			c.wants("ClusterLoadAssignment c1@1 c2@2")
			c.ack(c.last[endpointType])
			c.wants() // STR-7
		}},
		{"WARM-1 STR-4 asked again while it is rejected what is on its way", func(h *harness) {
			h.opaque.set(clusterType, "1", "c1", "c2")
			h.opaque.set(endpointType, "1", "c1", "c2")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			c.ack(c.wants("Cluster c1@1 c2@1")[0])
			c.asks(endpointType, "c1", "c2")
			first := c.wants("ClusterLoadAssignment c1@1 c2@1")[0]
			c.ack(first)
			h.opaque.set(clusterType, "2", "c1")
			h.opaque.set(endpointType, "2", "c2")
			second := c.wants("Cluster c1@2 c2@1", "ClusterLoadAssignment c2@2")[1]
			c.ack(first)
			c.nack(second, "bad c2")
			c.wants("ClusterLoadAssignment c1@1", "ClusterLoadAssignment c2@2") // what was rejected stands alone (ACK-3)
		}},
		{"WARM-1 STR-4 the ACK of an earlier response asks for nothing", func(h *harness) {
			h.opaque.set(clusterType, "1", "c1", "c2")
			h.opaque.set(endpointType, "1", "c1", "c2")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			c.ack(c.wants("Cluster c1@1 c2@1")[0])
			c.asks(endpointType, "c1", "c2")
			first := c.wants("ClusterLoadAssignment c1@1 c2@1")[0]
			h.opaque.set(clusterType, "2", "c1")
			h.opaque.set(endpointType, "2", "c2")
			h.advance(ackWait)
			second := c.wants("Cluster c1@2 c2@1", "ClusterLoadAssignment c2@2")[1]
			c.ack(first)
			c.ack(second)
			c.wants()
		}},
		{"WARM-1 STR-4 asked again on a stream of its own while a response is on its way", func(h *harness) {
			h.opaque.set(endpointType, "1", "c1", "c2")
			c := h.stateOn(edsStream, false)
			c.asks(endpointType, "c1", "c2")
			first := c.wants("ClusterLoadAssignment c1@1 c2@1")[0]
			c.ack(first)
			h.opaque.set(endpointType, "2", "c2")
			second := c.wants("ClusterLoadAssignment c2@2")[0]
			c.ack(first)
			c.wants()
			c.ack(second)
			c.wants("ClusterLoadAssignment c1@1 c2@2")
			c.ack(c.last[endpointType])
			c.wants()
		}},
		{"STR-4 STR-6 a subscription that was overtaken by a response comes with its ACK", func(h *harness) {
			h.opaque.set(endpointType, "1", "a", "b")
			c := h.stateOn(adsStream, false)
			c.asks(endpointType, "a")
			first := c.wants("ClusterLoadAssignment a@1")[0]
			c.ack(first)
			h.opaque.set(endpointType, "2", "a")
			second := c.wants("ClusterLoadAssignment a@2")[0]
			c.send(&stateRequestMsg{TypeUrl: endpointType, ResourceNames: []string{"a", "b"}, ResponseNonce: first.Nonce})
			c.wants()
			c.names[endpointType] = []string{"a", "b"}
			c.ack(second)
			c.wants("ClusterLoadAssignment b@1")
			c.ack(c.last[endpointType])
			c.wants()
		}},
		{"WARM-2 ACK-5 a reconnect with the current versions", func(h *harness) {
			h.opaque.set(clusterType, "1", "c1")
			h.opaque.set(endpointType, "1", "c1")
			c := h.state()
			c.asks(clusterType)
			clusters := c.wants("Cluster c1@1")[0].VersionInfo
			c.asks(endpointType, "c1")
			endpoints := c.wants("ClusterLoadAssignment c1@1")[0].VersionInfo
			h.opaque.settle()
			c.cancel()
			h.advance(time.Second)
			c = h.state()
			c.asksWith(clusterType, clusters)
			c.asksWith(endpointType, endpoints, "c1")
			c.wants("ClusterLoadAssignment c1@1")
		}},
	})
}
