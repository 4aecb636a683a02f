package downstream

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// announce subscribes to names with a node that announces features.
func (c *client) announce(features []string, names ...string) {
	c.send(&request{
		Node: &corev3.Node{Id: "n", ClientFeatures: features}, TypeUrl: clusterType, ResourceNamesSubscribe: names,
	})
}

// wantsTTL holds the one resource that came to what was to come.
func (c *client) wantsTTL(ttl time.Duration, payload bool) {
	c.h.Helper()
	got := c.take()
	if len(got) != 1 || len(got[0].Resources) != 1 {
		c.h.Fatalf("got %v, want one resource", got)
	}
	if x := got[0].Resources[0]; x.Name != "a" || x.Version != "1" || x.GetTtl().AsDuration() != ttl || (x.Resource != nil) != payload {
		c.h.Errorf("got %v, want a ttl of %v, payload: %t", x, ttl, payload)
	}
}

func TestTTL(t *testing.T) {
	runAll(t, []scenario{{"TTL-1 TTL-2 TTL-3 ttl, heartbeat and expiry, by what the node announces", func(h *harness) {
		able, plain, late := h.client(), h.client(), h.client()
		able.announce([]string{"envoy.lb.x", featureTTL}, "a")
		plain.announce([]string{"xds.config.supports-resource-in-sotw"}, "a")
		able.wants("Cluster -a")
		plain.wants("Cluster -a")

		r := resourceOf(clusterType, "a", "1")
		r.Ttl = durationpb.New(10 * time.Second)
		h.opaque.put(clusterType, r)
		able.wantsTTL(10*time.Second, true)
		plain.wantsTTL(0, true)
		h.advance(4 * time.Second)
		late.announce([]string{featureTTL}, "a")
		late.wantsTTL(6*time.Second, true)

		beat := &discovery.Resource{Name: "a", Version: "1", Ttl: durationpb.New(time.Minute)}
		h.opaque.apply(0, &wire.Response{TypeURL: clusterType, Resources: []*wire.Resource{h.opaque.wire(beat)}})
		able.wantsTTL(time.Minute, false)
		late.wantsTTL(time.Minute, false)
		plain.wants()

		h.advance(time.Minute)
		h.opaque.store.Session().Settle(time.Now())
		plain.wants("Cluster -a")
		able.wants()
		late.wants()
	}}})
}

