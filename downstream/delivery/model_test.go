package delivery

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"
)

const clusterType = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

// longTTL is the longest that the modelled control plane gives.
const longTTL = 10 * time.Second

// content is one resource of the modelled control plane.
type content struct {
	version string
	inStar  bool          // part of what "*" means
	ttl     time.Duration // 0: none
	once    bool          // do_not_cache (TTL-5)
	leads   bool          // a list collection, which its name says (LIST-2)
}

// modelServer is a control plane of one type: a map, and per upstream stream what
// is subscribed and a queue of responses on their way.
type modelServer struct {
	t       rapid.TB
	cache   *cache.Cache
	store   *cache.Store
	exists  map[string]content
	streams [2]*modelStream
	version int
	states  int  // of the world, so far
	resend  bool // the versions do not fit into a request (RES-14)
	now     time.Time
	source  modelSource
	starred map[string]bool // xdstp names that "*" means
	passed  map[string]bool // names, and globs with members, that were not to be cached (TTL-5)
	clients []*modelClient
}

type modelStream struct {
	subs  map[string]string // as they were spelled, by key
	known map[string]string // what the server believes it has told, by name
	queue []*wire.Response
	// parting is how many responses were on their way when the server last read that
	// something is not wanted any more.
	parting int
	failed  map[string]bool // names that an error was told of, and that were not sent since
	// of a source that speaks the state of the world
	states  []*wire.Response
	version string // version_info of the last one that was no heartbeat
}

// typeURL is that of the payload.
func (c content) typeURL() string {
	if c.leads {
		return clusterType + "Collection"
	}
	return clusterType
}

func resourceOf(name string, c content) *wire.Resource {
	version := c.version
	payload, err := anypb.New(&corev3.Address{Address: &corev3.Address_EnvoyInternalAddress{
		EnvoyInternalAddress: &corev3.EnvoyInternalAddress{EndpointId: name + "@" + version},
	}})
	if err != nil {
		panic(err)
	}
	payload.TypeUrl = c.typeURL()
	r := &discovery.Resource{Name: name, Version: version, Resource: payload}
	if c.once {
		r.CacheControl = &discovery.Resource_CacheControl{DoNotCache: true}
	}
	return withTTL(r, c)
}

// heartbeatOf is resourceOf without the payload.
func heartbeatOf(name string, c content) *wire.Resource {
	return withTTL(&discovery.Resource{Name: name, Version: c.version}, c)
}

func withTTL(p *discovery.Resource, c content) *wire.Resource {
	if c.ttl > 0 {
		p.Ttl = durationpb.New(c.ttl)
	}
	r, err := wire.NewResource(p)
	if err != nil {
		panic(err)
	}
	return r
}

// covered reports whether a set of subscriptions, by key, means a name.
func covered[V any](subs map[string]V, name string, c content) bool {
	_, named := subs[name]
	_, star := subs[cache.Wildcard]
	_, glob := subs[keyer.GlobOf(name)]
	return named || (c.inStar && star) || glob
}

// keyOf is the key of a name that is known to be right.
func keyOf(name string) string {
	k, err := keyer.Key(name)
	if err != nil {
		panic(err)
	}
	return k
}

func (m *modelServer) open(stream int) {
	m.streams[stream] = &modelStream{subs: map[string]string{}, known: map[string]string{}}
	limit := 1 << 20
	if m.resend {
		limit = 1
	}
	for _, sub := range m.store.Session().Restart(m.source.stream(stream), limit) {
		m.subscribe(stream, sub, sub.Versions)
	}
}

// pump takes demand as the session would.
func (m *modelServer) pump(stream int) {
	if m.streams[stream] == nil {
		if m.store.Session().StreamWanted(m.source.stream(stream)) {
			m.open(stream)
		}
		return
	}
	subs, ok := m.store.Session().TakeDemand(m.source.stream(stream))
	if !ok {
		m.lose(stream)
		m.open(stream)
		return
	}
	for _, sub := range subs {
		m.subscribe(stream, sub, nil)
	}
}

