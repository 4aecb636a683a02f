package downstream

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// ofA is a name of the authority that has an upstream.
func ofA(rest string) string { return "xdstp://a/envoy.config.cluster.v3.Cluster/" + rest }

func TestNames(t *testing.T) {
	runAll(t, []scenario{
		{"NAME-1 a malformed name is refused with the reason, and the stream stays", func(h *harness) {
			h.a.set(clusterType, "1", ofA("x"))
			c := h.client()
			c.subscribe(clusterType, "xdstp://", "xdstp://a", ofA("%zz"), ofA("x"))
			got := c.wants(
				"Cluster -xdstp:// -xdstp://a -"+ofA("%zz")+" !xdstp://=InvalidArgument !"+ofA("%zz")+"=InvalidArgument !xdstp://a=InvalidArgument",
				"Cluster +"+ofA("x")+"=1")
			if m := got[0].ResourceErrors[0].ErrorDetail.GetMessage(); !strings.Contains(m, "type is missing") {
				h.Errorf("NAME-1: the reason is %q", m)
			}
			if n := h.seen.refused[codes.InvalidArgument]; n != 3 {
				h.Errorf("%d refusals observed, want 3", n)
			}
			h.a.set(clusterType, "2", ofA("x"))
			c.wants("Cluster +" + ofA("x") + "=2")
		}},
		{"NAME-9 the empty string is a name like others", func(h *harness) {
			h.opaque.set(clusterType, "1", "", "a")
			c, other := h.client(), h.state()
			c.subscribe(clusterType, "", "a")
			c.wants("Cluster +=1 +a=1")
			other.asks(endpointType, "", "a")
			h.opaque.set(endpointType, "1", "")
			other.wants("ClusterLoadAssignment @1 !a=NotFound")
			h.opaque.set(clusterType, "2", "")
			c.wants("Cluster +=2")
			if n := h.opaque.asked[""]; n != 2 {
				h.Errorf("the control plane was asked %d times for the name, want once for each type", n)
			}
			h.opaque.unset(clusterType, "")
			c.wants("Cluster -")
			h.opaque.set(clusterType, "3", "")
			c.wants("Cluster +=3")
			c.unsubscribe(clusterType, "")
			h.quiet()
			h.opaque.set(clusterType, "4", "", "a")
			c.wants("Cluster +a=4")
			again := h.client()
			again.subscribe(clusterType, "*", "")
			h.quiet()
			if got := holds(again.take()); !maps.Equal(got, map[string]string{"": "4", "a": "4"}) {
				h.Errorf("client holds %v", got)
			}
		}},
		{"NAME-9 ERR-1 an error of the empty name", func(h *harness) {
			h.opaque.errors[""] = codes.NotFound
			c := h.client()
			c.subscribe(clusterType, "")
			c.wants("Cluster - !=NotFound")
		}},
		{"NAME-9 RES-11 a version of the empty name", func(h *harness) {
			h.opaque.set(clusterType, "1", "", "a")
			c := h.client()
			c.send(&request{
				TypeUrl: clusterType, ResourceNamesSubscribe: []string{"", "a"},
				InitialResourceVersions: map[string]string{"": "1", "a": "0"},
			})
			c.wants("Cluster +a=1")
		}},
		{"NAME-2 NAME-3 node, scope and spelling play no part", func(h *harness) {
			h.a.set(clusterType, "1", ofA("x?p=1&q=2"))
			for _, s := range []struct{ node, spelling string }{
				{"one", ofA("x?p=1&q=2")}, {"two", ofA("x?q=2&p=1")}, {"three", ofA("%78?p=1&q=2")},
			} {
				c := h.client()
				c.send(&request{TypeUrl: clusterType, Node: node(s.node), ResourceNamesSubscribe: []string{s.spelling}})
				c.wants("Cluster +" + s.spelling + "=1") // NAME-4
			}
			if n := h.a.asked[ofA("x?p=1&q=2")]; n != 1 || len(h.a.asked) != 1 {
				h.Errorf("the control plane was asked %v, want one name once", h.a.asked)
			}
			h.a.unset(clusterType, ofA("x?p=1&q=2"))
			h.quiet()
		}},
		{"NAME-4 removals and errors come under the client's spelling too", func(h *harness) {
			h.a.errors[ofA("bad?p=1&q=2")] = codes.Internal
			h.a.set(clusterType, "1", ofA("x?p=1&q=2"))
			c := h.client()
			c.subscribe(clusterType, ofA("x?q=2&p=1"), ofA("none?q=2&p=1"), ofA("bad?q=2&p=1"))
			h.quiet()
			if got := holds(c.take()); !maps.Equal(got, map[string]string{ofA("x?q=2&p=1"): "1"}) {
				h.Errorf("client holds %v", got)
			}
			h.a.unset(clusterType, ofA("x?p=1&q=2"))
			c.wants("Cluster -" + ofA("x?q=2&p=1"))
		}},
		{"NAME-4 NAME-8 directives are the client's", func(h *harness) {
			h.a.set(clusterType, "1", ofA("x"))
			c := h.client()
			c.subscribe(clusterType, ofA("x#alt=xdstp://b/envoy.config.cluster.v3.Cluster/x"))
			c.wants("Cluster +" + ofA("x#alt=xdstp://b/envoy.config.cluster.v3.Cluster/x") + "=1")
		}},
		{"RES-4 NAME-4 two spellings of one name are two names to the client", func(h *harness) {
			h.a.set(clusterType, "1", ofA("x?p=1&q=2"))
			c := h.client()
			one, two := ofA("x?p=1&q=2"), ofA("x?q=2&p=1")
			c.subscribe(clusterType, one, two, one, two)
			c.wants("Cluster +" + one + "=1 +" + two + "=1")
			h.a.set(clusterType, "2", one)
			c.wants("Cluster +" + one + "=2 +" + two + "=2")
			c.unsubscribe(clusterType, one)
			c.wants()
			h.a.set(clusterType, "3", one)
			c.wants("Cluster +" + two + "=3")
		}},
		{"NAME-5 a name of another type is refused", func(h *harness) {
			name := "xdstp://a/envoy.config.listener.v3.Listener/x"
			c := h.client()
			c.subscribe(clusterType, name)
			r := c.wants("Cluster -" + name + " !" + name + "=InvalidArgument")[0]
			if m := r.ResourceErrors[0].ErrorDetail.GetMessage(); !strings.Contains(m, "envoy.config.cluster.v3.Cluster") {
				h.Errorf("NAME-5: the reason does not say what was expected: %q", m)
			}
			c.unsubscribe(clusterType, name) // SUB-7
			c.wants()
		}},
		{"LOC-4 an authority without an upstream", func(h *harness) {
			name := "xdstp://nobody/envoy.config.cluster.v3.Cluster/x"
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.subscribe(clusterType, name, "a", name)
			c.wants("Cluster -"+name+" !"+name+"=NotFound", "Cluster +a=1")
			c.subscribe(clusterType, name) // SUB-6
			c.wants("Cluster -" + name + " !" + name + "=NotFound")
			c.unsubscribe(clusterType, name, name)
			c.wants()
			if n := h.seen.refused[codes.NotFound]; n != 3 {
				h.Errorf("LOC-4: %d refusals observed, want 3", n)
			}
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster +a=2")
		}},
		{"LOC-4 a glob of an authority without an upstream", func(h *harness) {
			name := "xdstp://nobody/envoy.config.cluster.v3.Cluster/*"
			c := h.client()
			c.subscribe(clusterType, name)
			c.wants("Cluster -" + name + " !" + name + "=NotFound")
		}},
		{"an authority that cannot be looked up now takes nothing away", func(h *harness) {
			h.router.failure = errors.New("shutting down")
			c := h.client()
			c.subscribe(clusterType, ofA("x"))
			c.wants()
			c.endedWith(codes.Unavailable, "shutting down")
		}},
		{"an authority that cannot be looked up now: its status is passed on", func(h *harness) {
			h.router.failure = status.Error(codes.Aborted, "not now")
			c := h.client()
			c.subscribe(clusterType, ofA("x"))
			c.wants()
			c.endedWith(codes.Aborted, "not now")
		}},
		{"names of several stores in one request, in one response each", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			h.a.set(clusterType, "1", ofA("x"), ofA("d/m"))
			c := h.client()
			c.subscribe(clusterType, "a", ofA("x"), "b", ofA("d/*"), "xdstp://b/y")
			h.quiet()
			want := map[string]string{"a": "1", "b": "1", ofA("x"): "1", ofA("d/m"): "1"}
			if got := holds(c.take()); !maps.Equal(got, want) {
				h.Errorf("client holds %v, want %v", got, want)
			}
			if n := h.status().Types[clusterType].Subscriptions; n != 4 {
				h.Errorf("%d subscriptions are shown, want 4", n)
			}
			c.unsubscribe(clusterType, "a", ofA("x"), ofA("d/*"))
			h.quiet()
			h.opaque.set(clusterType, "2", "a", "b")
			h.a.set(clusterType, "2", ofA("x"), ofA("d/m"))
			c.wants("Cluster +b=2")
		}},
		{"RES-11 versions of names of several stores", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			h.a.set(clusterType, "1", ofA("x?p=1&q=2"), ofA("y"))
			c := h.client()
			c.send(&request{
				TypeUrl:                 clusterType,
				ResourceNamesSubscribe:  []string{"a", "b", ofA("x?q=2&p=1"), ofA("y")},
				InitialResourceVersions: map[string]string{"a": "1", ofA("x?q=2&p=1"): "1", "xdstp://nobody/z": "1", "xdstp://": "1", "": "1"},
			})
			if got := holds(c.take()); !maps.Equal(got, map[string]string{"b": "1", ofA("y"): "1"}) {
				h.Errorf("client was sent %v", got)
			}
		}},
	})
}

