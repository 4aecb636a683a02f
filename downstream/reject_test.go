package downstream

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// picky is a client that rejects each response that holds a bad resource, and uses nothing
// of that. What it accepts it holds.
type picky struct {
	*client

	bad       func(name, version string) bool
	held      map[string]string
	responses int
	alone     map[string]bool // bad resources that it was sent with nothing else
	last      string          // name in its last response, if that had one
}

func (h *harness) picky(bad ...string) *picky {
	h.Helper()
	return &picky{
		client: h.slowClient(), held: map[string]string{}, alone: map[string]bool{},
		bad: func(name, version string) bool { return version == "bad" || slices.Contains(bad, name) },
	}
}

// settle answers until nothing comes any more.
func (p *picky) settle() *picky {
	p.h.Helper()
	for got := p.take(); len(got) > 0; got = p.take() {
		for _, r := range got {
			p.answer(r)
		}
	}
	return p
}

func (p *picky) answer(r *response) {
	p.responses++
	rejected := slices.ContainsFunc(r.Resources, func(x *resource) bool { return p.bad(x.Name, x.Version) })
	if len(r.Resources) == 1 {
		p.last = r.Resources[0].Name
		p.alone[p.last] = rejected
	}
	if rejected {
		p.nack(r, "it is bad")
		return
	}
	for _, x := range r.Resources {
		p.held[x.Name] = x.Version
	}
	for _, name := range r.RemovedResources {
		delete(p.held, name)
	}
	p.ack(r)
}

// holds compares what the client holds.
func (p *picky) holds(version string, names ...string) {
	p.h.Helper()
	want := map[string]string{}
	for _, n := range names {
		want[n] = version
	}
	if !maps.Equal(p.held, want) {
		p.h.Errorf("the client holds %d resources: %v, want %d", len(p.held), p.held, len(want))
	}
}

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("c%05d", i)
	}
	return names
}

