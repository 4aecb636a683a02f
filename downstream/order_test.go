package downstream

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// everything subscribes to all of the ordered types, and returns what came.
func everything(c *client) []*response {
	c.h.Helper()
	for _, url := range []string{routeType, listenerType, endpointType, clusterType} {
		c.subscribe(url)
	}
	return c.take()
}

func TestOrder(t *testing.T) {
	runAll(t, []scenario{
		{"ADS-1 make before break", func(h *harness) {
			for _, url := range []string{unknownType, routeType, listenerType, endpointType, clusterType} {
				h.opaque.set(url, "1", "old")
			}
			c := h.slowClient()
			everything(c)
			c.subscribe(unknownType)
			c.take()
			// While nothing is acknowledged everything changes, in the worst order.
			for _, url := range []string{clusterType, endpointType, listenerType, routeType, unknownType} {
				h.opaque.unset(url, "old")
			}
			for _, url := range []string{unknownType, routeType, listenerType, endpointType, clusterType} {
				h.opaque.set(url, "2", "new")
			}
			c.wants()
			h.advance(ackWait) // releases all types in one pass
			c.wants(
				"Cluster +new=2", "ClusterLoadAssignment +new=2",
				"Listener +new=2 -old", "RouteConfiguration +new=2 -old", "Unheard +new=2 -old",
				"Cluster -old", "ClusterLoadAssignment -old")
		}},
		{"ADS-1 make before break across stores", func(h *harness) {
			h.a.set(clusterType, "1", ofA("old"))
			h.opaque.set(listenerType, "1", "l")
			c := h.slowClient()
			c.subscribe(listenerType)
			c.subscribe(clusterType, ofA("old"), ofA("new"))
			c.take()
			h.opaque.set(listenerType, "2", "l")
			h.a.set(clusterType, "2", ofA("new"))
			h.advance(ackWait)
			c.wants("Cluster +"+ofA("new")+"=2", "Listener +l=2")
		}},
		{"ADS-1 removals last across stores", func(h *harness) {
			endpoint := "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/e"
			h.a.set(clusterType, "1", ofA("old"))
			h.a.set(endpointType, "1", endpoint)
			h.opaque.set(listenerType, "1", "l")
			c := h.slowClient()
			c.subscribe(clusterType, ofA("old"))
			c.subscribe(endpointType, endpoint)
			c.subscribe(listenerType)
			c.take()
			h.opaque.set(listenerType, "2", "l")
			h.a.unset(clusterType, ofA("old"))
			h.a.set(endpointType, "2", endpoint)
			h.advance(ackWait)
			c.wants("ClusterLoadAssignment +"+endpoint+"=2", "Listener +l=2", "Cluster -"+ofA("old"))
		}},
		{"ADS-1 a removal waits for a later type that is held back", func(h *harness) {
			h.opaque.set(clusterType, "1", "c")
			h.opaque.set(routeType, "1", "r")
			c := h.slowClient()
			got := everything(c)
			route := got[slices.IndexFunc(got, func(r *response) bool { return r.TypeUrl == routeType })]
			for _, r := range got {
				if r != route {
					c.ack(r)
				}
			}
			h.quiet()
			h.opaque.set(routeType, "2", "r") // moves away from c
			h.opaque.unset(clusterType, "c")
			c.wants()
			c.ack(route)
			route = c.wants("RouteConfiguration +r=2")[0]
			c.ack(route)
			c.wants("Cluster -c")
		}},
		{"ADS-2 a client that does not acknowledge clusters gets endpoints", func(h *harness) {
			h.opaque.set(clusterType, "1", "c")
			h.opaque.set(endpointType, "1", "e")
			c := h.slowClient()
			c.subscribe(clusterType)
			c.wants("Cluster +c=1")
			c.subscribe(endpointType, "e")
			c.ack(c.wants("ClusterLoadAssignment +e=1")[0])
			for _, v := range []string{"2", "3"} {
				h.opaque.set(endpointType, v, "e")
				c.ack(c.wants("ClusterLoadAssignment +e=" + v)[0])
			}
		}},
		{"ADS-2 pending clusters go out before a later listener though their ACK is outstanding", func(h *harness) {
			h.opaque.set(clusterType, "1", "c")
			h.opaque.set(listenerType, "1", "l")
			c := h.slowClient()
			c.subscribe(clusterType)
			c.subscribe(listenerType)
			got := c.take()
			for _, r := range got {
				if r.TypeUrl == listenerType {
					c.ack(r)
				}
			}
			h.opaque.set(clusterType, "2", "c", "d")
			c.wants()
			h.opaque.set(listenerType, "2", "l")
			c.wants("Cluster +c=2 +d=2", "Listener +l=2")
		}},
		{"ADS-2 the same across stores", func(h *harness) {
			h.a.set(clusterType, "1", ofA("c"))
			h.opaque.set(listenerType, "1", "l")
			c := h.slowClient()
			c.subscribe(clusterType, ofA("c"))
			c.subscribe(listenerType)
			for _, r := range c.take() {
				if r.TypeUrl == listenerType {
					c.ack(r)
				}
			}
			h.a.set(clusterType, "2", ofA("c"))
			c.wants()
			h.opaque.set(listenerType, "2", "l")
			c.wants("Cluster +"+ofA("c")+"=2", "Listener +l=2")
		}},
		{"ADS-3 a client that is late never sees a later type without what came before it", func(h *harness) {
			h.opaque.set(clusterType, "0", "c")
			h.opaque.set(routeType, "0", "r")
			quick, late := h.client(), h.slowClient()
			everything(quick)
			everything(late)
			for v := range 50 {
				h.opaque.set(clusterType, fmt.Sprint(v+1), "c")
				h.opaque.set(routeType, fmt.Sprint(v+1), "r")
				if v%7 == 0 {
					h.advance(ackWait / 2)
				}
			}
			h.advance(2 * ackWait)
			for name, c := range map[string]*client{"quick": quick, "late": late} {
				c.take()
				clusters := 0
				for _, r := range c.all {
					var v int
					if len(r.Resources) == 0 {
						continue
					}
					fmt.Sscan(r.Resources[0].Version, &v)
					switch r.TypeUrl {
					case clusterType:
						clusters = v
					case routeType:
						if v > clusters {
							h.Errorf("%s client: route of %d after cluster of %d", name, v, clusters)
						}
					}
				}
				if clusters != 50 {
					h.Errorf("%s client: the last cluster is %d", name, clusters)
				}
			}
			if n := len(late.all); n > 40 {
				h.Errorf("the late client was sent %d responses: not merged", n)
			}
		}},
	})
}