func TestTTL_Envoy(t *testing.T) {
	timed := func(name, version string, ttl time.Duration) *discovery.Resource {
		r := resourceOf(clusterType, name, version)
		r.Ttl = durationpb.New(ttl)
		return r
	}
	// lines tells what came: names with versions, ttl and whether there is a payload.
	lines := func(got []*response) (all []string) {
		for _, r := range got {
			for _, x := range r.Resources {
				kind := "+"
				if x.Resource == nil {
					kind = "="
				}
				all = append(all, fmt.Sprintf("%s%s@%s~%v", kind, x.Name, x.Version, x.GetTtl().AsDuration()))
			}
			for _, name := range r.RemovedResources {
				all = append(all, "-"+name)
			}
		}
		return all
	}
	gets := func(h *harness, c *client, want ...string) []*response {
		h.Helper()
		got := c.take()
		if said := lines(got); !slices.Equal(said, want) {
			h.Errorf("got %q, want %q", said, want)
		}
		return got
	}
	envoy := func(h *harness, c *client, names ...string) {
		c.send(&request{
			Node: &corev3.Node{Id: "n", UserAgentName: "envoy"}, TypeUrl: clusterType, ResourceNamesSubscribe: names,
		})
		h.quiet()
	}
	for sub, names := range map[string][]string{"by name": {"a", "b"}, "as a member": {"*"}} {
		t.Run(sub, func(t *testing.T) {
			runAll(t, []scenario{
				{"TTL-1 Envoy is told a ttl that it did not announce", func(h *harness) {
					h.opaque.put(clusterType, timed("a", "1", time.Minute))
					c := h.slowClient()
					envoy(h, c, names...)
					first := c.take()
					if len(first) == 0 || first[0].Resources[0].GetTtl().AsDuration() != time.Minute {
						h.Fatalf("got %v, want a ttl", first)
					}
					c.ack(first[len(first)-1])
					h.beat(clusterType, "a", "1", time.Hour)
					gets(h, c, "=a@1~1h0m0s")
				}},
				{"TTL-3 ACK-3 who rejected the content gets neither it nor its heartbeats", func(h *harness) {
					h.opaque.put(clusterType, timed("a", "1", time.Minute), timed("b", "1", time.Minute))
					c := h.slowClient()
					envoy(h, c, names...)
					c.nack(gets(h, c, "+a@1~1m0s", "+b@1~1m0s")[0], "a is bad")
					halves := gets(h, c, "+a@1~1m0s", "+b@1~1m0s")
					c.nack(halves[0], "a is bad")
					c.ack(halves[1])
					gets(h, c)
					h.beat(clusterType, "a", "1", time.Hour)
					h.beat(clusterType, "b", "1", time.Hour)
					c.ack(gets(h, c, "=b@1~1h0m0s")[0])
					h.opaque.put(clusterType, timed("a", "2", time.Minute))
					c.ack(gets(h, c, "+a@2~1m0s")[0])
					h.beat(clusterType, "a", "2", time.Hour)
					gets(h, c, "=a@2~1h0m0s")
				}},
				{"TTL-3 ACK-3 a heartbeat takes the content from nobody who is sent it once more", func(h *harness) {
					h.opaque.put(clusterType, timed("a", "1", time.Minute), timed("b", "1", time.Minute))
					c := h.slowClient()
					envoy(h, c, names...)
					first := gets(h, c, "+a@1~1m0s", "+b@1~1m0s")[0]
					h.beat(clusterType, "b", "1", time.Hour) // waits for the answer
					c.nack(first, "a is bad")
					halves := gets(h, c, "+a@1~1m0s", "+b@1~1h0m0s")
					c.nack(halves[0], "a is bad")
					c.ack(halves[1])
					gets(h, c)
				}},
				{"TTL-2 TTL-3 who rejected the content is told when it runs out: it may hold an older one", func(h *harness) {
					h.opaque.set(clusterType, "1", "a")
					c := h.slowClient()
					envoy(h, c, names...)
					for _, r := range c.take() {
						c.ack(r)
					}
					h.opaque.put(clusterType, timed("a", "2", time.Minute))
					c.nack(gets(h, c, "+a@2~1m0s")[0], "a is bad")
					h.advance(time.Minute)
					h.opaque.store.Session().Settle(time.Now())
					h.advance(time.Minute) // removals wait a moment (ADS-4)
					gets(h, c, "-a")
				}},
			})
		})
	}
}

// timed opens an aggregated state-of-the-world stream of a client that can do ttl.
func (h *harness) timed(acking bool) *stateClient {
	h.Helper()
	c := h.stateOn(adsStream, acking)
	c.node = &corev3.Node{Id: "n", ClientFeatures: []string{wire.FeatureWrapping, featureTTL}}
	return c
}

// give has the control plane send a resource with a ttl.
func (h *harness) give(typeURL, name, version string, ttl time.Duration) {
	h.Helper()
	r := resourceOf(typeURL, name, version)
	r.Ttl = durationpb.New(ttl)
	h.opaque.put(typeURL, r)
}

// beat has it send a heartbeat.
func (h *harness) beat(typeURL, name, version string, ttl time.Duration) {
	h.Helper()
	beat := &discovery.Resource{Name: name, Version: version, Ttl: durationpb.New(ttl)}
	h.opaque.apply(0, &wire.Response{TypeURL: typeURL, Resources: []*wire.Resource{h.opaque.wire(beat)}})
}

