package integration

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	listType = listenerType + "Collection"
	listFoo  = "xdstp://a/envoy.config.listener.v3.ListenerCollection/foo"
)

// listener is a name that directories list.
func listener(authority, id string) string {
	return "xdstp://" + authority + "/envoy.config.listener.v3.Listener/" + id
}

// lists encodes a directory that refers to names without parameters and directives.
func lists(names ...string) []byte {
	l := new(listenerv3.ListenerCollection)
	for _, name := range names {
		n, err := keyer.Parse(name)
		if err != nil {
			panic(err) // a name in a test
		}
		l.Entries = append(l.Entries, &xdscorev3.CollectionEntry{ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{
			Locator: &xdscorev3.ResourceLocator{Authority: n.Authority, ResourceType: n.Type, Id: n.ID},
		}})
	}
	return encoded.Bytes(l)
}

// inline adds an entry to a directory.
func inline(list []byte, name, version, content string) []byte {
	return append(slices.Clip(list), encoded.Bytes(&listenerv3.ListenerCollection{Entries: []*xdscorev3.CollectionEntry{{
		ResourceSpecifier: &xdscorev3.CollectionEntry_InlineEntry_{InlineEntry: &xdscorev3.CollectionEntry_InlineEntry{
			Name: name, Version: version, Resource: &anypb.Any{TypeUrl: listenerType, Value: []byte(content)},
		}},
	}}})...)
}

// asks lists what a plane is asked for of a type, over all its streams.
func (p *testPlane) asks(typeURL string) []string {
	var names []string
	for _, st := range p.streamsNow() {
		names = append(names, st.subs[typeURL]...)
	}
	slices.Sort(names)
	return names
}

// awaitAsks waits until a plane is asked for exactly these names of a type.
func (p *testPlane) awaitAsks(t testing.TB, typeURL string, names ...string) {
	t.Helper()
	slices.Sort(names)
	waitFor(t, fmt.Sprintf("asked for %v", names), func() bool { return slices.Equal(p.asks(typeURL), names) })
}

// sentSoFar is what a plane was asked and has said.
func (p *testPlane) sentSoFar() (requests, responses int) {
	for _, st := range p.streamsNow() {
		requests += len(st.requests) + len(st.sotwRequests)
		responses += st.sent
	}
	return requests, responses
}

// metric is what a relay's metric is now, over all its series that a pattern of labels fits.
func (r *testRelay) metric(t testing.TB, name, labels string) int {
	t.Helper()
	_, page := r.get(t, "/metrics")
	total := 0
	for _, m := range regexp.MustCompile(`(?m)^`+name+`\{[^}]*`+labels+`[^}]*\} (\S+)$`).FindAllStringSubmatch(page, -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		total += int(v)
	}
	return total
}

// awaitCached waits until the relay has a name, and it is pinned or is not.
func (r *testRelay) awaitCached(t testing.TB, name string, pinned bool) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%s is here, pinned: %t", name, pinned), func() bool {
		_, page := r.get(t, "/resources?payload=false&name="+name)
		return strings.Contains(page, `"state":"present"`) && strings.Contains(page, `"pins":1`) == pinned
	})
}

// wraps has a client announce that it understands wrapped resources: a directory's
// payload says no name.
func wraps(c xdsClient) xdsClient {
	if s, ok := c.(*sotwClient); ok {
		s.wraps = true
	}
	return c
}

// collect connects a client that subscribes to the directory, and waits until it has it.
func collect(t testing.TB, relay *testRelay, v variant, node string) xdsClient {
	t.Helper()
	c := wraps(newVariantClient(t, v, relay.addr, node))
	if err := c.connect(true); err != nil {
		t.Fatal(err)
	}
	c.subscribe(listType, []string{listFoo}, nil)
	c.common().awaitHolding(t, listType, listFoo)
	return c
}

// awaitRead waits until the relay has read all that a client has sent.
func awaitRead(t testing.TB, c *client) {
	t.Helper()
	const last = "the last request"
	c.subscribe(clusterType, []string{last}, nil)
	if !c.happens(func() bool { return c.isAbsent(clusterType, last) }) {
		t.Fatal("the relay does not answer")
	}
}

