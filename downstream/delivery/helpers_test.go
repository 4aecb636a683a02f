package delivery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// The types of the schedules, and how they are written in them.
const (
	cds  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	eds  = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	lds  = "type.googleapis.com/envoy.config.listener.v3.Listener"
	rds  = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	vhds = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
)

var short = map[string]string{cds: "CDS", eds: "EDS", lds: "LDS", rds: "RDS", vhds: "VHDS"}

// quiet is the quiet time of the schedules (RES-14).
const quiet = 15 * time.Second

// Names of one glob, and the same spelled in another order.
const (
	globG  = "xdstp://x/envoy.config.cluster.v3.Cluster/g/*"
	nameG1 = "xdstp://x/envoy.config.cluster.v3.Cluster/g/1"
	nameG2 = "xdstp://x/envoy.config.cluster.v3.Cluster/g/2"
	globQ  = "xdstp://x/envoy.config.cluster.v3.Cluster/q/*?a=1&b=2"
	globQ2 = "xdstp://x/envoy.config.cluster.v3.Cluster/q/*?b=2&a=1"
	nameQ  = "xdstp://x/envoy.config.cluster.v3.Cluster/q/m?a=1&b=2"
	nameQ2 = "xdstp://x/envoy.config.cluster.v3.Cluster/q/m?b=2&a=1"
)

// bed is a store between a control plane's hand and its clients. Every step
// ends with Store.Check.
type bed struct {
	testing.TB

	cache  *cache.Cache
	limits cache.Limits
	source cache.Source
	store  *cache.Store
	seen   *sights
}

// sights is an Observer that remembers.
type sights struct {
	hits, misses int
	evicted      map[cache.Reason]int
	unsolicited  int
	expired      int
	foreign      []string // upstream, a name, and how many
	back         []string // type, and how many resources went back
	held         []string // type, lost, of, and why no longer
}

func (s *sights) Lookup(_ string, hit bool) {
	if hit {
		s.hits++
	} else {
		s.misses++
	}
}
func (s *sights) Evicted(_ string, reason cache.Reason) { s.evicted[reason]++ }
func (s *sights) Unsolicited(_ string, n int)           { s.unsolicited += n }
func (s *sights) Foreign(upstream, _, name string, n int) {
	s.foreign = append(s.foreign, fmt.Sprintf("%s %s %d", upstream, name, n))
}
func (s *sights) Expired(string) { s.expired++ }
func (s *sights) WentBack(_, typeURL string, n int) {
	s.back = append(s.back, fmt.Sprintf("%s %d", short[typeURL], n))
}
func (s *sights) Held(h cache.Held) {
	s.held = append(s.held, strings.TrimSpace(fmt.Sprintf("%s %d/%d %s", short[h.TypeURL], h.Lost, h.Of, h.Ended)))
}

func newBed(tb testing.TB, limits cache.Limits) *bed {
	tb.Helper()
	return newBedOf(tb, limits, cache.Source{Quiet: quiet, FullState: map[string]bool{cds: true, lds: true}})
}

func newBedOf(tb testing.TB, limits cache.Limits, source cache.Source) *bed {
	tb.Helper()
	b := &bed{TB: tb, limits: limits, source: source, seen: &sights{evicted: map[cache.Reason]int{}}}
	b.cache = cache.New(limits, b.seen)
	b.cache.MinChunk = 1
	b.store = b.cache.Open(source)
	return b
}

func (b *bed) check() {
	b.Helper()
	if err := b.store.Check(); err != nil {
		b.Fatalf("Check: %v", err)
	}
}

// expect compares what happened with what is written.
func (b *bed) expect(got []string, want ...string) {
	b.Helper()
	if !slices.Equal(got, want) {
		b.Fatalf("-want +got:\n%s", cmp.Diff(want, got))
	}
}

// expectAll is expect for what comes in no particular order.
func (b *bed) expectAll(got []string, want ...string) {
	b.Helper()
	b.expect(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))...)
}