func (m *modelServer) subscribe(stream int, sub wire.Subscription, versions map[string]string) {
	st := m.streams[stream]
	resp := &wire.Response{TypeURL: sub.TypeURL}
	for _, name := range sub.Unsubscribe {
		if st.subs[keyOf(name)] != name {
			m.t.Fatalf("unsubscribed %q, which is not subscribed on stream %d: %v", name, stream, st.subs)
		}
		delete(st.subs, keyOf(name))
		m.keepsNamed(st, keyOf(name))
		st.parting = len(st.queue) + len(st.states)
	}
	fresh := map[string]bool{}
	for _, name := range sub.Subscribe {
		if st.subs[keyOf(name)] != "" {
			m.t.Fatalf("subscribed %q twice on stream %d", name, stream)
		}
		if strings.Contains(name, "#") {
			m.t.Fatalf("NAME-8: asked the server for %q", name)
		}
		st.subs[keyOf(name)] = name
		fresh[keyOf(name)] = true
	}
	if m.source.state {
		m.subscribeState(stream, fresh)
		return
	}
	named := map[string]bool{}
	for _, n := range slices.Sorted(maps.Keys(m.exists)) {
		c := m.exists[n]
		if covered(fresh, n, c) && versions[n] != c.version {
			resp.Resources = append(resp.Resources, resourceOf(n, c))
			named[n] = true
		}
		if covered(st.subs, n, c) {
			st.known[n] = c.version
		}
	}
	for n := range versions {
		if c, ok := m.exists[n]; !ok || !covered(st.subs, n, c) {
			resp.Removed = append(resp.Removed, n)
			named[n] = true
		}
	}
	for n := range fresh {
		if n == cache.Wildcard || named[n] {
			continue
		}
		if keyer.IsGlob(n) {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(m.exists)), func(x string) bool { return keyer.GlobOf(x) == n }) {
				resp.Removed = append(resp.Removed, n)
			}
		} else if _, ok := m.exists[n]; !ok {
			resp.Removed = append(resp.Removed, n)
		}
	}
	if fresh[cache.Wildcard] || len(resp.Resources)+len(resp.Removed) > 0 {
		st.queue = append(st.queue, resp)
	}
}

// keepsNamed holds the relay to GLOB-6: when a glob is let go, what clients name of it
// is subscribed to by itself.
func (m *modelServer) keepsNamed(st *modelStream, glob string) {
	for _, c := range m.clients {
		for name := range c.keys() {
			if keyer.IsGlob(glob) && keyer.GlobOf(name) == glob && st.subs[name] == "" {
				m.t.Fatalf("GLOB-6: %q is let go before %q is subscribed to: %v", glob, name, st.subs)
			}
		}
	}
}

// set changes, adds or, with a nil c, removes a resource.
func (m *modelServer) set(name string, c *content) {
	old, had := m.exists[name]
	if c == nil {
		delete(m.exists, name)
	} else {
		m.exists[name] = *c
	}
	if m.source.state {
		m.setState(name, old, had)
		return
	}
	for _, st := range m.streams {
		if st == nil {
			continue
		}
		resp := &wire.Response{TypeURL: clusterType}
		switch {
		case c != nil && covered(st.subs, name, *c):
			if st.known[name] != c.version {
				resp.Resources = append(resp.Resources, resourceOf(name, *c))
				st.known[name] = c.version
			}
		case had && covered(st.subs, name, old):
			resp.Removed = append(resp.Removed, name)
			delete(st.known, name)
		}
		if len(resp.Resources)+len(resp.Removed) > 0 {
			st.queue = append(st.queue, resp)
		}
	}
}

// say has what the server says of a resource that it has go to every stream that
// knows it.
func (m *modelServer) say(name string, r func(string, content) *wire.Resource) {
	c, ok := m.exists[name]
	if !ok {
		return
	}
	for _, st := range m.streams {
		if st != nil && st.known[name] == c.version {
			st.queue = append(st.queue, &wire.Response{TypeURL: clusterType, Resources: []*wire.Resource{r(name, c)}})
		}
	}
}

// beat sends a heartbeat for each resource with a ttl.
func (m *modelServer) beat() {
	if m.source.state {
		m.beatState()
		return
	}
	for name, c := range m.exists {
		if c.ttl > 0 {
			m.say(name, heartbeatOf)
		}
	}
}