func TestGlobs(t *testing.T) {
	runAll(t, []scenario{
		{"GLOB-1 members directly in the directory, several globs, beside names", func(h *harness) {
			h.a.set(clusterType, "1", ofA("d/1"), ofA("d/2"), ofA("d/sub/3"), ofA("e/4"), ofA("f/5"), ofA("6"))
			c := h.client()
			c.subscribe(clusterType, ofA("d/*"), ofA("e/*"), ofA("f/5"))
			want := map[string]string{ofA("d/1"): "1", ofA("d/2"): "1", ofA("e/4"): "1", ofA("f/5"): "1"}
			if got := holds(c.take()); !maps.Equal(got, want) {
				h.Errorf("client holds %v, want %v", got, want)
			}
			c.unsubscribe(clusterType, ofA("e/*"))
			h.quiet()
			h.a.set(clusterType, "2", ofA("e/4"), ofA("d/sub/3"))
			c.wants()
		}},
		{"GLOB-2 members flow one by one", func(h *harness) {
			var names []string
			for i := range 1000 {
				names = append(names, ofA(fmt.Sprintf("d/%d", i)))
			}
			h.a.set(clusterType, "1", names...)
			c := h.client()
			c.subscribe(clusterType, ofA("d/*"))
			if n := len(holds(c.take())); n != 1000 {
				h.Errorf("client holds %d members", n)
			}
			h.a.set(clusterType, "1", ofA("d/new"))
			c.wants("Cluster +" + ofA("d/new") + "=1")
			h.a.unset(clusterType, ofA("d/7"))
			c.wants("Cluster -" + ofA("d/7"))
		}},
		{"GLOB-3 context parameters match exactly, NAME-4 in the client's order", func(h *harness) {
			h.a.set(clusterType, "1", ofA("d/x"), ofA("d/x?p=1"), ofA("d/x?p=1&q=2"))
			c := h.client()
			c.subscribe(clusterType, ofA("d/*?q=2&p=1"))
			c.wants("Cluster +" + ofA("d/x?q=2&p=1") + "=1")
			h.a.unset(clusterType, ofA("d/x?p=1&q=2"))
			c.wants("Cluster -" + ofA("d/x?q=2&p=1"))
		}},
		{"GLOB-4 an empty collection is answered with the glob, as the client spells it", func(h *harness) {
			h.client().subscribe(clusterType, ofA("d/*?p=1&q=2"))
			c := h.client()
			c.subscribe(clusterType, ofA("d/*?q=2&p=1"))
			c.wants("Cluster -" + ofA("d/*?q=2&p=1"))
			h.a.set(clusterType, "1", ofA("d/x?p=1&q=2"))
			c.wants("Cluster +" + ofA("d/x?q=2&p=1") + "=1")
		}},
		{"GLOB-5 a member that was named stays until both are gone", func(h *harness) {
			h.a.set(clusterType, "1", ofA("d/x"), ofA("d/y"))
			c := h.client()
			c.subscribe(clusterType, ofA("d/*"), ofA("d/x"))
			c.take()
			c.unsubscribe(clusterType, ofA("d/*"))
			h.quiet()
			h.a.set(clusterType, "2", ofA("d/x"), ofA("d/y"))
			c.wants("Cluster +" + ofA("d/x") + "=2")
			c.subscribe(clusterType, ofA("d/*"))
			c.take()
			c.unsubscribe(clusterType, ofA("d/x"))
			c.wants()
			h.a.set(clusterType, "3", ofA("d/x"))
			c.wants("Cluster +" + ofA("d/x") + "=3")
			c.unsubscribe(clusterType, ofA("d/*"))
			h.quiet()
			h.a.set(clusterType, "4", ofA("d/x"), ofA("d/y"))
			c.wants()
			if got := holds(c.all); !maps.Equal(got, map[string]string{ofA("d/x"): "3", ofA("d/y"): "2"}) {
				h.Errorf("client holds %v", got)
			}
		}},
	})
}

// Refused names obey the limit of a message like everything else.
func TestNames_RES9_RefusalsAreSplit(t *testing.T) {
	const limit = 16 << 10
	bubble(t, func(h *harness) {
		var names []string
		for i := range 1000 {
			names = append(names, fmt.Sprintf("xdstp://nobody/envoy.config.cluster.v3.Cluster/%d", i))
		}
		c := h.client()
		c.subscribe(clusterType, names...)
		answered := map[string]bool{}
		for _, r := range c.take() {
			if n := proto.Size(r); n > limit {
				h.Errorf("a response has %d bytes, the limit is %d", n, limit)
			}
			for i, name := range r.RemovedResources {
				if answered[name] || r.ResourceErrors[i].ResourceName.GetName() != name {
					h.Errorf("%q is answered twice, or without an error", name)
				}
				answered[name] = true
			}
		}
		if len(answered) != len(names) {
			h.Errorf("%d of %d names are answered", len(answered), len(names))
		}
	}, func(c *Config) { c.MaxMessageSize = limit })
}