func renderSub(sub wire.Subscription) string {
	words := []string{short[sub.TypeURL]}
	for _, n := range slices.Sorted(slices.Values(sub.Subscribe)) {
		words = append(words, "+"+n)
	}
	for _, n := range slices.Sorted(slices.Values(sub.Unsubscribe)) {
		words = append(words, "-"+n)
	}
	held := []string{}
	if sub.Held {
		held = append(held, "held")
	}
	for n, v := range sub.Versions {
		held = append(held, "="+n+"@"+v)
	}
	return strings.Join(append(words, slices.Sorted(slices.Values(held))...), " ")
}

// connect begins an upstream stream and tells what it asks for: +name, and
// =name@version for what it holds, or "held" where there is no word for versions.
func (b *bed) connect(stream int) []string {
	b.Helper()
	return b.connectWithin(stream, 0)
}

// connectWithin is connect with a limit of the versions' size.
func (b *bed) connectWithin(stream, limit int) []string {
	b.Helper()
	var said []string
	for _, sub := range b.store.Session().Restart(streamOf(stream), limit) {
		said = append(said, renderSub(sub))
	}
	b.check()
	return said
}

// demand takes what the server is to be told: +name and -name.
func (b *bed) demand(stream int) []string {
	b.Helper()
	subs, ok := b.store.Session().TakeDemand(streamOf(stream))
	if !ok {
		return []string{"begin anew"}
	}
	var said []string
	for _, sub := range subs {
		said = append(said, renderSub(sub))
	}
	b.check()
	return said
}

// once applies a resource that is not to be cached.
func (b *bed) once(typeURL, text string) {
	b.Helper()
	b.says(typeURL, "+"+text+"!")
}

// What the server says in a few words.
var resource, heartbeat, response = words.Resource, words.Heartbeat, words.Response

// says applies a response on stream 0.
func (b *bed) says(typeURL string, words ...string) {
	b.Helper()
	b.saysOn(0, typeURL, words...)
}

func (b *bed) saysOn(stream int, typeURL string, words ...string) {
	b.Helper()
	if err := b.apply(stream, response(typeURL, words...)); err != nil {
		b.Fatalf("Apply: %v", err)
	}
}

func (b *bed) apply(stream int, r *wire.Response) error {
	b.Helper()
	err := b.store.Session().Apply(streamOf(stream), r, time.Now())
	b.check()
	return err
}

// settle ends all quiet times.
func (b *bed) settle() {
	b.Helper()
	b.store.Session().Settle(time.Now().Add(2 * quiet))
	b.check()
}

// peer is a client of the schedules.
type peer struct {
	*bed

	s    *Subscriber
	c    *Place
	bell chan struct{}
	busy map[string]bool
	size int
	took []*Batch // by the last collect
}

func (b *bed) join() *peer { return b.joinAs(Form{}) }

func (b *bed) joinAs(form Form) *peer {
	p := &peer{bed: b, bell: make(chan struct{}, 1), busy: map[string]bool{}, size: 1 << 20}
	p.s = NewSubscriber(ringing(p.bell), form)
	p.c = p.s.Join(b.store)
	return p
}

// park has a client subscribe to a resource, and leave when it is there.
func (b *bed) park(typeURL, name string) {
	b.Helper()
	c := b.join()
	c.sub(typeURL, name)
	b.demand(0)
	b.says(typeURL, "+"+name+"@1")
	c.leave()
}

// subscribed joins a client that subscribes, and begins the upstream stream 0.
func (b *bed) subscribed(typeURL string, spellings ...string) (*bed, *peer) {
	b.Helper()
	c := b.join()
	c.sub(typeURL, spellings...)
	b.connect(0)
	return b, c
}

// longHold is longer than any test has clients wait for a list.
const longHold = 1000 * time.Hour

// schedule is that of a pass of the client now.
func (c *Place) schedule() *schedule {
	return &schedule{Pace: Pace{ListHold: longHold}, store: c.store}
}