// Members of a directory that a client has are asked for before it asks, and once. Its
// second round trip does not reach the control plane.
func TestMembersAhead_LIST2(t *testing.T) {
	for _, tc := range []struct {
		name   string
		client variant
		source config.APIType
	}{
		{"VAR-4 incremental client, incremental source", deltaADS, config.AggregatedDeltaGRPC},
		{"VAR-3 SotW client, incremental source", sotwADS, config.AggregatedDeltaGRPC},
		{"VAR-3 incremental client, SotW source", deltaADS, config.AggregatedGRPC},
		{"VAR-3 SotW client, SotW source", sotwADS, config.AggregatedGRPC},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlane(t)
			p.Behave(func(b *plane.Behaviour) { b.Wrap = true })
			bar, baz := listener("a", "bar"), listener("a", "baz")
			p.put(listType, listFoo, lists(bar, baz, bar))
			p.set(listenerType, bar, false)
			p.set(listenerType, baz, false)
			relay := startRelay(t, func(cfg *config.Config) { cfg.Upstreams[0].APIType = tc.source }, p.addr)
			c := collect(t, relay, tc.client, "client")
			p.awaitAsks(t, listenerType, bar, baz)
			relay.awaitCached(t, bar, true)
			relay.awaitCached(t, baz, true)
			p.checkClient(t) // everything is answered
			requests, responses := p.sentSoFar()
			hits := relay.metric(t, "xdsrelay_cache_lookups_total", `result="hit",type="lds"`)

			c.subscribe(listenerType, []string{bar, baz}, nil)
			c.common().awaitHolding(t, listenerType, bar, baz)
			if now := relay.metric(t, "xdsrelay_cache_lookups_total", `result="hit",type="lds"`); now != hits+2 {
				t.Errorf("%d hits, want %d more than %d", now, 2, hits)
			}
			if q, r := p.sentSoFar(); q != requests || r != responses {
				t.Errorf("LIST-2: asked for the members, %d requests and %d responses were %d and %d", q, r, requests, responses)
			}
			if pins := relay.metric(t, "xdsrelay_table_pins", `type="lds"`); pins != 2 {
				t.Errorf("%d names are fetched ahead, want 2", pins)
			}
			p.checkClient(t)
			relay.consistent(t)
		})
	}
}

// When a directory changes, its clients get it and what else has changed. What it does
// not list any more is let go, unless somebody asks for it or another directory lists it.
func TestMembersLetGo_LIST3_SUB10_SUB11(t *testing.T) {
	p := newPlane(t)
	var names []string
	for i := range 10 {
		names = append(names, listener("a", strconv.Itoa(i)))
		p.set(listenerType, names[i], false)
	}
	other := "xdstp://a/envoy.config.listener.v3.ListenerCollection/other"
	p.put(listType, listFoo, lists(names...))
	p.put(listType, other, lists(names[1], names[9]))
	relay := startRelay(t, nil, p.addr)
	c := collect(t, relay, deltaADS, "client").(*client)
	c.subscribe(listenerType, names[:9], nil)
	c.awaitHolding(t, listenerType, names[:9]...)
	p.awaitAsks(t, listenerType, names...)
	d := collect(t, relay, deltaADS, "other").(*client)
	d.subscribe(listType, []string{other}, nil)
	d.awaitHolding(t, listType, listFoo, other)
	relay.awaitCached(t, names[9], true)
	p.checkClient(t)
	_, responses := p.sentSoFar()
	lists2, members := c.count(listType), c.count(listenerType)

	p.set(listenerType, names[3], false)
	p.put(listType, listFoo, lists(names[1:9]...)) // without 0, which is asked for, and 9, which is listed
	relay.awaitCached(t, names[0], false)
	relay.awaitCached(t, names[9], true)
	if !c.happens(func() bool { return c.count(listType) == lists2+1 && c.count(listenerType) == members+1 }) {
		t.Errorf("LIST-3: %d and %d responses more", c.count(listType)-lists2, c.count(listenerType)-members)
	}
	last := c.responses()
	sent := 0
	for _, r := range last[len(last)-2:] {
		sent += len(r.GetResources()) + len(r.GetRemovedResources())
	}
	if sent != 2 {
		t.Errorf("LIST-3: the client was sent %d resources, want the directory and one member", sent)
	}
	if _, now := p.sentSoFar(); now != responses+2 {
		t.Errorf("LIST-3: the control plane sent %d responses, want 2", now-responses)
	}
	p.awaitAsks(t, listenerType, names...)

	p.put(listType, other, lists(names[1]))
	p.awaitAsks(t, listenerType, names[:9]...) // nobody lists 9 any more
	if n := relay.metric(t, "xdsrelay_cache_evictions_total", `reason="unlisted",type="lds"`); n != 1 {
		t.Errorf("LIST-3: %d let go because nothing lists them, want 1", n)
	}
	c.subscribe(listenerType, nil, []string{names[0], names[1]})
	awaitRead(t, c)
	p.unset(listType, other)
	p.put(listType, listFoo, lists(names[2]))
	p.awaitAsks(t, listenerType, append(names[2:9:9], names[0])...) // 0 was the client's, and stays warm

	c.disconnect()
	d.disconnect()
	relay.awaitCached(t, names[2], false)
	if got := p.asks(listenerType); len(got) != 8 {
		t.Errorf("SUB-11: asked for %v after the last client", got)
	}
	p.checkClient(t)
	relay.consistent(t)
}

