package integration

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// rpcScenario is what each client goes through, with each server and each naming. No
// RPC may fail in it.
type rpcScenario struct {
	name   string
	proves string // requirements, of the relay
	play   func(testing.TB, *world)
}

func rpcScenarios() []rpcScenario {
	return []rpcScenario{
		{"endpoints move", "VAR-3 VAR-7 OPS-1 RES-12", endpointsMove},
		{"clusters move", "WARM-1 SUB-5 SUB-9 ADS-1", clustersMove},
	}
}

// title names it with what it proves: nothing of the relay's without a relay.
func (s rpcScenario) title(server xdsServer) string {
	if !server.relayed {
		return s.name
	}
	return s.proves + " " + s.name
}

// endpointsMove moves the endpoints of a service to another backend. Behind a
// relay the control plane then dies: clients go on, new ones are served, and what
// it comes back with reaches all of them.
func endpointsMove(t testing.TB, w *world) {
	t.Helper()
	n := w.names
	w.set(t, n.endpoints("endpoints", w.backends["a"]), n.cluster("cluster", "endpoints"),
		n.route("route", "cluster"), n.listener("service", "route"))
	before := w.join(t, "before")
	before.await(t, "a")
	w.set(t, n.endpoints("endpoints", w.backends["b"]))
	before.await(t, "b")
	before.stays(t, "b")
	if w.relay == nil {
		return
	}

	w.plane.Stop()
	before.stays(t, "b")
	during := w.join(t, "during")
	during.await(t, "b")
	w.set(t, n.endpoints("endpoints", w.backends["c"]))
	if err := w.plane.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*caller{before, during} {
		c.await(t, "c")
		c.stays(t, "c")
	}
}

// move changes what stands above the endpoints, so that RPCs go to another backend.
type move struct {
	name string
	// now is set one after the other; late is set when the client has asked for the
	// first of it; old is dropped when the client has moved.
	now, late, old []proto.Message
	// hasty: old is dropped without waiting for the client.
	hasty bool
	to    string
}

// clustersMove makes one move after the other, most of them to resources that the
// client has not asked for before: until it has all of the new it must use the old.
func clustersMove(t testing.TB, w *world) {
	t.Helper()
	n := w.names
	w.set(t, n.endpoints("endpoints-1", w.backends["a"]), n.cluster("cluster-1", "endpoints-1"),
		n.route("route-1", "cluster-1"), n.listener("service", "route-1"))
	c := w.join(t, "client")
	c.await(t, "a")
	for _, m := range moves(w) {
		t.Log(m.name)
		w.set(t, m.now...)
		if len(m.late) > 0 {
			w.awaitAsked(t, m.late[0])
			w.set(t, m.late...)
		}
		if m.hasty {
			w.drop(t, m.old...)
		}
		c.await(t, m.to)
		if !m.hasty {
			w.drop(t, m.old...)
		}
		c.stays(t, m.to)
	}
}

func moves(w *world) []move {
	n, a, b, c := w.names, w.backends["a"], w.backends["b"], w.backends["c"]
	limited := n.cluster("cluster-2", "endpoints-3")
	limited.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{
		{MaxRequests: wrapperspb.UInt32(100)},
	}}
	return []move{
		{
			// Behind a relay clients have the new before they lose the old (ADS-1).
			// go-control-plane's SotW server takes what is ready of several types in
			// any order, and streams of one type each have none among them.
			name: "the route, to a new cluster", to: "b", hasty: w.ordered,
			now: []proto.Message{n.endpoints("endpoints-2", b), n.cluster("cluster-2", "endpoints-2"), n.route("route-1", "cluster-2")},
			old: []proto.Message{n.cluster("cluster-1", "endpoints-1"), n.endpoints("endpoints-1")},
		},
		{
			name: "the cluster, to other endpoints", to: "c",
			now: []proto.Message{n.endpoints("endpoints-3", c), n.cluster("cluster-2", "endpoints-3")},
			old: []proto.Message{n.endpoints("endpoints-2")},
		},
		{
			name: "the cluster in its place, then its endpoints", to: "a",
			now: []proto.Message{limited, n.endpoints("endpoints-3", a)},
		},
		{
			// Not hasty: a client that has the new listener still needs the old route
			// and its cluster until it has asked for the new ones.
			name: "the listener, to another route and cluster", to: "b",
			now: []proto.Message{
				n.endpoints("endpoints-4", b), n.cluster("cluster-4", "endpoints-4"),
				n.route("route-4", "cluster-4"), n.listener("service", "route-4"),
			},
			old: []proto.Message{n.route("route-1", "cluster-2"), limited, n.endpoints("endpoints-3")},
		},
		{
			name: "the route, to a cluster that comes later", to: "c",
			now:  []proto.Message{n.route("route-4", "cluster-5")},
			late: []proto.Message{n.cluster("cluster-5", "endpoints-5"), n.endpoints("endpoints-5", c)},
			old:  []proto.Message{n.cluster("cluster-4", "endpoints-4"), n.endpoints("endpoints-4")},
		},
	}
}