// quiet has everything that is on its way arrive.
func (m *modelServer) quiet() {
	for busy := true; busy; {
		busy = false
		for stream := range 2 {
			m.pump(stream)
			for m.deliver(stream) {
				busy = true
			}
		}
	}
}

// pass lets time pass. What was on its way when something was let go arrives before:
// beyond Source.Quiet, which no step is shorter than, the store need not tell it from
// the answer to a new subscription (TakeDemand).
func (m *modelServer) pass(d time.Duration) {
	for stream, st := range m.streams {
		for st != nil && st.parting > 0 && m.deliver(stream) {
		}
	}
	m.now = m.now.Add(d)
	m.store.Session().Settle(m.now)
}

// deliver applies the next response of a stream.
func (m *modelServer) deliver(stream int) bool {
	st := m.streams[stream]
	if st == nil {
		return false
	}
	st.parting = max(0, st.parting-1)
	if m.source.state {
		return m.deliverState(stream)
	}
	if len(st.queue) == 0 {
		return false
	}
	r := st.queue[0]
	st.queue = st.queue[1:]
	if err := m.store.Session().Apply(m.source.stream(stream), r, m.now); err != nil {
		m.t.Fatalf("rejected: %v", err)
	}
	return true
}

func (m *modelServer) lose(stream int) {
	if m.streams[stream] != nil {
		m.streams[stream] = nil
		m.store.Session().Lost(m.source.stream(stream))
	}
}

// modelClient is the naive model: a map of what a real client would hold. It
// compares URNs as NAME-3 has it, so that it holds one under its key.
type modelClient struct {
	server *modelServer
	client *Place
	star   *Place      // where it follows "*", if that is in another store
	stream *Subscriber // with both places then
	form   Form
	full   bool // its responses are whole lists
	// The version that it shows: the last one of the stream before, until it is sent
	// one on this stream (Change.VersionInfo).
	shows  string
	sent   string // the version that it was sent last; "" if it has changed its subscriptions since
	bell   chan struct{}
	subs   map[string]bool // by spelling
	once   map[string]bool // likewise, also those that ended: they are answered too (SUB-8)
	holds  map[string]string
	clocks map[string]time.Time // when it drops what it holds, if it can do ttl (TTL-2)
	told   []string             // what it was sent last: +name@version, -name, and a list's bar
	errors map[string]int       // how often it was told of an error (ERR-1)
	silent map[string]bool      // keys that the control plane left unanswered, as it was told, and that it was not sent since (RES-7)
}

// newClient joins a client of the model.
func (m *modelServer) newPlace(form Form, full bool) *modelClient {
	c := &modelClient{
		server: m, form: form, full: form.State && full,
		bell: make(chan struct{}, 1), subs: map[string]bool{}, once: map[string]bool{},
		holds: map[string]string{}, clocks: map[string]time.Time{}, silent: map[string]bool{},
	}
	c.client = Join(m.store, ringing(c.bell), form)
	m.clients = append(m.clients, c)
	return c
}

// leave ends a client.
func (c *modelClient) leave() {
	c.client.Leave()
	c.server.clients = slices.DeleteFunc(c.server.clients, func(o *modelClient) bool { return o == c })
}

// wants are what the client should hold of what exists: the version of each, as the
// client is shown it.
func (c *modelClient) wants(exists func(content) bool) map[string]string {
	want := map[string]string{}
	for n, x := range c.server.exists {
		if covered(c.keys(), n, x) && exists(x) {
			want[n] = c.version(n, x)
		}
	}
	return want
}

// drop drops what has outlived its ttl.
func (c *modelClient) drop() {
	for key, at := range c.clocks {
		if !c.server.now.Before(at) {
			delete(c.holds, key)
			delete(c.clocks, key)
		}
	}
}

// take applies a resource.
func (c *modelClient) take(t rapid.TB, r *discovery.Resource) {
	key, ttl := keyOf(r.Name), r.Ttl.AsDuration()
	switch {
	case r.Ttl != nil && (!c.client.form.TTL || ttl <= 0 || ttl > longTTL):
		t.Fatalf("TTL-1, TTL-2: sent %q with a ttl of %v, can do ttl: %t", r.Name, ttl, c.client.form.TTL)
	case r.Resource == nil && (r.Ttl == nil || c.holds[key] != r.Version):
		t.Fatalf("TTL-3: a heartbeat for %q@%s with a ttl of %v, but it holds %q", r.Name, r.Version, ttl, c.holds[key])
	}
	c.holds[key] = r.Version
	delete(c.silent, key)
	delete(c.clocks, key)
	if r.Ttl != nil {
		c.clocks[key] = c.server.now.Add(ttl)
	}
}