// Directories can list other directories. They are read in as many steps as are allowed, at the control
// plane of each authority.
func TestNestedDirectories_LIST2_LOC3(t *testing.T) {
	p, q := newPlane(t), newPlane(t)
	nested := func(i int) string { return nameAt([]string{"a", "c"}[i%2], listType, fmt.Sprint("nested", i)) }
	p.put(listType, listFoo, lists(nested(1)))
	for i := 1; i <= 6; i++ {
		[]*testPlane{p, q}[i%2].put(listType, nested(i), lists(nested(i+1)))
	}
	relay := startRelay(t, federated, p.addr, q.addr)
	c := collect(t, relay, deltaADS, "client")
	relay.awaitCached(t, nested(5), true)
	waitFor(t, "a fault", func() bool { return relay.metric(t, "xdsrelay_references_faults_total", `reason="chain"`) == 1 })
	p.awaitAsks(t, listType, listFoo, nested(2), nested(4))
	q.awaitAsks(t, listType, nested(1), nested(3), nested(5))
	c.subscribe(listType, []string{nested(3)}, nil)
	relay.awaitCached(t, nested(6), true)
	relay.consistent(t)
}

// A circle of directories is let go with the last client that leads to it.
func TestCircleOfDirectories_LIST2_LIST3(t *testing.T) {
	p := newPlane(t)
	a, b, itself := nameAt("a", listType, "a"), nameAt("a", listType, "b"), nameAt("a", listType, "itself")
	p.put(listType, a, lists(b))
	p.put(listType, b, lists(a))
	p.put(listType, itself, lists(itself))
	relay := startRelay(t, nil, p.addr)
	c := newClient(t, relay.addr, "client")
	if err := c.connect(true); err != nil {
		t.Fatal(err)
	}
	c.subscribe(listType, []string{a, itself}, nil)
	c.awaitHolding(t, listType, a, itself)
	p.awaitAsks(t, listType, a, b, itself)
	relay.awaitCached(t, a, true)
	waitFor(t, "a fault", func() bool { return relay.metric(t, "xdsrelay_references_faults_total", `reason="chain"`) == 1 })
	p.put(listType, a, lists())
	p.awaitAsks(t, listType, a, itself)
	p.put(listType, a, lists(b))
	relay.awaitCached(t, b, true)
	c.disconnect()
	relay.awaitCached(t, a, false)
	relay.awaitCached(t, b, false)
	relay.consistent(t)
}