// paceOf is that of a client that owes acknowledgements of some types, and for which nothing
// waits for a time.
func paceOf(busy func(string) bool, size, parts int) *Pace {
	return &Pace{Size: size, Parts: parts, ListWait: time.Hour, ListHold: longHold, Acks: func(typeURL string) Acks {
		if busy(typeURL) {
			return Awaited
		}
		return Acknowledged
	}}
}

// collectStates collects for a stream with these places, of which nothing else is known.
func collectStates(places []*Place, busy func(string) bool, size, parts int) ([]*Batch, bool) {
	s := &Subscriber{form: places[0].form, places: places}
	for _, c := range places {
		c.subscriber = s
	}
	batches, left, _ := s.Collect(paceOf(busy, size, parts))
	return batches, left.More
}

// collectFrom collects for a stream with one place.
func collectFrom(c *Place, busy func(string) bool, size, parts int) ([]*Batch, bool, error) {
	s := &Subscriber{form: c.form, places: []*Place{c}}
	c.subscriber = s
	batches, left, err := s.Collect(paceOf(busy, size, parts))
	return batches, left.More, err
}

func names(spellings []string) []cache.Name {
	var all []cache.Name
	for _, s := range spellings {
		all = append(all, nameOf(s))
	}
	return all
}

func (p *peer) sub(typeURL string, spellings ...string) {
	p.Helper()
	p.c.Update(&Change{TypeURL: typeURL, Subscribe: names(spellings)})
	p.check()
}

func (p *peer) unsub(typeURL string, spellings ...string) {
	p.Helper()
	p.c.Update(&Change{TypeURL: typeURL, Unsubscribe: names(spellings)})
	p.check()
}

// resume subscribes with what the client says that it holds: "name@version".
func (p *peer) resume(typeURL string, held []string, spellings ...string) {
	p.Helper()
	versions := map[string]string{}
	for _, h := range held {
		name, v, _ := strings.Cut(h, "@")
		versions[keyOf(name)] = v
	}
	p.c.Update(&Change{TypeURL: typeURL, Subscribe: names(spellings), Versions: wire.NewVersions(versions)})
	p.check()
}

// show subscribes with the version that the client had on a stream before.
func (p *peer) show(typeURL, version string, spellings ...string) {
	p.Helper()
	p.c.Update(&Change{TypeURL: typeURL, Subscribe: names(spellings), VersionInfo: version})
	p.check()
}

// lists collects, and tells in one line per response what a state-of-the-world
// client gets: its content, which the tests write as name and version, and !name for
// an error.
func (p *peer) lists() []string {
	p.Helper()
	var said []string
	p.took = nil
	for {
		batches, left, _ := p.s.Collect(paceOf(func(t string) bool { return p.busy[t] }, p.size, 8))
		for _, b := range batches {
			said = append(said, renderState(p, b))
		}
		p.took = append(p.took, batches...)
		p.check()
		if !left.More {
			return said
		}
	}
}

func renderState(tb testing.TB, b *Batch) string {
	tb.Helper()
	var r discovery.DiscoveryResponse
	if err := proto.Unmarshal(b.Body.Finish(b.TypeURL, b.SystemVersion, "n").Bytes(), &r); err != nil {
		tb.Fatal(err)
	}
	words := make([]string, 0, len(r.Resources))
	for _, x := range r.Resources {
		words = append(words, string(x.Value))
	}
	slices.Sort(words)
	for _, e := range r.ResourceErrors {
		words = append(words, "!"+e.ResourceName.GetName())
	}
	return strings.Join(append([]string{short[b.TypeURL]}, words...), " ")
}

func (p *peer) leave() {
	p.Helper()
	p.c.Leave()
	p.check()
}

// rang reports whether the bell was rung since it was last asked.
func (p *peer) rang() bool {
	select {
	case <-p.bell:
		return true
	default:
		return false
	}
}