func TestRejections_ACK3(t *testing.T) {
	runAll(t, []scenario{
		{"of 100 in one response 3 are bad", func(h *harness) {
			names := numbered(100)
			bad := []string{names[7], names[8], names[93]}
			good := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(bad, n) })
			h.opaque.set(clusterType, "1", names...)
			c := h.picky()
			c.bad = func(name, version string) bool { return version == "1" && slices.Contains(bad, name) }
			c.subscribe(clusterType)
			c.settle().holds("1", good...)
			for _, n := range bad {
				if !c.alone[n] {
					h.Errorf("%s was not sent alone", n)
				}
			}
			if c.responses > 1+3*2*7 {
				h.Errorf("%d responses", c.responses)
			}
			was := c.responses
			h.advance(time.Hour)
			if c.settle(); c.responses > was+len(bad) {
				h.Errorf("%d responses more: each bad one goes at most once more, as good ones were accepted after it", c.responses-was)
			}
			was = c.responses
			h.advance(time.Hour)
			if c.settle(); c.responses != was {
				h.Errorf("%d responses more, though nothing changed", c.responses-was)
			}
			h.opaque.set(clusterType, "2", bad...)
			c.settle()
			h.opaque.set(clusterType, "2", good...)
			c.settle().holds("2", names...)
		}},
		{"10,000 with one bad cost 40 responses at most, and each later client one", func(h *harness) {
			names := numbered(10_000)
			h.opaque.set(clusterType, "1", names...)
			first := h.picky(names[6789])
			first.subscribe(clusterType)
			first.settle().holds("1", slices.Delete(slices.Clone(names), 6789, 6790)...)
			if first.responses > 1+40 {
				h.Errorf("%d responses to the first client", first.responses)
			}
			for range 3 {
				later := h.picky(names[6789])
				later.subscribe(clusterType)
				later.settle().holds("1", slices.Delete(slices.Clone(names), 6789, 6790)...)
				if later.responses != 2 || later.last != names[6789] {
					h.Errorf("%d responses to a later client, the last one with %q; want the bad one in its own", later.responses, later.last)
				}
			}
		}},
		{"two responses, a bad one and a good one, that were merged", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.picky()
			c.subscribe(clusterType)
			first := c.wants("Cluster +a=1 +b=1")[0]
			h.opaque.set(clusterType, "bad", "a")
			h.opaque.set(clusterType, "2", "b")
			c.answer(first)
			c.settle()
			if !maps.Equal(c.held, map[string]string{"a": "1", "b": "2"}) {
				h.Errorf("the client holds %v", c.held)
			}
		}},
		{"names, and both a name and a member", func(h *harness) {
			h.opaque.set(endpointType, "1", "a", "b", "c", "d")
			c := h.picky("b")
			c.subscribe(endpointType, "a", "b", "c")
			c.settle().holds("1", "a", "c")
			h.opaque.set(clusterType, "1", "x", "y", "z")
			c.subscribe(clusterType, "*", "y")
			c.bad = func(name, _ string) bool { return name == "z" }
			clear(c.held)
			c.settle().holds("1", "x", "y")
		}},
		{"what the response removed is told again", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b", "c")
			c := h.picky()
			c.subscribe(clusterType)
			c.settle()
			h.opaque.put(clusterType, resourceOf(clusterType, "a", "bad"), resourceOf(clusterType, "b", "2"))
			h.opaque.unset(clusterType, "c")
			c.settle()
			if !maps.Equal(c.held, map[string]string{"a": "1", "b": "2"}) {
				h.Errorf("the client holds %v", c.held)
			}
		}},
		{"a resource that changed meanwhile is not sent twice", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.slowClient()
			c.subscribe(clusterType)
			first := c.wants("Cluster +a=1 +b=1")[0]
			h.opaque.set(clusterType, "2", "b")
			c.nack(first, "a is bad")
			c.wants("Cluster +b=2") // and a stood alone in what is left of the first
			c.wants()
		}},
		{"what was rejected alone is tried once more when a removal was accepted", func(h *harness) {
			h.opaque.set(listenerType, "1", "in-the-way")
			c := h.picky()
			c.bad = func(name, _ string) bool { return name == "l" && c.held["in-the-way"] != "" }
			c.subscribe(listenerType)
			c.settle()
			h.opaque.set(listenerType, "1", "l")
			c.settle().holds("1", "in-the-way")
			h.opaque.unset(listenerType, "in-the-way")
			c.settle().holds("1", "l")
			c.bad = func(name, _ string) bool { return name == "l" || name == "m" }
			h.opaque.set(listenerType, "2", "l", "m", "n")
			c.settle()
			was := c.responses
			h.opaque.unset(listenerType, "n")
			c.settle()
			if c.responses != was+3 { // the removal, and each of the two once
				h.Errorf("%d responses after a removal", c.responses-was)
			}
			h.opaque.set(listenerType, "1", "o")
			c.settle()
			h.opaque.unset(listenerType, "o")
			was = c.responses
			c.settle()
			if c.responses != was+1 { // then silence
				h.Errorf("%d responses after another removal", c.responses-was)
			}
		}},
		{"who rejects everything is not sent more than twice as much", func(h *harness) {
			names := numbered(200)
			h.opaque.set(clusterType, "1", names...)
			c := h.picky(names...)
			c.subscribe(clusterType)
			c.settle().holds("1")
			if c.responses > 2*len(names) {
				h.Errorf("%d responses", c.responses)
			}
			other := h.picky()
			other.subscribe(clusterType)
			other.settle().holds("1", names...)
			if other.responses > 1+64 {
				h.Errorf("%d responses to a client that accepts everything", other.responses)
			}
		}},
		{"a list of a full-state type is not sent in parts", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			c.nack(c.wants("Cluster a@1 b@1")[0], "b is bad")
			h.advance(time.Hour)
			c.wants()
		}},
		{"other types of the state of the world are", func(h *harness) {
			h.opaque.set(endpointType, "1", "a", "b", "c")
			c := h.stateOn(adsStream, false)
			c.asks(endpointType, "a", "b", "c")
			c.nack(c.wants("ClusterLoadAssignment a@1 b@1 c@1")[0], "b is bad")
			got := c.wants("ClusterLoadAssignment a@1", "ClusterLoadAssignment b@1 c@1")
			c.ack(got[0])
			c.nack(got[1], "b is bad")
			got = c.wants("ClusterLoadAssignment b@1", "ClusterLoadAssignment c@1")
			c.nack(got[0], "b is bad")
			c.ack(got[1])
			h.advance(time.Hour)
			c.wants()
		}},
		{"over several stores each response goes back to its own", func(h *harness) {
			inA := "xdstp://a/envoy.config.cluster.v3.Cluster/"
			h.opaque.set(clusterType, "1", "a", "b")
			h.a.set(clusterType, "1", inA+"c", inA+"d")
			c := h.picky("b", inA+"c")
			c.subscribe(clusterType, "*", inA+"c", inA+"d")
			c.settle().holds("1", "a", inA+"d")
		}},
	})
}