// keys are its subscriptions by key.
func (c *modelClient) keys() map[string]bool {
	keys := map[string]bool{}
	for s := range c.subs {
		keys[keyOf(s)] = true
	}
	return keys
}

func (c *modelClient) covers(key string) bool {
	return covered(c.keys(), key, content{inStar: !keyer.IsXDSTP(key) || c.server.starred[key]})
}

// asked reports whether a name is spelled as the client asked for it (NAME-4).
func (c *modelClient) asked(name string) bool {
	if !keyer.IsXDSTP(name) || c.subs[name] || (c.subs[cache.Wildcard] && c.server.starred[keyOf(name)]) {
		return true
	}
	for s := range c.subs {
		if keyOf(s) == keyer.GlobOf(keyOf(name)) && keyer.Respell(s, keyOf(name)) == name {
			return true
		}
	}
	return false
}

func nameOf(spelling string) cache.Name { return cache.Name{Spelling: spelling, Key: keyOf(spelling)} }

func (c *modelClient) update(sub, unsub []string, warm map[string]string) {
	ch := Change{TypeURL: clusterType, Versions: wire.NewVersions(warm)}
	if c.form.State {
		ch.Versions, ch.VersionInfo = wire.Versions{}, c.shows
	}
	for _, n := range sub {
		ch.Subscribe = append(ch.Subscribe, nameOf(n))
		c.subs[n], c.once[n] = true, true
	}
	for _, n := range unsub {
		ch.Unsubscribe = append(ch.Unsubscribe, nameOf(n))
		delete(c.subs, n)
	}
	c.say(ch)
	if len(sub)+len(unsub) > 0 {
		// A version is that of the type, also where the server means another part of it:
		// who shows one with other subscriptions than it was sent for may be taken for
		// current, by the server itself too (ACK-5).
		c.sent = ""
	}
	for n := range c.holds {
		// What a glob brought that ended, and "*" does not mean, is the client's to drop.
		brought := slices.ContainsFunc(unsub, func(u string) bool { return keyOf(u) == keyer.GlobOf(n) })
		if !c.covers(n) || (brought && !covered(c.keys(), n, c.server.exists[n])) {
			delete(c.holds, n)
			delete(c.clocks, n)
		}
	}
}

// say carries out a change, in the stores that it concerns.
func (c *modelClient) say(ch Change) {
	if c.star == nil {
		c.client.Update(&ch)
		return
	}
	star := func(n cache.Name) bool { return n.Key == cache.Wildcard }
	named := func(n cache.Name) bool { return !star(n) }
	places, nots := []*Place{c.star, c.client}, []func(cache.Name) bool{named, star} // "*" comes first
	for i, place := range places {
		part := ch
		part.Subscribe = slices.DeleteFunc(slices.Clone(ch.Subscribe), nots[i])
		part.Unsubscribe = slices.DeleteFunc(slices.Clone(ch.Unsubscribe), nots[i])
		if len(part.Subscribe)+len(part.Unsubscribe) > 0 {
			place.Update(&part)
		}
	}
}

// next takes what the relay has for the client now.
func (c *modelClient) next(size int) ([]*Batch, bool, error) {
	idle := func(string) bool { return false }
	if c.star == nil {
		return collectFrom(c.client, idle, size, 2)
	}
	batches, left, err := c.stream.Collect(paceOf(idle, size, 2))
	return batches, left.More, err
}