func TestNothingAhead_LIST2(t *testing.T) {
	p := newPlane(t)
	bar := listener("a", "bar")
	p.put(listType, listFoo, inline(inline(lists(bar), "x", "1", "one"), "x", "2", "two"))
	p.set(listenerType, bar, false)
	relay := startRelay(t, func(cfg *config.Config) { cfg.Resolve.Prefetch = false }, p.addr)
	collect(t, relay, deltaADS, "client")
	waitFor(t, "LIST-4 a fault", func() bool { return relay.metric(t, "xdsrelay_references_faults_total", `reason="duplicate"`) == 1 })
	if got := p.asks(listenerType); len(got) != 0 {
		t.Errorf("asked for %v, though nothing is to be fetched ahead", got)
	}
	if n := relay.metric(t, "xdsrelay_table_pins", ""); n != 0 {
		t.Errorf("%d pins", n)
	}
}

// What is wrong with a directory is counted and logged, the directory is passed on as it
// is, and what is right of it is fetched ahead.
func TestFaultyDirectory_LIST4_LOC4(t *testing.T) {
	p := newPlane(t)
	bar, stray := listener("a", "bar"), listener("nowhere", "bar")
	faulty := lists(bar, stray, "xdstp://a/envoy.config.cluster.v3.Cluster/bar")
	faulty = inline(inline(inline(faulty, "x", "1", "one"), "x", "1", "two"), "y", "1", "one")
	faulty = append(faulty, 0x0a, 0) // an entry of neither kind
	p.put(listType, listFoo, faulty)
	p.set(listenerType, bar, false)
	relay := startRelay(t, func(cfg *config.Config) {
		cfg.Upstreams[0].Default, cfg.Upstreams[0].Authorities = false, []string{"a"}
	}, p.addr)
	c := collect(t, relay, deltaADS, "client")
	p.awaitAsks(t, listenerType, bar)
	if got := c.common().payloads(listType)[listFoo]; got != string(faulty) {
		t.Errorf("LIST-4: the directory was changed on its way to %q", got)
	}
	counted := func(want map[string]int) func() bool {
		return func() bool {
			for reason, n := range want {
				if relay.metric(t, "xdsrelay_references_faults_total", `reason="`+reason+`"`) != n {
					return false
				}
			}
			return true
		}
	}
	waitFor(t, "LIST-4 the faults are counted", counted(map[string]int{
		"duplicate": 1, "authority": 1, "type": 1, "unreadable": 1, "conflict": 0, "chain": 0, "unavailable": 0,
	}))
	waitFor(t, "LIST-4 the faults are logged", func() bool {
		return strings.Contains(relay.log.String(), "1 authority, 1 duplicate, 1 type, 1 unreadable")
	})
	p.put(listType, listFoo, inline(inline(lists(bar), "x", "1", "one"), "y", "1", "two"))
	waitFor(t, "LIST-4 a version with another payload", counted(map[string]int{"conflict": 1, "duplicate": 1}))
	if _, page := relay.get(t, "/resources?name="+bar); !strings.Contains(page, `"pins":1`) {
		t.Errorf("LIST-2: %s", page)
	}
	relay.consistent(t)
}

// What a directory lists as a glob is fetched ahead as a collection.
func TestGlobAhead_LIST2_GLOB6(t *testing.T) {
	p := newPlane(t)
	glob, member := listener("a", "dir/*"), listener("a", "dir/x")
	p.put(listType, listFoo, lists(glob))
	p.set(listenerType, member, false)
	relay := startRelay(t, nil, p.addr)
	c := collect(t, relay, deltaADS, "client").(*client)
	p.awaitAsks(t, listenerType, glob)
	relay.awaitCached(t, member, false)
	c.subscribe(listenerType, []string{glob}, nil)
	c.awaitHolding(t, listenerType, member)
	c.subscribe(listenerType, nil, []string{glob})
	awaitRead(t, c)
	p.put(listType, listFoo, lists())
	p.awaitAsks(t, listenerType)
	removes := func(r *discovery.DeltaDiscoveryResponse) bool {
		return r.GetTypeUrl() != clusterType && len(r.GetRemovedResources()) > 0
	}
	if slices.ContainsFunc(c.responses(), removes) {
		t.Error("the client was told of removals")
	}
	relay.consistent(t)
}
