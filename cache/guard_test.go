package cache

import (
	"maps"
	"slices"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
)

// assignment is one with an endpoint, or with none.
func assignment(tb testing.TB, name, version string, full bool) *wire.Resource {
	tb.Helper()
	a := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	if full {
		a.Endpoints = []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{}}}}
	}
	payload, err := anypb.New(a)
	if err != nil {
		tb.Fatal(err)
	}
	r, err := wire.NewResource(&discovery.Resource{Name: name, Version: version, Resource: payload})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// guarded is a store whose server sent three clusters with "*", of which one has an error, two clusters in a glob, one
// by its name and with an alias, and assignments with and without endpoints.
func guarded(tb testing.TB, state bool, g hold.Guard) *kept {
	tb.Helper()
	k := newKeptOf(tb, Source{Quiet: time.Second, State: state, Guard: g})
	l := k.listener(NeedsStream)
	l.follow(Wildcard)
	k.listener(NeedsStream).follow(glob)
	for _, name := range []string{"n", "asked", "alias"} {
		l.watch(name)
	}
	k.store.mu.Lock()
	for _, name := range []string{"full", "empty", "unknown"} {
		t := k.store.Table(xds.EndpointType, ByName)
		t.Watch(t.Entry(name), NeedsStream, func(Audience) Audience { return &crowd{l} })
	}
	k.store.mu.Unlock()
	k.demand(WholeType)
	said := func(kind Kind, r *wire.Response) {
		r.State = state
		k.apply(kind, r)
	}
	said(WholeType, response("+a@1", "+b@1", "+c@1"))
	said(WholeType, &wire.Response{TypeURL: cds, Resources: response("+a@1", "+b@1").Resources, Errors: []wire.ResourceError{{Name: "c", Code: codes.Unavailable}}})
	said(ByName, response("+"+name+"@1", "+"+globTwo+"@1", "+n@1|alias"))
	said(WholeType, &wire.Response{TypeURL: xds.EndpointType, Resources: []*wire.Resource{assignment(tb, "full", "1", true), assignment(tb, "empty", "1", false)}})
	return k
}

const globTwo = "xdstp://x/envoy.config.cluster.v3.Cluster/g/2"

// What a response takes is counted, and what it brings instead (SUR-3).
func TestLossOf_SUR3(t *testing.T) {
	withErrors := func(r *wire.Response, errs ...wire.ResourceError) *wire.Response {
		r.Errors = errs
		return r
	}
	endpoints := func(all ...*wire.Resource) *wire.Response {
		return &wire.Response{TypeURL: xds.EndpointType, Resources: all}
	}
	notFound := func(name string) wire.ResourceError { return wire.ResourceError{Name: name, Code: codes.NotFound} }
	for _, tc := range []struct {
		name         string
		state        bool
		kind         Kind
		open         bool // something was lost just before
		foreign      int  // resources that the server does not speak for
		says         *wire.Response
		lost, gained int
		ofGlob       int
	}{
		{name: "removals", kind: WholeType, says: response("-a", "-b", "-nobody"), lost: 2},
		{name: "a removal of a member", kind: ByName, says: response("-" + name), lost: 1, ofGlob: 1},
		{name: "the removal of a glob", kind: ByName, says: response("-" + glob), lost: 2, ofGlob: 2},
		{name: "of a name without content", kind: ByName, says: response("-asked")},
		{name: "errors", kind: WholeType, says: withErrors(response(), notFound("a"), notFound("nobody"), wire.ResourceError{Name: "b", Code: codes.Internal}, wire.ResourceError{Name: "c", Code: codes.Internal}), lost: 1},
		{name: "what comes instead", kind: WholeType, says: response("-a", "+d@1", "+e@1", "+b@2"), lost: 1, gained: 2},
		{
			name: "names that come instead", kind: ByName, lost: 1, gained: 2,
			says: response("-n", "+asked@1", "+unasked@1", "+xdstp://x/envoy.config.cluster.v3.Cluster/g/3@1", "=xdstp://x/envoy.config.cluster.v3.Cluster/g/4@1"),
		},
		{name: "what comes after a loss", kind: WholeType, open: true, says: response("+d@1"), gained: 1},
		{name: "what comes without a loss does not count", kind: WholeType, says: response("+b@2")},
		{name: "a list without one", state: true, kind: WholeType, says: response("+a@1"), lost: 1},
		{name: "a list of the same size, as one is excused", state: true, kind: WholeType, says: response("+a@1", "+d@1")},
		{name: "a list with one of another server", state: true, kind: WholeType, foreign: 1, says: response("+a@1", "+d@1"), lost: 1},
		{name: "a longer list", state: true, kind: WholeType, says: response("+a@1", "+b@1", "+d@1", "+e@1", "+f@1"), gained: 3},
		{name: "a longer list after a loss", state: true, open: true, kind: WholeType, says: response("+a@1", "+b@1", "+d@1"), gained: 1},
		{name: "a list that fails", state: true, kind: WholeType, says: withErrors(response("+a@1"), wire.ResourceError{Name: "*", Code: codes.Unavailable})},
		{name: "heartbeats", state: true, kind: WholeType, says: response("=a@1~1s")},
		{name: "a list with a bad name", state: true, kind: WholeType, says: response("+a@1", "+\x00@1")},
		{name: "names in the state of the world after a loss", state: true, open: true, kind: ByName, says: response("+asked@1"), gained: 1},
		{name: "the last endpoints", kind: ByName, says: endpoints(assignment(t, "full", "2", false)), lost: 1},
		{name: "endpoints that there were not", kind: ByName, says: endpoints(assignment(t, "empty", "2", false), assignment(t, "unknown", "1", false), assignment(t, "unasked", "1", false))},
		{name: "other endpoints", kind: ByName, says: endpoints(assignment(t, "full", "2", true))},
		{name: "a heartbeat of endpoints", kind: ByName, says: &wire.Response{TypeURL: xds.EndpointType, Resources: []*wire.Resource{words.Resource(xds.EndpointType, "=full@1~1s")}}},
		{
			name: "the last endpoints in the state of the world, for which nothing comes instead", state: true, kind: ByName, lost: 1,
			says: endpoints(assignment(t, "full", "2", false), assignment(t, "unknown", "1", true)),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := guarded(t, tc.state, hold.Guard{})
			table := k.store.FindTable(tc.says.TypeURL, tc.kind)
			now := time.Now()
			if tc.open {
				table.upstream.held = new(heldBack)
				table.upstream.held.window.Add(1, 0, 3, now, now)
			}
			tc.says.State = tc.state
			u, err := newUpdate(tc.says, now)
			if err != nil {
				t.Fatal(err)
			}
			u.foreign = tc.foreign
			l := u.loss(table)
			if l.lost != tc.lost || l.gained != tc.gained {
				t.Errorf("it takes %d and brings %d, want %d and %d", l.lost, l.gained, tc.lost, tc.gained)
			}
			if got := slices.Collect(maps.Values(l.of)); tc.ofGlob != 0 && !slices.Equal(got, []int{tc.ofGlob}) || tc.ofGlob == 0 && got != nil {
				t.Errorf("it takes %v from globs, want %d from one", got, tc.ofGlob)
			}
		})
	}
}

