package behaviours

import (
	"fmt"
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

func cluster(name string, timeout time.Duration) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(timeout),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
	}
}

func named(all ...proto.Message) map[string]proto.Message {
	m := make(map[string]proto.Message)
	for _, r := range all {
		m[plane.KeyOf(r).Name] = r
	}
	return m
}

// asking is a way to ask for clusters.
type asking struct {
	name  string
	form  xdsclient.Form
	names []string
	// whole: it is a wildcard. odd: it names a cluster that is not part of that.
	whole, odd bool
}

func askings() []asking {
	return []asking{
		{"incremental, an empty request", xdsclient.Incremental, nil, true, false},
		{"incremental, *", xdsclient.Incremental, []string{"*"}, true, false},
		{"incremental, * and a name", xdsclient.Incremental, []string{"*", "odd"}, true, true},
		{"incremental, names", xdsclient.Incremental, []string{"c1", "odd"}, false, true},
		{"SotW, an empty request", xdsclient.SotW, nil, true, false},
		{"SotW, *", xdsclient.SotW, []string{"*"}, true, false},
		{"SotW, * and a name", xdsclient.SotW, []string{"*", "odd"}, true, true},
		{"SotW, names", xdsclient.SotW, []string{"c1", "odd"}, false, true},
	}
}

// has is what a client has that asks so, of clusters that there are.
func (a asking) has(listed []proto.Message, odd proto.Message) map[string]proto.Message {
	m := named(listed...)
	if !a.whole {
		for name := range m {
			if name != "c1" {
				delete(m, name)
			}
		}
	}
	if a.odd {
		m["odd"] = odd
	}
	return m
}

// Before control planes of every kind clients of every form have all that they ask for and
// nothing else, from the start, after changes, and after the streams broke. The control
// plane sees empty first requests, names on another stream, and no "*".
func TestWildcard_SUB14_SUB12_SUB10_RES12(t *testing.T) {
	t.Parallel()
	for name, behaviour := range map[string]plane.Behaviour{
		"Consul": plane.Consul(), "go-control-plane 0.10.3": plane.GoControlPlane0103(), "go-control-plane": plane.GoControlPlane(),
		"Istio": plane.Istio(), "of one stream": {OneStream: true},
	} {
		for _, up := range []config.APIType{config.AggregatedDeltaGRPC, config.AggregatedGRPC} {
			for relays := 1; relays <= 2; relays++ {
				t.Run(fmt.Sprintf("%s/%s/%d relays", name, up, relays), func(t *testing.T) {
					t.Parallel()
					testWildcard(newWorld(t, behaviour, relays, up), behaviour)
				})
			}
		}
	}
}

func testWildcard(w *world, b plane.Behaviour) {
	w.t.Helper()
	c1, c2, odd := cluster("c1", 1), cluster("c2", 1), cluster("odd", 1)
	w.plane.Apply(plane.Change{Set: []plane.Resource{plane.Named(c1), plane.Named(c2), {Name: "odd", Message: odd, Unlisted: true}}})
	clients := make([]*client, len(askings()))
	for i, a := range askings() {
		clients[i] = w.dial(a.form, plane.Cluster, a.names...)
	}
	all := func(what string, odd proto.Message, listed ...proto.Message) {
		w.t.Helper()
		for i, a := range askings() {
			want := a.has(listed, odd)
			if b.OneStream && a.whole {
				// What somebody names is no member there: the wildcard alone lacks c1 if
				// the name was asked for before it came.
				clients[i].awaitOr(what+": "+a.name, plane.Cluster, want, "c1")
				continue
			}
			clients[i].await(what+": "+a.name, plane.Cluster, want)
		}
	}
	all("the first state", odd, c1, c2)
	c2, c3 := cluster("c2", 2), cluster("c3", 1)
	odd = cluster("odd", 2)
	w.plane.Apply(plane.Change{Set: []plane.Resource{
		plane.Named(c2), plane.Named(c3), {Name: "odd", Message: odd, Unlisted: true},
	}})
	all("changes", odd, c1, c2, c3)
	before := len(w.plane.Requests(plane.Cluster))
	w.checkRequests(b, 0)
	w.plane.BreakStreams()
	w.until("the streams come back", func() bool { return w.plane.Asked(plane.Cluster, "*") && w.plane.Asked(plane.Cluster, "odd") },
		func() any { return w.plane.Streams() })
	w.plane.Remove(c3)
	c4 := cluster("c4", 1)
	w.plane.Set(c4)
	all("after the streams broke", odd, c1, c2, c4)
	w.checkRequests(b, before)
}

// awaitOr is await, where one name may be missing.
func (c *client) awaitOr(what, typeURL string, want map[string]proto.Message, optional string) {
	c.w.t.Helper()
	less := make(map[string]proto.Message)
	for name, m := range want {
		if name != optional {
			less[name] = m
		}
	}
	c.w.until(what, func() bool { return c.holds(typeURL, want) || c.holds(typeURL, less) }, func() any { return c.names(typeURL) })
}

// checkRequests looks at what the control plane was asked for clusters, from a request on.
func (w *world) checkRequests(b plane.Behaviour, from int) {
	w.t.Helper()
	type asked struct{ whole, names bool }
	streams := make(map[int]*asked)
	for _, r := range w.plane.Requests(plane.Cluster)[from:] {
		s := streams[r.Stream]
		if s == nil {
			s = new(asked)
			streams[r.Stream] = s
			if len(r.Subscribe) == 0 && r.Nonce == "" {
				s.whole = true
			}
			if from > 0 && r.Delta && s.whole && len(r.Versions) == 0 {
				w.t.Errorf("stream %d resumes with no versions", r.Stream)
			}
		}
		s.names = s.names || len(r.Subscribe) > 0
		if slices.Contains(r.Subscribe, "*") && (r.Delta || !b.OneStream) {
			w.t.Errorf("stream %d is asked for %q", r.Stream, r.Subscribe)
		}
	}
	for number, s := range streams {
		if s.whole && s.names && !b.OneStream {
			w.t.Errorf("stream %d is asked for everything and for names", number)
		}
	}
	if open, want := w.plane.Streams(), 2; open > want || b.OneStream && open > 1 {
		w.t.Errorf("%d streams are open", open)
	}
}

// Istio pushes endpoints again, unchanged and without a version, to end the warming of a
// cluster: they reach the clients (WARM-3).
func TestIstio_SUB14_WARM3(t *testing.T) {
	w := newWorld(t, plane.Istio(), 1, config.AggregatedDeltaGRPC)
	c1 := cluster("c1", 1)
	e1 := &endpointv3.ClusterLoadAssignment{ClusterName: "c1"}
	w.plane.Set(c1, e1)
	c := w.dial(xdsclient.Incremental, plane.Cluster)
	c.hears("the cluster", "+c1")
	c.Subscribe(plane.Endpoints, "c1")
	c.hears("its endpoints", "+c1")
	w.plane.Set(cluster("c1", 2))
	c.hears("both once more", "+c1", "+c1")
}