func TestTTL_SotW(t *testing.T) {
	runAll(t, []scenario{
		{"TTL-1 TTL-2 RES-13 only who announces wrapping and ttl is sent one", func(h *harness) {
			able, wrapping, ttlOnly := h.timed(true), h.state(), h.state()
			wrapping.node.ClientFeatures = []string{wire.FeatureWrapping}
			ttlOnly.node.ClientFeatures = []string{featureTTL}
			for _, c := range []*stateClient{able, wrapping, ttlOnly} {
				c.asks(clusterType)
				c.asks(endpointType, "e")
			}
			h.quiet()
			h.give(clusterType, "a", "1", 10*time.Second)
			h.give(endpointType, "e", "1", 20*time.Second)
			absent := "ClusterLoadAssignment !e=NotFound"
			able.wants("Cluster", absent, "Cluster [a 1 a@1~10s]", "ClusterLoadAssignment [e 1 e@1~20s]")
			wrapping.wants("Cluster", absent, "Cluster [a 1 a@1]", "ClusterLoadAssignment [e 1 e@1]")
			ttlOnly.wants("Cluster", absent, "Cluster a@1", "ClusterLoadAssignment e@1")
			h.advance(4 * time.Second)
			late := h.timed(true)
			late.asks(clusterType)
			late.asks(endpointType, "e")
			late.wants("Cluster [a 1 a@1~6s]", "ClusterLoadAssignment [e 1 e@1~16s]")
			h.advance(16 * time.Second)
			h.opaque.store.Session().Settle(time.Now())
			able.wants()
			late.wants()
			wrapping.wants("Cluster")
			ttlOnly.wants("Cluster")
		}},
		{"TTL-1 RES-13 Envoy is sent wrapped what has a ttl, and nothing else", func(h *harness) {
			envoyNode := &corev3.Node{Id: "n", UserAgentName: "envoy"}
			c, v2 := h.state(), h.stateOn("/envoy.service.discovery.v2.AggregatedDiscoveryService/StreamAggregatedResources", true)
			c.node, v2.node = envoyNode, envoyNode
			h.opaque.set(clusterType, "1", "b")
			h.give(clusterType, "a", "1", 30*time.Second)
			h.give(endpointType, "e", "1", 30*time.Second)
			for _, c := range []*stateClient{c, v2} {
				c.asks(clusterType)
				c.asks(endpointType, "e")
			}
			c.wants("Cluster [a 1 a@1~30s] b@1", "ClusterLoadAssignment [e 1 e@1~30s]")
			v2.wants("Cluster a@1 b@1", "ClusterLoadAssignment e@1")
			h.advance(15 * time.Second)
			h.beat(clusterType, "a", "1", 30*time.Second)
			h.beat(endpointType, "e", "1", 30*time.Second)
			c.wants("Cluster [a 1 a@1~30s] b@1", "ClusterLoadAssignment [e 1 e@1~30s]")
			v2.wants()
			h.advance(time.Second)
			h.opaque.set(endpointType, "1", "e") // without a ttl
			c.wants("ClusterLoadAssignment e@1")
			h.advance(29 * time.Second)
			h.opaque.store.Session().Settle(time.Now())
			h.advance(time.Minute)
			c.wants() // it has dropped the cluster itself
			v2.wants("Cluster b@1")
			h.opaque.set(clusterType, "1", "d")
			c.wants("Cluster b@1 d@1")
		}},
		{"TTL-1 TTL-3 TTL-4 whole lists and resources renew, at most once per third of the ttl", func(h *harness) {
			c := h.timed(true)
			c.asks(clusterType)
			c.asks(endpointType, "e")
			h.quiet()
			h.opaque.set(clusterType, "1", "b")
			h.give(clusterType, "a", "1", 30*time.Second)
			h.give(endpointType, "e", "1", 30*time.Second)
			c.take()
			h.beat(clusterType, "a", "1", 30*time.Second)
			h.beat(endpointType, "e", "1", 30*time.Second)
			c.wants("ClusterLoadAssignment [e 1 e@1~30s]") // the list came a moment ago
			h.advance(10*time.Second - 1)
			c.wants()
			h.beat(endpointType, "e", "1", 30*time.Second)
			h.advance(1)
			c.wants("Cluster [a 1 a@1~20s] [b 1 b@1]", "ClusterLoadAssignment [e 1 e@1~29.999999999s]")
			h.advance(time.Second)
			h.opaque.set(clusterType, "1", "a") // without a ttl
			c.wants("Cluster [a 1 a@1] [b 1 b@1]")
			h.advance(time.Hour)
			c.wants()
		}},
		{"TTL-3 ACK-3 who rejected a list gets no renewal of it, and is told what runs out", func(h *harness) {
			c := h.timed(false)
			c.asks(clusterType)
			c.ack(c.wants("Cluster")[0])
			h.give(clusterType, "a", "1", time.Minute)
			c.ack(c.wants("Cluster [a 1 a@1~1m0s]")[0])
			h.give(clusterType, "a", "2", time.Minute)
			c.nack(c.wants("Cluster [a 2 a@2~1m0s]")[0], "no")
			h.advance(30 * time.Second)
			h.beat(clusterType, "a", "2", time.Minute)
			h.advance(30 * time.Second)
			c.wants()
			h.opaque.set(clusterType, "1", "b")
			c.ack(c.wants("Cluster [a 2 a@2~30s] [b 1 b@1]")[0]) // it does, in this company
			h.beat(clusterType, "a", "2", time.Minute)
			h.advance(20 * time.Second)
			c.nack(c.wants("Cluster [a 2 a@2~40s] [b 1 b@1]")[0], "no")
			h.advance(40 * time.Second)
			h.opaque.store.Session().Settle(time.Now())
			h.advance(time.Minute)
			c.wants("Cluster [b 1 b@1]")
		}},
		{"TTL-3 ACK-3 who rejected a resource alone gets neither it nor a renewal", func(h *harness) {
			c := h.timed(false)
			c.asks(endpointType, "e")
			c.wants("ClusterLoadAssignment !e=NotFound")
			c.ack(c.last[endpointType])
			h.give(endpointType, "e", "1", time.Minute)
			c.nack(c.wants("ClusterLoadAssignment [e 1 e@1~1m0s]")[0], "no")
			h.advance(30 * time.Second)
			h.beat(endpointType, "e", "1", time.Minute)
			h.advance(30 * time.Second)
			c.wants()
		}},
		{"TTL-1 WARM-1 renewals do not stand between a cluster and its endpoints", func(h *harness) {
			c := h.timed(true)
			c.asks(clusterType)
			c.asks(endpointType, "a")
			h.quiet()
			h.opaque.set(clusterType, "1", "a")
			h.give(endpointType, "a", "1", time.Minute)
			c.take()
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster [a 2 a@2]")
			h.beat(endpointType, "a", "1", time.Minute)
			c.wants("ClusterLoadAssignment [a 1 a@1~1m0s]")
			c.asks(endpointType, "a")
			c.wants("ClusterLoadAssignment [a 1 a@1~1m0s]")
			h.give(clusterType, "a", "2", time.Minute) // a ttl for the cluster, no change of it
			c.wants("Cluster [a 2 a@2~1m0s]")
			c.asks(endpointType, "a")
			c.wants()
		}},
		{"TTL-5 RES-2 what is not to be cached is in every list", func(h *harness) {
			c := h.state()
			c.asks(clusterType)
			h.quiet()
			r := resourceOf(clusterType, "a", "1")
			r.CacheControl = &discovery.Resource_CacheControl{DoNotCache: true}
			h.opaque.put(clusterType, r)
			c.wants("Cluster", "Cluster a@1")
			h.opaque.set(clusterType, "1", "b")
			c.wants("Cluster a@1 b@1")
			late := h.client()
			late.announce(nil, "*")
			h.advance(time.Second)
			c.wants()
			late.wants("Cluster +a=1 +b=1")
		}},
	})
}