// A type that has no complete lists loses nothing by what a list leaves out (RES-8).
func TestLossOf_RES8(t *testing.T) {
	k := guarded(t, true, hold.Guard{})
	k.store.source.FullState = nil
	says := response("+a@1")
	says.State = true
	u, err := newUpdate(says, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if l := u.loss(k.store.FindTable(cds, WholeType)); l.lost != 0 {
		t.Errorf("it takes %d", l.lost)
	}
}

// Neither what the relay says itself nor what an earlier process left is judged (SUR-3).
func TestJudge_SUR3(t *testing.T) {
	for _, tc := range []struct {
		name  string
		mark  func(u *update)
		held  bool
		guard hold.Guard
	}{
		{"what the server says", func(*update) {}, true, hold.Guard{Share: 0.5, Hold: time.Minute}},
		{"without a guard", func(*update) {}, false, hold.Guard{}},
		{"what the relay says", func(u *update) { u.resolved = true }, false, hold.Guard{Share: 0.5, Hold: time.Minute}},
		{"what was restored", func(u *update) { u.restored = true }, false, hold.Guard{Share: 0.5, Hold: time.Minute}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := guarded(t, false, tc.guard)
			table := k.store.FindTable(cds, WholeType)
			u, err := newUpdate(response("-a", "-b"), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			tc.mark(u)
			if u.judge(table); table.upstream.held.active() != tc.held {
				t.Errorf("the loss is held: %t", !tc.held)
			}
		})
	}
}

// The loss of a type with few resources waits for one of another type that could be held (SUR-3).
func TestAwaitsOthers_SUR3(t *testing.T) {
	g := hold.Guard{Share: 0.5, AtLeast: 3, Hold: time.Minute}
	for _, tc := range []struct {
		name  string
		lists *wire.Response
		guard func(*hold.Guard)
		want  bool
	}{
		{"of another type with so many", response("+a@1", "+b@1", "+c@1"), func(*hold.Guard) {}, true},
		{"of another type with fewer", response("+a@1", "+b@1"), func(*hold.Guard) {}, false},
		{"of another type that passes", response("+a@1", "+b@1", "+c@1"), func(g *hold.Guard) {
			g.Passes = func(typeURL string) bool { return typeURL == cds }
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKept(t)
			k.listener(NeedsStream).follow(Wildcard)
			k.demand(WholeType)
			k.apply(WholeType, tc.lists)
			guard := g
			tc.guard(&guard)
			k.store.Session().SetGuard(guard)
			k.store.mu.Lock()
			defer k.store.mu.Unlock()
			if got := k.store.Table(xds.EndpointType, ByName).awaitsOthers(&guard, 2, 2, time.Now()); got != tc.want {
				t.Errorf("it waits: %t", got)
			}
			if k.store.Table(cds, WholeType).awaitsOthers(&guard, 1, 1, time.Now()) {
				t.Error("it waits for itself")
			}
		})
	}
}

// Clients may have all members of "*", to be cached or not, and by name what is to be cached (TTL-5).
func TestReleased_SUR3(t *testing.T) {
	k := guarded(t, false, hold.Guard{})
	k.apply(WholeType, &wire.Response{TypeURL: cds, Resources: []*wire.Resource{words.Resource(cds, "once@1!")}})
	if n := k.store.FindTable(cds, WholeType).released(); n != 4 {
		t.Errorf("%d of all", n)
	}
	if n := k.store.FindTable(cds, ByName).released(); n != 4 {
		t.Errorf("%d by name", n)
	}
}