// The gauge of clients that reject something now, by type.
func TestRejecting_ACK7(t *testing.T) {
	runAll(t, []scenario{
		{"ACK-7 a client counts until it accepts the changed content", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b", "c")
			c := h.picky("b")
			c.subscribe(clusterType)
			c.settle()
			h.rejects(clusterType, 1)
			h.opaque.set(clusterType, "2", "a") // something else of the type, which it accepts
			c.settle()
			h.rejects(clusterType, 1)
			c.bad = func(string, string) bool { return false }
			h.opaque.set(clusterType, "2", "b")
			c.settle()
			h.rejects(clusterType, 0)
		}},
		{"ACK-7 while the parts of a rejected response are on their way it goes on counting", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.picky("b")
			c.subscribe(clusterType)
			c.answer(c.wants("Cluster +a=1 +b=1")[0])
			halves := c.wants("Cluster +a=1", "Cluster +b=1")
			h.rejects(clusterType, 1)
			c.answer(halves[0])
			h.quiet()
			h.rejects(clusterType, 1)
			c.answer(halves[1])
			c.settle()
			h.rejects(clusterType, 1)
		}},
		{"ACK-7 what is gone is not rejected any more", func(h *harness) {
			h.opaque.set(endpointType, "1", "a", "b")
			c := h.picky("b")
			c.subscribe(endpointType, "a", "b")
			c.settle()
			h.rejects(endpointType, 1)
			h.opaque.unset(endpointType, "b")
			h.advance(time.Minute)
			c.settle()
			h.rejects(endpointType, 0)
		}},
		{"ACK-7 nor is what the client does not subscribe to any more", func(h *harness) {
			h.opaque.set(endpointType, "1", "a", "b")
			c := h.picky("b")
			c.subscribe(endpointType, "a", "b")
			c.settle()
			c.send(&request{TypeUrl: endpointType, ResourceNamesUnsubscribe: []string{"b"}})
			h.quiet()
			h.rejects(endpointType, 0)
		}},
		{"ACK-7 each client counts once for each type, until it leaves", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.opaque.set(endpointType, "1", "x", "y")
			first, second := h.picky("a", "x", "y"), h.picky("a")
			for _, c := range []*picky{first, second} {
				c.subscribe(clusterType)
				c.subscribe(endpointType, "x", "y")
				c.settle()
			}
			h.rejects(clusterType, 2)
			h.rejects(endpointType, 1)
			first.cancel()
			h.quiet()
			h.rejects(clusterType, 1)
			h.rejects(endpointType, 0)
		}},
		{"ACK-7 a state-of-the-world client accepts or rejects the whole list", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			h.opaque.settle()
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			r := c.wants("Cluster a@1 b@1")[0]
			c.nack(r, "no b")
			h.quiet()
			h.rejects(clusterType, 1)
			h.opaque.set(clusterType, "2", "b")
			c.ack(c.wants("Cluster a@1 b@2")[0])
			h.quiet()
			h.rejects(clusterType, 0)
		}},
	})
}