func TestOrder_ADS1_RES9_SplitGoesOutBeforeALaterType(t *testing.T) {
	bubble(t, func(h *harness) {
		c := h.slowClient()
		everything(c)
		h.opaque.set(listenerType, "1", "l")
		h.sized("1", 500, 1000)
		c.wants() // nothing is acknowledged
		h.advance(ackWait)
		got := c.take()
		if n := len(got); n < 30 || got[n-1].TypeUrl != listenerType {
			t.Errorf("%d responses, the last one for %s", n, got[n-1].TypeUrl)
		}
		if n := len(holds(got)); n != 501 {
			t.Errorf("client holds %d resources, want 501", n)
		}
	}, func(c *Config) { c.MaxMessageSize = 16 << 10 })
}

// A cluster goes after routes of another store whose removal is due and waits itself (ADS-4, ADS-5).
func TestRemovalsWaitAcrossStores_ADS4_ADS5(t *testing.T) {
	runPaced(t, []scenario{{"a route goes a little later", func(h *harness) {
		h.a.set(clusterType, "1", ofA("old"))
		h.opaque.set(routeType, "1", "r")
		c := h.client()
		c.subscribe(clusterType, ofA("old"))
		c.subscribe(routeType, "r")
		c.take()
		h.a.unset(clusterType, ofA("old"))
		h.advance(100 * time.Millisecond)
		h.opaque.unset(routeType, "r")
		h.advance(100 * time.Millisecond)
		c.wants()
		h.advance(100 * time.Millisecond)
		c.wants("RouteConfiguration -r", "Cluster -"+ofA("old"))
	}}})
}