// woken fails the test unless the bell was rung since it was last asked.
func (p *peer) woken() {
	p.Helper()
	if !p.rang() {
		p.Fatal("not woken")
	}
}

// collect takes everything and tells one line per batch: +name@version (with ~ttl),
// =name@version~ttl for a heartbeat, -name, !name for an error. Removals that waited for later types stand behind "CDS!".
func (p *peer) collect() []string {
	p.Helper()
	var said []string
	p.took = nil
	for {
		batches, left, err := p.s.Collect(paceOf(func(t string) bool { return p.busy[t] }, p.size, 8))
		if err != nil {
			if !errors.Is(err, ErrBehind) {
				p.Fatalf("Collect: %v", err)
			}
			return append(said, "behind")
		}
		for _, batch := range batches {
			said = append(said, p.render(batch))
		}
		p.took = append(p.took, batches...)
		p.check()
		if !left.More {
			return said
		}
	}
}

func (p *peer) render(b *Batch) string {
	p.Helper()
	var r discovery.DeltaDiscoveryResponse
	if err := proto.Unmarshal(b.Body.Finish(b.TypeURL, b.SystemVersion, "n").Bytes(), &r); err != nil {
		p.Fatal(err)
	}
	words := []string{short[b.TypeURL]}
	if b.Removal {
		words[0] += "!"
	}
	seen := map[string]bool{}
	once := func(name string) string {
		if seen[name] {
			p.Fatalf("RES-4: %q twice in one response", name)
		}
		seen[name] = true
		return name
	}
	for _, res := range r.Resources {
		sign, ttl := "+", ""
		if res.Resource == nil {
			sign = "="
		}
		if res.Ttl != nil {
			ttl = "~" + res.Ttl.AsDuration().String()
		}
		words = append(words, fmt.Sprintf("%s%s@%s%s", sign, once(res.Name), res.Version, ttl))
	}
	for _, n := range r.RemovedResources {
		words = append(words, "-"+once(n))
	}
	for _, e := range r.ResourceErrors {
		words = append(words, "!"+e.ResourceName.Name)
	}
	return strings.Join(words, " ")
}

// letGo evicts everything that nobody watches.
func (b *bed) letGo() {
	b.Helper()
	b.cache.SetLimits(cache.Limits{Idle: time.Nanosecond})
	b.cache.Expire(time.Now().Add(time.Hour))
	b.cache.SetLimits(b.limits)
	b.check()
}

// upkeep is what a table keeps beside its resources.
func (b *bed) upkeep(typeURL string, k cache.Kind) cache.Upkeep {
	b.Helper()
	for _, st := range b.store.Stats() {
		if st.TypeURL == typeURL && st.Kind == k.String() {
			return st.Upkeep
		}
	}
	b.Fatalf("no table of %s (%s)", typeURL, k)
	return cache.Upkeep{}
}

// leaving reports whether anything evicted waits for the server to be told.
func (b *bed) leaving() bool {
	resources, bytes := b.cache.Leaving()
	return resources != 0 || bytes != 0
}

const (
	notFound    = codes.NotFound
	unavailable = codes.Unavailable
)

// fails applies a resource error on stream 0.
func (b *bed) fails(typeURL, name string, code codes.Code) {
	b.Helper()
	b.failsOn(0, typeURL, name, code)
}

func (b *bed) failsOn(stream int, typeURL, name string, code codes.Code) {
	b.Helper()
	r := &wire.Response{TypeURL: typeURL, Errors: []wire.ResourceError{{Name: name, Code: code, Message: "why"}}}
	if err := b.apply(stream, r); err != nil {
		b.Fatalf("Apply: %v", err)
	}
}

// streamOf is the stream that the schedules give a number.
func streamOf(n int) wire.StreamID { return wire.StreamID{Second: n == 1} }

// ringing fills a bell's one slot.
func ringing(slot chan<- struct{}) func() {
	return func() {
		notify.Signal(slot)
	}
}