// collect applies what the relay sends, in small parts, and holds it to RES-4.
func (c *modelClient) collect(t rapid.TB, size int) {
	c.drop()
	c.told = nil
	for {
		batches, more, err := c.next(size)
		if err != nil {
			t.Fatalf("collect: %v", err)
		}
		for _, b := range batches {
			if c.form.State {
				c.takeState(t, b)
				continue
			}
			var resp discovery.DeltaDiscoveryResponse
			if err := proto.Unmarshal(b.Body.Finish(b.TypeURL, b.SystemVersion, "n").Bytes(), &resp); err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, r := range resp.Resources {
				if seen[r.Name] {
					t.Fatalf("RES-4: %q twice in one response", r.Name)
				}
				seen[r.Name] = true
				if !c.covers(keyOf(r.Name)) || !c.asked(r.Name) {
					t.Fatalf("sent %q without being asked, subscribed: %v", r.Name, c.subs)
				}
				c.take(t, r)
				c.told = append(c.told, "+"+r.Name+"@"+r.Version)
			}
			for _, n := range resp.RemovedResources {
				if seen[n] {
					t.Fatalf("RES-4: %q twice in one response", n)
				}
				seen[n] = true
				if !c.asked(n) && !c.once[n] {
					t.Fatalf("removed %q, subscribed: %v", n, c.subs)
				}
				delete(c.holds, keyOf(n))
				delete(c.clocks, keyOf(n))
				c.told = append(c.told, "-"+n)
			}
			c.takeErrors(t, resp.ResourceErrors)
		}
		if !more && len(batches) == 0 {
			return
		}
	}
}

// takeState applies a response of the state-of-the-world form.
func (c *modelClient) takeState(t rapid.TB, b *Batch) {
	var resp discovery.DiscoveryResponse
	if err := proto.Unmarshal(b.Body.Finish(b.TypeURL, b.SystemVersion, "n").Bytes(), &resp); err != nil {
		t.Fatal(err)
	}
	c.shows, c.sent = "", resp.VersionInfo
	c.told = append(c.told, "|")
	if c.full {
		clear(c.holds)
		clear(c.clocks)
	}
	seen := map[string]bool{}
	for _, x := range resp.Resources {
		name, version, ttl := c.read(t, x)
		if seen[name] {
			t.Fatalf("RES-4: %q twice in one response", name)
		}
		seen[name] = true
		if !c.covers(keyOf(name)) || (c.form.Wrapped && !c.asked(name)) {
			t.Fatalf("sent %q without being asked, subscribed: %v", name, c.subs)
		}
		if c.full && !c.form.Wrapped && version == "" {
			t.Fatalf("RES-2: %q without content", name)
		}
		c.holds[keyOf(name)] = version
		c.told = append(c.told, "+"+name+"@"+version)
		delete(c.clocks, keyOf(name))
		if ttl > 0 {
			c.clocks[keyOf(name)] = c.server.now.Add(ttl)
		}
	}
	c.takeErrors(t, resp.ResourceErrors)
}

// read gives the name, the version and the ttl of a resource.
func (c *modelClient) read(t rapid.TB, x *anypb.Any) (name, version string, ttl time.Duration) {
	t.Helper()
	if c.form.Wrapped || c.form.TTL && x.MessageIs(new(discovery.Resource)) {
		var r discovery.Resource
		if err := proto.Unmarshal(x.Value, &r); err != nil {
			t.Fatal(err)
		}
		ttl = r.Ttl.AsDuration()
		if r.Resource == nil || (r.Ttl != nil && (!c.form.TTL || ttl <= 0 || ttl > longTTL)) {
			t.Fatalf("TTL-1, TTL-2: sent %v, can do ttl: %t", &r, c.form.TTL)
		}
		if c.form.Wrapped {
			return r.Name, r.Version, ttl
		}
		if ttl == 0 {
			t.Fatalf("TTL-1: %q has no ttl, and is wrapped", r.Name)
		}
		x = r.Resource
	}
	var a corev3.Address
	if err := proto.Unmarshal(x.Value, &a); err != nil {
		t.Fatal(err)
	}
	id := a.GetEnvoyInternalAddress().GetEndpointId()
	at := strings.LastIndexByte(id, '@')
	return id[:at], id[at+1:], ttl
}

// version is what the client is shown of a resource.
func (c *modelClient) version(name string, x content) string {
	if c.form.State && !c.form.Wrapped {
		return x.version // which the payload says
	}
	return c.server.source.version(name, x)
}

