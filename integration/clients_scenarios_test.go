package integration

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

// endpointsMove moves the endpoints of a service to another backend. Behind a
// relay the control plane then dies: clients go on, new ones are served, and what
// it comes back with reaches all of them. No RPC fails in all that.
func endpointsMove(t *testing.T, w *world) {
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

// clustersMove changes what stands above the endpoints, each time to resources
// that clients have not asked for so far, and drops the old ones when clients have
// moved. No RPC fails on the way.
func clustersMove(t *testing.T, w *world) {
	t.Helper()
	n := w.names
	listener, route := n.listener("service", "route"), n.route("route", "cluster")
	cluster, endpoints := n.cluster("cluster", "endpoints"), n.endpoints("endpoints", w.backends["a"])
	w.set(t, endpoints, cluster, route, listener)
	c := w.join(t, "client")
	c.await(t, "a")
	for _, move := range []struct {
		name string
		// late comes when clients have asked for the first of it.
		now, late, old []proto.Message
		to             string
	}{
		{
			name: "the route, to a new cluster", to: "b",
			now: []proto.Message{
				n.endpoints("endpoints-2", w.backends["b"]), n.cluster("cluster-2", "endpoints-2"), n.route("route", "cluster-2"),
			},
			old: []proto.Message{cluster, endpoints},
		},
		{
			name: "the cluster, to other endpoints", to: "c",
			now: []proto.Message{n.endpoints("endpoints-3", w.backends["c"]), n.cluster("cluster-2", "endpoints-3")},
			old: []proto.Message{n.endpoints("endpoints-2")},
		},
		{
			name: "the listener, to another route and cluster", to: "a",
			now: []proto.Message{
				n.endpoints("endpoints-4", w.backends["a"]), n.cluster("cluster-4", "endpoints-4"),
				n.route("route-4", "cluster-4"), n.listener("service", "route-4"),
			},
			old: []proto.Message{route, n.cluster("cluster-2", ""), n.endpoints("endpoints-3")},
		},
		{
			name: "the route, to a cluster that comes later", to: "b",
			now:  []proto.Message{n.route("route-4", "cluster-5")},
			late: []proto.Message{n.cluster("cluster-5", "endpoints-5"), n.endpoints("endpoints-5", w.backends["b"])},
			old:  []proto.Message{n.cluster("cluster-4", ""), n.endpoints("endpoints-4")},
		},
	} {
		t.Log(move.name)
		w.set(t, move.now...)
		if len(move.late) > 0 {
			w.awaitAsked(t, move.late[0])
			w.set(t, move.late...)
		}
		c.await(t, move.to)
		w.drop(t, move.old...)
		c.stays(t, move.to)
	}
}
