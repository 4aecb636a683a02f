package downstream

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

func TestResponses(t *testing.T) {
	runAll(t, []scenario{
		{"RES-1 only what changed", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b", "c")
			c := h.client()
			c.subscribe(clusterType)
			c.wants("Cluster +a=1 +b=1 +c=1")
			h.opaque.set(clusterType, "2", "b")
			c.wants("Cluster +b=2")
			h.opaque.set(clusterType, "2", "b") // no change
			c.wants()
		}},
		{"RES-4 no name twice, whatever is subscribed to how often", func(h *harness) {
			glob := "xdstp://a/envoy.config.cluster.v3.Cluster/d/*"
			member := "xdstp://a/envoy.config.cluster.v3.Cluster/d/m"
			h.opaque.set(clusterType, "1", "a", "b")
			h.a.set(clusterType, "1", member)
			c := h.client()
			c.subscribe(clusterType, "a", "*", "a", "*", glob, member, glob, member, "xdstp://b/x", "xdstp://b/x")
			check := func() {
				for _, r := range c.take() {
					names := slices.Clone(r.RemovedResources)
					for _, x := range r.Resources {
						names = append(names, x.Name)
					}
					slices.Sort(names)
					if len(slices.Compact(slices.Clone(names))) != len(names) {
						h.Errorf("RES-4: %q", names)
					}
				}
			}
			check()
			h.opaque.set(clusterType, "2", "a", "b")
			h.a.set(clusterType, "2", member)
			check()
			c.unsubscribe(clusterType, "a", member)
			check()
			h.opaque.unset(clusterType, "a")
			h.a.unset(clusterType, member)
			check()
			if got := holds(c.all); !maps.Equal(got, map[string]string{"b": "2"}) {
				h.Errorf("client holds %v", got)
			}
		}},
		{"RES-5 a deletion", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.client()
			c.subscribe(clusterType, "a")
			c.subscribe(endpointType, "e")
			c.wants("Cluster +a=1", "ClusterLoadAssignment -e")
			h.opaque.unset(clusterType, "a")
			c.wants("Cluster -a")
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster +a=2")
		}},
		{"RES-6 what does not exist is told at once, and once", func(h *harness) {
			c := h.client()
			c.subscribe(routeType, "none")
			c.wants("RouteConfiguration -none")
			h.advance(0)
			c.wants()
			other := h.client() // from the cache
			other.subscribe(routeType, "none")
			other.wants("RouteConfiguration -none")
		}},
		{"RES-11 versions of the last stream", func(h *harness) {
			h.opaque.set(clusterType, "2", "same", "other", "fresh")
			h.client().subscribe(clusterType)
			h.quiet()
			h.opaque.settle()
			c := h.client()
			c.send(&request{TypeUrl: clusterType, InitialResourceVersions: map[string]string{"same": "2", "other": "1", "gone": "1"}})
			c.wants("Cluster +fresh=2 +other=2 -gone")
			c.send(&request{TypeUrl: clusterType, InitialResourceVersions: map[string]string{"fresh": "2"}})
			c.wants()
			h.opaque.set(clusterType, "3", "same")
			c.wants("Cluster +same=3")
		}},
		{"RES-11 versions by name", func(h *harness) {
			h.opaque.set(endpointType, "2", "same", "other")
			c := h.client()
			c.send(&request{
				TypeUrl:                 endpointType,
				ResourceNamesSubscribe:  []string{"same", "other", "gone"},
				InitialResourceVersions: map[string]string{"same": "2", "other": "1", "gone": "1", "unrelated": "1"},
			})
			got := holds(c.take())
			if !maps.Equal(got, map[string]string{"other": "2"}) {
				h.Errorf("client was sent %v", got)
			}
			if last := c.all[len(c.all)-1]; !slices.Equal(last.RemovedResources, []string{"gone"}) {
				h.Errorf("RES-11: removed %q", last.RemovedResources)
			}
		}},
		{"RES-11 a cold relay removes nothing that it does not know", func(h *harness) {
			h.opaque.silent = true
			c := h.client()
			c.send(&request{TypeUrl: clusterType, InitialResourceVersions: map[string]string{"a": "1", "b": "1"}})
			c.send(&request{TypeUrl: endpointType, ResourceNamesSubscribe: []string{"a"}, InitialResourceVersions: map[string]string{"a": "1"}})
			h.quiet()
			h.opaque.settle()
			c.wants()
			h.opaque.silent = false
			h.opaque.exists[clusterType] = nil
			h.opaque.set(clusterType, "1", "a")
			c.wants() // known now, and what the client has
			h.opaque.lose(0)
			h.quiet()
			c.wants("ClusterLoadAssignment -a")
			h.opaque.settle()
			c.wants("Cluster -b")
		}},
		{"RES-15 what was listed is sent when it is asked for later", func(h *harness) {
			h.opaque.set(endpointType, "1", "a")
			c := h.client()
			c.send(&request{TypeUrl: endpointType, ResourceNamesSubscribe: []string{"a"}, InitialResourceVersions: map[string]string{"a": "1", "b": "1"}})
			c.wants()
			c.subscribe(endpointType, "a")
			c.wants("ClusterLoadAssignment +a=1")
			// Only the first request for a type says what is held.
			c.send(&request{TypeUrl: endpointType, ResourceNamesSubscribe: []string{"a"}, InitialResourceVersions: map[string]string{"a": "1"}})
			c.wants("ClusterLoadAssignment +a=1")
		}},
		{"WARM-2 the first request on a stream that names endpoints is answered", func(h *harness) {
			h.opaque.set(endpointType, "1", "a")
			for range 2 {
				c := h.client()
				c.subscribe(endpointType, "a")
				c.wants("ClusterLoadAssignment +a=1")
			}
		}},
		{"ERR-1 errors are passed on", func(h *harness) {
			h.opaque.errors["broken"] = codes.Internal
			h.opaque.errors["secret"] = codes.PermissionDenied
			c := h.client()
			c.subscribe(endpointType, "broken", "secret")
			c.wants("ClusterLoadAssignment -secret !broken=Internal !secret=PermissionDenied")
		}},
		{"VAR-8 types that nobody has heard of, and unknown fields, byte by byte", func(h *harness) {
			r := resourceOf(unknownType, "x", "1")
			r.Resource.Value = []byte{0xff, 0x00, 0x80, 'n', 'o', ' ', 'p', 'r', 'o', 't', 'o'}
			unknown := protowire.AppendString(protowire.AppendTag(nil, 1999, protowire.BytesType), "from the future")
			r.ProtoReflect().SetUnknown(unknown)
			h.opaque.put(unknownType, r)
			c := h.client()
			c.subscribe(unknownType, "x")
			got := c.wants("Unheard +x=1")[0].Resources[0]
			if !bytes.Equal(got.Resource.Value, r.Resource.Value) || got.Resource.TypeUrl != unknownType ||
				!bytes.Equal(got.ProtoReflect().GetUnknown(), unknown) {
				h.Errorf("got %v", got)
			}
		}},
		{"RES-10 a subscription by alias", func(h *harness) {
			r := resourceOf(clusterType, "real", "1")
			r.Aliases = []string{"alias"}
			h.opaque.silent = true
			c := h.client()
			c.subscribe(clusterType, "alias")
			h.quiet()
			h.opaque.streams[0][clusterType]["real"] = true // the server matches it by its alias
			h.opaque.put(clusterType, r)
			c.wants("Cluster +real=1")
			// It comes back with that, under the name of the resource.
			back := h.client()
			back.send(&request{
				TypeUrl: clusterType, ResourceNamesSubscribe: []string{"alias"},
				InitialResourceVersions: map[string]string{"real": "1"},
			})
			back.wants()
			h.opaque.unset(clusterType, "real")
			back.wants("Cluster -alias -real")
		}},
		{"RES-16 a name that stands for nothing, as it came, at once and from the cache", func(h *harness) {
			h.opaque.silent = true
			first := h.client()
			first.subscribe(clusterType, "a", "b")
			h.quiet()
			none := &discovery.Resource{Name: "none", Aliases: []string{"a", "b"}, Version: "7"}
			none.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 1999, protowire.BytesType), "from the future"))
			h.opaque.apply(0, &wire.Response{TypeURL: clusterType, Resources: []*wire.Resource{h.opaque.wire(none)}})
			later := h.client()
			later.subscribe(clusterType, "b")
			for _, c := range []*client{first, later} {
				got := c.take()
				if len(got) != 1 || len(got[0].Resources) != 1 || len(got[0].RemovedResources) != 0 || !proto.Equal(got[0].Resources[0], none) {
					h.Errorf("got %v", got)
				}
			}
			state := h.state()
			state.asks(clusterType, "a")
			if got := state.take(); len(got) != 1 || len(got[0].Resources) != 0 {
				h.Errorf("a client of the state of the world got %v", got)
			}
		}},
		{"RES-10 RES-16 a virtual host that does not exist is let go when nobody asks for it any more", func(h *harness) {
			none := func(name string) *discovery.Resource {
				h.opaque.hidden[name] = true
				return &discovery.Resource{Name: name, Aliases: []string{name}, Version: "7"}
			}
			h.opaque.put(xds.VirtualHostType, none("a"), none("b"), none("c"))
			c := h.client()
			c.subscribe(xds.VirtualHostType) // as Envoys begin
			c.take()
			ask := func(name string) {
				h.Helper()
				c.subscribe(xds.VirtualHostType, name)
				if got := c.take(); len(got) != 1 || len(got[0].Resources) != 1 || got[0].Resources[0].Name != name {
					h.Errorf("%s: got %v", name, got)
				}
			}
			has := func(want ...string) {
				h.Helper()
				var got []string
				for _, names := range h.opaque.streams {
					got = append(got, slices.Collect(maps.Keys(names[xds.VirtualHostType]))...)
				}
				slices.Sort(got)
				if n := h.status().Types[xds.VirtualHostType].Subscriptions; !slices.Equal(got, want) || n != len(want) {
					h.Errorf("the control plane is asked for %q, want %q; the client has %d subscriptions", got, want, n)
				}
			}
			ask("a")
			h.advance(idle - time.Minute)
			ask("b")
			h.advance(time.Minute)
			has("*", "a", "b")
			ask("c")
			has("*", "b", "c")
			ask("a")
			has("*", "a", "b", "c")
			if n := h.opaque.asked["a"]; n != 2 {
				h.Errorf("the control plane was asked for a host %d times, want 2", n)
			}
		}},
	})
}