var modelNames = []string{
	"a", "b", "c", "d",
	"xdstp://x/envoy.config.cluster.v3.Cluster/g/1", "xdstp://x/envoy.config.cluster.v3.Cluster/g/2",
	"xdstp://x/envoy.config.cluster.v3.Cluster/g/3", "xdstp://x/envoy.config.cluster.v3.Cluster/h/1",
	"xdstp://x/envoy.config.cluster.v3.Cluster/h/2?p=q&r=s",
	"xdstp://x/envoy.config.cluster.v3.ClusterCollection/g/1", "xdstp://x/envoy.config.cluster.v3.ClusterCollection/g/2",
}

var modelSubs = append([]string{
	cache.Wildcard, "xdstp://x/envoy.config.cluster.v3.Cluster/g/*", "xdstp://x/envoy.config.cluster.v3.Cluster/h/*",
	"xdstp://x/envoy.config.cluster.v3.Cluster/h/*?p=q&r=s", "xdstp://x/envoy.config.cluster.v3.Cluster/h/*?r=s&p=q",
	"xdstp://x/envoy.config.cluster.v3.Cluster/h/2?r=s&p=q", "xdstp://x/envoy.config.cluster.v3.Cluster/h/2?r=s&p=q#alt=xdstp://y/envoy.config.cluster.v3.Cluster/x",
	"xdstp://x/envoy.config.cluster.v3.ClusterCollection/g/*",
	"xdstp://x/envoy.config.cluster.v3.Cluster/g/*#alt=xdstp://y/envoy.config.cluster.v3.Cluster/g/*",
}, modelNames...)

// TestModel holds a store to a naive model, a map per client, under random
// operations on both sides, with responses on their way while subscriptions
// change: SUB-1, SUB-5, SUB-7 to SUB-12, RES-1, RES-4 to RES-6, RES-11, RES-12,
// RES-14, GLOB-1 to GLOB-6, NAME-3, NAME-4, NAME-8, TTL-1 to TTL-5, the eviction
// races, and what is pinned for clients, and known to refer to others (LIST-2, LIST-3).
func TestModel_SUB8_SUB10_SUB11_SUB12_RES4_RES11_RES12_RES14_GLOB5_GLOB6_NAME3_NAME4_NAME8_TTL2_TTL3_TTL5_LIST2_LIST3(t *testing.T) {
	for name, source := range map[string]modelSource{
		"VAR-4 incremental":                          {},
		"VAR-2 incremental per type":                 {perType: true},
		"VAR-3 VAR-7 RES-8 state of the world":       {state: true, full: true},
		"VAR-1 RES-7 per type, not of complete type": {state: true, perType: true},
	} {
		t.Run(name, func(t *testing.T) { testModel(t, source) })
	}
}

// frozenSince freezes everything.
func frozenSince(at time.Time) cache.Freezing {
	return func(string, time.Time) hold.Freeze { return hold.Freeze{Since: at} }
}

