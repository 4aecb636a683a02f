package upstream_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// rig is a session between a go-control-plane and a real store, with one client.
type rig struct {
	*testing.T

	api     upstream.APIType
	plane   *gocontrolplane.ControlPlane
	cache   *cache.Cache
	store   *cache.Store
	session *upstream.Session
	client  *delivery.Place
}

func newRig(t *testing.T, api upstream.APIType, plane *gocontrolplane.ControlPlane) *rig {
	t.Helper()
	r := &rig{T: t, api: api, plane: plane, cache: cache.New(cache.Limits{Idle: time.Hour}, nil)}
	t.Cleanup(plane.Close)
	if err := plane.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	full := map[string]bool{}
	for _, typeURL := range keyer.FullStateTypes() {
		full[typeURL] = true
	}
	r.store = r.cache.Open(cache.Source{
		Quiet: 100 * time.Millisecond, Absent: 500 * time.Millisecond,
		FullState: full, State: api.State(), PerType: api.PerType(),
	})
	u, err := upstream.New(upstream.Config{
		Name: "plane", Endpoints: [][]string{{plane.Addr()}}, APIType: api,
		Backoff:   upstream.Backoff{Base: 10 * time.Millisecond, Max: 50 * time.Millisecond},
		Keepalive: upstream.Keepalive{Response: -1}, // the streams are counted
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	if r.session, err = u.NewSession(upstream.SessionConfig{Node: &corev3.Node{Id: "relay"}, Store: r.store.Session()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.session.Run(ctx) }() // its error is the context's
	t.Cleanup(func() { cancel(); <-done })
	r.client = delivery.Join(r.store, func() {}, delivery.Form{})
	return r
}

// change changes what the client subscribes to: "+name" and "-name".
func (r *rig) change(typeURL string, words ...string) {
	r.Helper()
	ch := delivery.Change{TypeURL: typeURL}
	for _, w := range words {
		n := cache.Name{Spelling: w[1:], Key: w[1:]}
		if w[0] == '+' {
			ch.Subscribe = append(ch.Subscribe, n)
		} else {
			ch.Unsubscribe = append(ch.Unsubscribe, n)
		}
	}
	r.client.Update(&ch)
}

// set publishes a cluster or the endpoints of one, told apart by a text in them.
func (r *rig) set(typeURL, name, text string) {
	r.Helper()
	var m proto.Message = &clusterv3.Cluster{Name: name, AltStatName: text}
	if typeURL == resourcev3.EndpointType {
		m = &endpointv3.ClusterLoadAssignment{
			ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{Locality: &corev3.Locality{Zone: text}}},
		}
	}
	if _, err := r.plane.UpdateResource(name, m); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) remove(typeURL, name string) {
	r.Helper()
	if err := r.plane.DeleteResource(typeURL, name); err != nil {
		r.Fatal(err)
	}
}

// holds says what the store holds of a type: "name=text", or "name:state" of a name
// that is not present.
func (r *rig) holds(typeURL string) []string {
	var out []string
	for _, i := range r.store.Resources(typeURL, "") {
		if i.Resource == nil {
			out = append(out, i.Name+":"+i.State)
			continue
		}
		var a anypb.Any
		if err := proto.Unmarshal(i.Resource.Any(), &a); err != nil {
			r.Fatal(err)
		}
		m, err := a.UnmarshalNew()
		if err != nil {
			r.Fatal(err)
		}
		text := ""
		switch m := m.(type) {
		case *clusterv3.Cluster:
			text = m.GetAltStatName()
		case *endpointv3.ClusterLoadAssignment:
			text = m.GetEndpoints()[0].GetLocality().GetZone()
		}
		out = append(out, i.Name+"="+text)
	}
	slices.Sort(out)
	return out
}

// await waits until the store holds exactly what is written.
func (r *rig) await(step, typeURL string, want ...string) {
	r.Helper()
	deadline, tick := time.After(10*time.Second), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for {
		got := r.holds(typeURL)
		if slices.Equal(got, want) {
			break
		}
		select {
		case <-deadline:
			r.Fatalf("%s: holds %v, want %v; session %+v", step, got, want, r.session.Status())
		case <-tick.C:
		}
	}
	if err := r.store.Check(); err != nil {
		r.Fatalf("%s: %v", step, err)
	}
}

// Every variant against go-control-plane's caches: a first state, updates, additions
// and removals, names that do not exist and appear, names let go and wanted again, and
// a restart of the server, which counts its versions from one again (VAR-1 to VAR-4,
// VAR-7, ACK-4, SUB-10, SUB-11, SUB-12, RES-7, RES-8, RES-12).
func TestVAR1VAR2VAR3VAR4VAR7GoControlPlane(t *testing.T) {
	planes := map[string]func() *gocontrolplane.ControlPlane{
		"linear":   func() *gocontrolplane.ControlPlane { return gocontrolplane.New() },
		"snapshot": gocontrolplane.NewSnapshot,
	}
	for _, api := range upstream.APITypes() {
		for _, kind := range slices.Sorted(maps.Keys(planes)) {
			t.Run(string(api)+" "+kind, func(t *testing.T) { testGoControlPlane(newRig(t, api, planes[kind]())) })
		}
	}
}

func testGoControlPlane(r *rig) {
	const cds, eds = resourcev3.ClusterType, resourcev3.EndpointType
	for _, name := range []string{"a", "b"} {
		r.set(cds, name, "1")
		r.set(eds, name, "1")
	}
	r.change(cds, "+*")
	r.change(eds, "+a", "+b", "+none")
	r.await("first state", cds, "a=1", "b=1")
	// An incremental server must say that there is no such name; this one does not.
	none := "none:unknown"
	if r.api.State() {
		none = "none:failed"
	}
	r.await("RES-7 a name that does not exist", eds, "a=1", "b=1", none)

	r.set(cds, "a", "2")
	r.set(cds, "c", "1")
	r.await("update and addition", cds, "a=2", "b=1", "c=1")
	r.remove(cds, "b")
	r.await("RES-8 removal", cds, "a=2", "c=1")
	r.set(eds, "a", "2")
	r.await("update of a name", eds, "a=2", "b=1", none)
	r.set(eds, "none", "1")
	r.await("SUB-9 the absent name appears", eds, "a=2", "b=1", "none=1")

	r.change(eds, "-a")
	r.cache.Expire(time.Now().Add(2 * time.Hour))
	r.await("SUB-11 a name is let go", eds, "b=1", "none=1")
	r.change(eds, "+a")
	r.await("and wanted again", eds, "a=2", "b=1", "none=1")

	// Beside the wildcard names, which the first stream cannot carry (SUB-12): all of
	// them, or a snapshot's state of the world is not sent.
	r.change(cds, "+a", "+c")
	r.await("SUB-12 names beside the wildcard", cds, "a=2", "a=2", "c=1", "c=1")

	r.plane.Stop()
	r.set(cds, "a", "3")
	r.remove(cds, "c")
	r.set(eds, "b", "2")
	if got := r.holds(cds); !slices.Equal(got, []string{"a=2", "a=2", "c=1", "c=1"}) {
		r.Errorf("OPS-1 while the server is gone: %v", got)
	}
	if err := r.plane.Restart(r.Context()); err != nil {
		r.Fatal(err)
	}
	r.await("ACK-4 other contents after a restart", cds, "a=3", "a=3", "c:absent")
	r.await("ACK-4 likewise of names", eds, "a=2", "b=2", "none=1")

	if st := r.session.Status(); st.Nacks > 0 || st.LastRejection != nil {
		r.Errorf("status %+v", st)
	}
	want := map[upstream.APIType]int{upstream.AggregatedDeltaGRPC: 2, upstream.AggregatedGRPC: 2, upstream.DeltaGRPC: 3, upstream.GRPC: 3}
	var stats gocontrolplane.Stats
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	if err := r.plane.Await(ctx, func(s gocontrolplane.Stats) bool { // of a stream that broke, it learns a moment later
		stats = s
		return len(s.Streams) == want[r.api]
	}); err != nil {
		r.Errorf("%d streams, want %d", len(stats.Streams), want[r.api])
	}
	for _, s := range stats.Streams {
		if s.Delta == r.api.State() || (s.Service != "") != r.api.PerType() {
			r.Errorf("stream of %q, incremental %t", s.Service, s.Delta)
		}
		for typeURL, subs := range s.Types {
			for name, n := range subs.Names {
				if n != 1 {
					r.Errorf("SUB-10 %q of %s was asked for %d times", name, strings.TrimPrefix(typeURL, "type.googleapis.com/"), n)
				}
			}
		}
	}
}