// sized puts n resources of about size bytes.
func (h *harness) sized(version string, n, size int) {
	h.Helper()
	for i := range n {
		r := resourceOf(clusterType, fmt.Sprintf("r%04d", i), version)
		r.Resource.Value = make([]byte, size)
		h.opaque.put(clusterType, r)
	}
}

func TestResponses_RES9_Split(t *testing.T) {
	const limit = 16 << 10
	bubble(t, func(h *harness) {
		h.sized("1", 500, 1000)
		c := h.slowClient()
		c.subscribe(clusterType)
		rounds := 0
		for {
			parts := c.take()
			if len(parts) == 0 {
				break
			}
			rounds++
			if len(parts) > maxParts {
				h.Errorf("%d parts at once, at most %d may be unacknowledged", len(parts), maxParts)
			}
			for i, r := range parts {
				if n := proto.Size(r); n > limit || (n < limit/2 && i < len(parts)-1) {
					h.Errorf("a part has %d bytes, the limit is %d", n, limit)
				}
				if i < len(parts)-1 {
					c.ack(r)
					if h.status().Types[clusterType].Acknowledged {
						h.Error("shown as acknowledged before the last part is")
					}
				}
			}
			c.ack(parts[len(parts)-1])
		}
		if got := holds(c.all); len(got) != 500 || rounds < 4 {
			h.Errorf("client holds %d resources after %d rounds", len(got), rounds)
		}
		if want := (500*1000)/limit + 1; len(c.all) > want+want/4 {
			h.Errorf("%d parts, about %d would do", len(c.all), want)
		}
	}, func(c *Config) { c.MaxMessageSize = limit })
}