func testModel(t *testing.T, source modelSource) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		all := cache.New(cache.Limits{MaxResources: int64(rapid.SampledFrom([]int{0, 3}).Draw(t, "max")), Idle: time.Hour, Generations: 4}, nil)
		all.MinChunk = 1
		full := source.full || (!source.state && rapid.Bool().Draw(t, "full"))
		store := all.Open(source.source(full))
		server := &modelServer{t: t, cache: all, store: store, exists: map[string]content{}, passed: map[string]bool{}, resend: rapid.Bool().Draw(t, "resend"), now: time.Now(), source: source}
		all.Now = func() time.Time { return server.now }
		ahead := &modelReader{server: server, pins: map[string]int{}, knows: map[refKey]cache.Reference{}}
		join := func(form Form, old *modelClient) *modelClient {
			c := server.newPlace(form, full)
			if old != nil {
				old.drop()
				maps.Copy(c.holds, old.holds)
				maps.Copy(c.clocks, old.clocks)
				c.shows = old.sent
			}
			return c
		}
		check := func(step string) {
			if err := store.Check(); err != nil {
				t.Fatalf("after %s: %v", step, err)
			}
		}
		form := func() Form {
			return rapid.SampledFrom([]Form{
				{}, {TTL: true}, {State: true}, {State: true, TTL: true}, {State: true, Wrapped: true}, {State: true, Wrapped: true, TTL: true},
			}).Draw(t, "form")
		}
		client := func() *modelClient {
			if len(server.clients) == 0 {
				return join(form(), nil)
			}
			return server.clients[rapid.IntRange(0, len(server.clients)-1).Draw(t, "client")]
		}
		some := func(from []string, label string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, 3, rapid.ID[string]).Draw(t, label)
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				server.version++
				name := rapid.SampledFrom(modelNames).Draw(t, "name")
				old, had := server.exists[name]
				star := !strings.Contains(name, "xdstp") && rapid.Bool().Draw(t, "star")
				if had {
					star = old.inStar
				}
				c := content{version: fmt.Sprint(server.version), inStar: star}
				c.ttl = rapid.SampledFrom([]time.Duration{0, 3 * time.Second, longTTL}).Draw(t, "ttl")
				c.once = rapid.IntRange(0, 3).Draw(t, "do_not_cache") == 0
				c.leads = strings.Contains(name, "Collection/")
				if c.once {
					server.passed[name], server.passed[keyer.GlobOf(name)] = true, true
				}
				server.set(name, &c)
			},
			"beat": func(*rapid.T) { server.beat() },
			"retime": func(t *rapid.T) { // the same with another ttl (TTL-4)
				name := rapid.SampledFrom(modelNames).Draw(t, "name")
				if c := server.exists[name]; c.ttl > 0 { // else no stream that resumes could tell of it
					c.ttl = rapid.SampledFrom([]time.Duration{2 * time.Second, longTTL}).Draw(t, "ttl")
					server.exists[name] = c
					if source.state {
						server.sayState(name)
					} else {
						server.say(name, resourceOf)
					}
				}
			},
			"pass":  func(t *rapid.T) { server.pass(time.Duration(rapid.IntRange(1, 4).Draw(t, "s")) * time.Second) },
			"unset": func(t *rapid.T) { server.set(rapid.SampledFrom(modelNames).Draw(t, "name"), nil) },
			"fail": func(t *rapid.T) {
				server.fail(rapid.SampledFrom(modelNames).Draw(t, "name"), rapid.Bool().Draw(t, "gone"))
			},
			"fail whole": func(t *rapid.T) {
				key := rapid.SampledFrom(modelCollections).Draw(t, "collection")
				if key != cache.Wildcard && rapid.Bool().Draw(t, "gone") {
					server.empty(key)
				} else {
					server.failWhole(key)
				}
			},
			"join": func(*rapid.T) { join(form(), nil) },
			"subscribe": func(*rapid.T) {
				c := client()
				c.update(some(modelSubs, "subscribe"), nil, nil)
			},
			"unsubscribe": func(*rapid.T) {
				c := client()
				c.update(nil, some(modelSubs, "unsubscribe"), nil)
			},
			"both": func(*rapid.T) {
				c := client()
				sub := some(modelSubs, "subscribe")
				unsub := slices.DeleteFunc(some(modelSubs, "unsubscribe"), func(n string) bool { return slices.Contains(sub, n) })
				c.update(sub, unsub, nil)
			},
			"reconnect": func(*rapid.T) {
				c := client()
				c.leave()
				n := join(c.form, c)
				n.update(slices.Sorted(maps.Keys(c.subs)), nil, n.holds)
				n.sent = n.shows // for the same subscriptions
			},
			"leave":   func(*rapid.T) { client().leave() },
			"collect": func(t *rapid.T) { client().collect(t, rapid.SampledFrom([]int{1, 300, 1 << 20}).Draw(t, "size")) },
			"quiet": func(t *rapid.T) {
				server.quiet()
				client().collect(t, 1<<20)
			},
			"demand":  func(t *rapid.T) { server.pump(rapid.IntRange(0, 1).Draw(t, "stream")) },
			"deliver": func(t *rapid.T) { server.deliver(rapid.IntRange(0, 1).Draw(t, "stream")) },
			"pin":     func(*rapid.T) { ahead.pin(some(modelSubs[1:], "pin")) },
			"unpin": func(t *rapid.T) {
				ahead.unpin(some(modelSubs[1:], "unpin"), rapid.Bool().Draw(t, "unlisted"))
			},
			"references": func(t *rapid.T) { ahead.take(t) },
			"freeze":     func(*rapid.T) { store.Operator().Freeze(frozenSince(server.now), nil) },
			"release":    func(*rapid.T) { store.Operator().Freeze(nil, nil) },
			"rollback": func(t *rapid.T) {
				all := store.Operator().Generations()
				g := all[rapid.IntRange(0, len(all)-1).Draw(t, "generation")]
				if _, err := store.Operator().Rollback(g.Number, frozenSince(server.now), func(string) bool { return true }); err != nil {
					t.Fatal(err)
				}
			},
			"limit":  func(t *rapid.T) { server.resend = rapid.Bool().Draw(t, "resend") },
			"lose":   func(t *rapid.T) { server.lose(rapid.IntRange(0, 1).Draw(t, "stream")) },
			"expire": func(*rapid.T) { all.Expire(time.Now().Add(2 * time.Hour)) },
			"settle": func(*rapid.T) { server.pass(time.Minute) },
			"":       func(*rapid.T) { check("a step") },
		})
		agree := func(when string, exists func(content) bool) {
			for i, c := range server.clients {
				c.collect(t, 1<<20)
				if c.waitsForGlob() {
					continue
				}
				want := c.wants(exists)
				server.forgiveSilence(c)
				if c.form.State && !c.full {
					// Nobody tells it what is gone (RES-3).
					maps.DeleteFunc(c.holds, func(n string, _ string) bool { _, ok := want[n]; return !ok })
				}
				if !server.holdsRight(c.holds, want) {
					t.Fatalf("%s client %d (%v, %+v) holds %v, a direct client would hold %v",
						when, i, slices.Sorted(maps.Keys(c.subs)), c.form, c.holds, want)
				}
			}
			ahead.check(t, when, exists)
			check(when)
		}
		store.Operator().Freeze(nil, nil)
		check("the release")
		// Quiet: everything on its way arrives, quiet times end.
		server.quiet()
		server.heal()
		for range 2 { // a name that a glob brought is asked for when it expires, and comes back once
			server.quiet()
			server.pass(time.Hour)
		}
		server.quiet()
		agree("TTL-2: after all ttls", func(c content) bool { return c.ttl == 0 })
		for n, c := range server.exists {
			if c.ttl > 0 {
				server.version++
				server.set(n, &content{fmt.Sprint(server.version), c.inStar, longTTL, c.once, c.leads})
			}
		}
		server.quiet()
		agree("the end", func(content) bool { return true })
		failing(t, server)
		agree("ERR-1: after errors", func(content) bool { return true })
		versions := map[string]string{}
		for _, c := range server.clients {
			if w := c.client.find(clusterType); c.form.State && w != nil {
				subs := fmt.Sprint(slices.Sorted(maps.Keys(c.subs)))
				if v := w.version().with(digest.Sum{}); versions[subs] != "" && versions[subs] != v {
					t.Fatalf("ACK-4: clients of %s are shown %q and %q", subs, versions[subs], v)
				} else {
					versions[subs] = v
				}
			}
		}
		for range 3 {
			server.pass(longTTL - 1)
			server.beat()
			server.quiet()
			agree("TTL-3: with heartbeats", func(content) bool { return true })
		}
		server.pass(longTTL)
		agree("TTL-2: without heartbeats", func(c content) bool { return c.ttl == 0 })
		ahead.check(t, "in the end", func(c content) bool { return c.ttl == 0 })
		// SUB-10: the union of the clients' subscriptions, each once, and nothing
		// that nobody wants once it is evicted.
		for _, c := range slices.Clone(server.clients) {
			c.leave()
		}
		for len(ahead.pins) > 0 {
			ahead.unpin(slices.Sorted(maps.Keys(ahead.pins)), rapid.Bool().Draw(t, "unlisted"))
		}
		all.Expire(time.Now().Add(2 * time.Hour))
		for stream := range 2 {
			server.pump(stream)
			if st := server.streams[stream]; st != nil && len(st.subs) > 0 {
				t.Fatalf("SUB-11: still subscribed on stream %d: %v", stream, st.subs)
			}
		}
		if leaving, bytes := all.Leaving(); all.Resources()+all.Bytes()+leaving+bytes != 0 {
			t.Fatalf("left: %d resources, %d bytes, leaving %d of %d bytes", all.Resources(), all.Bytes(), leaving, bytes)
		}
		check("everything left")
	})
}