func TestResponses_RES9_LargerThanTheLimitGoesAlone(t *testing.T) {
	bubble(t, func(h *harness) {
		h.sized("1", 3, 10)
		h.client().subscribe(clusterType) // so that the order of arrival counts
		h.quiet()
		big := resourceOf(clusterType, "big", "1")
		big.Resource.Value = make([]byte, 40<<10)
		h.opaque.put(clusterType, big)
		c := h.client()
		c.subscribe(clusterType)
		c.wants("Cluster +r0000=1 +r0001=1 +r0002=1", "Cluster +big=1")
	}, func(c *Config) { c.MaxMessageSize = 16 << 10 })
}

func TestResponses_RES9_RemovalsAreSplit(t *testing.T) {
	const limit = 16 << 10
	bubble(t, func(h *harness) {
		var names []string
		for i := range 1000 {
			names = append(names, fmt.Sprintf("%0100d", i))
		}
		h.opaque.set(clusterType, "1", names...)
		c := h.client()
		c.subscribe(clusterType)
		if n := len(holds(c.take())); n != 1000 {
			h.Errorf("client holds %d resources", n)
		}
		h.opaque.unset(clusterType, names...)
		c.take()
		if n := len(holds(c.all)); n != 0 {
			h.Errorf("client still holds %d resources", n)
		}
		for _, r := range c.all {
			if n := proto.Size(r); n > limit {
				h.Errorf("a response has %d bytes, the limit is %d", n, limit)
			}
		}
	}, func(c *Config) { c.MaxMessageSize = limit })
}
