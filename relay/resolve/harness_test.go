package resolve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The type of the tests, of which lists are complete, and its list collections.
const (
	lds     = typePrefix + "envoy.config.listener.v3.Listener"
	ldsList = lds + "Collection"

	// after is how long an upstream has to be unreachable.
	after = 10 * time.Second
)

// at names a listener of an authority, and list a list collection.
func at(authority, id string) string {
	return "xdstp://" + authority + "/envoy.config.listener.v3.Listener/" + id
}

func list(authority, id string) string {
	return "xdstp://" + authority + "/envoy.config.listener.v3.ListenerCollection/" + id
}

// world is a resolver between the stores of some authorities, each with an upstream of
// its name, and the clients of the resolved store. Every step ends when nothing moves any more.
type world struct {
	*testing.T

	cache    *cache.Cache
	resolved *cache.Store
	resolver *Resolver
	planes   map[string]*plane
	claims   map[string]Upstream // by authority; those that are not here have the plane of that name
	seen     map[string]int
}

// run has a world in a bubble.
func run(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := w.resolver.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Run ended with %v", err)
			}
		})
		for _, p := range w.planes {
			wg.Go(func() { p.run(ctx) })
		}
		f(w)
		stop()
		wg.Wait()
		for name, p := range w.planes {
			if p.open != 0 {
				t.Errorf("the source of %s is not closed", name)
			}
		}
	})
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, cache: cache.New(cache.Limits{}, nil), planes: make(map[string]*plane), seen: make(map[string]int)}
	full := map[string]bool{lds: true}
	w.resolved = w.cache.Open(cache.Source{FullState: full, Resolved: true})
	for _, name := range []string{"a", "b", "c"} {
		w.planes[name] = &plane{
			world: w, up: true, truth: make(map[string]*wire.Resource),
			store: w.cache.Open(cache.Source{FullState: full}),
		}
	}
	w.resolver = New(Config{
		Settings: Settings{AlternativeAfter: after}, Store: w.resolved.Session(), Sources: w, Observer: w,
	})
	return w
}

// Upstream implements Sources.
func (w *world) Upstream(authority string) (Upstream, bool) {
	if u, claimed := w.claims[authority]; claimed {
		return u, u.Name != ""
	}
	return Upstream{Name: authority}, w.planes[authority] != nil
}

// renew has other claims from now on.
func (w *world) renew(s Settings, claims map[string]Upstream) {
	w.Helper()
	w.claims = claims
	w.resolver.Renew(s)
	w.settle()
}

// Open implements Sources.
func (w *world) Open(u Upstream, changed func()) (Source, error) {
	p := w.planes[u.Name]
	if successor, replaced := u.Of.(*plane); replaced {
		p = successor
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.barred {
		return nil, errors.New("barred")
	}
	p.open++
	p.changed = changed
	return p, nil
}

// Switched, Followed and Failed implement Observer.
func (w *world) Switched(upstream string, away bool) {
	w.seen[fmt.Sprint("switched ", upstream, " ", away)]++
}
func (w *world) Failed(reason Failure) { w.seen["failed "+string(reason)]++ }

// sees compares what the observer was told since it was last asked.
func (w *world) sees(want ...string) {
	w.Helper()
	var got []string
	for what, n := range w.seen {
		got = append(got, fmt.Sprint(what, " ", n))
	}
	clear(w.seen)
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))); diff != "" {
		w.Errorf("observed: -want +got:\n%s", diff)
	}
}

// settle waits until nothing moves, and checks all stores.
func (w *world) settle() {
	w.Helper()
	synctest.Wait()
	for name, p := range w.planes {
		if err := p.store.Check(); err != nil {
			w.Fatalf("store of %s: %v", name, err)
		}
	}
	if err := w.resolved.Check(); err != nil {
		w.Fatalf("resolved store: %v", err)
	}
}

// wait lets time pass.
func (w *world) wait(d time.Duration) {
	w.Helper()
	<-time.After(d)
	w.settle()
}

// plane is an upstream's control plane and session.
type plane struct {
	world *world
	store *cache.Store

	mu      sync.Mutex
	up      bool
	silent  bool // it answers nothing
	barred  bool // nothing can be asked of it
	away    time.Time
	stands  bool // a stream does, though it was not answered yet
	changed func()
	truth   map[string]*wire.Resource
	asked   []string // in order
	open    int
	told    []string
}

// Store implements Source.
func (p *plane) Store() *cache.Store { return p.store }

// Away implements Source.
func (p *plane) Away() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.away, p.stands
}

// Tell implements Source.
func (p *plane) Tell(w ack.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kind := [...]string{"sent", "accepted", "rejected"}[w.Kind]
	p.told = append(p.told, strings.TrimSpace(fmt.Sprintf("%s %s %d-%d %s", kind, keyer.ShortName(w.TypeURL), w.Of.First, w.Of.Last, w.Reason)))
}

// Close implements Source.
func (p *plane) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	p.changed = nil
}

// run answers what is wanted.
func (p *plane) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.store.Session().DemandChanged():
			p.mu.Lock()
			if p.up {
				subs, ok := p.store.Session().TakeDemand(wire.StreamID{})
				if !ok {
					p.store.Session().Lost(wire.StreamID{})
					subs = p.store.Session().Restart(wire.StreamID{}, 0)
				}
				p.answer(subs)
			}
			p.mu.Unlock()
		}
	}
}

// answer says what is true of what is asked for. Guarded by mu.
func (p *plane) answer(subs []wire.Subscription) {
	for _, sub := range subs {
		r := &wire.Response{TypeURL: sub.TypeURL}
		said := make(map[string]bool)
		say := func(name string) {
			if said[name] {
				return
			}
			said[name] = true
			if res := p.truth[name]; res != nil {
				r.Resources = append(r.Resources, res)
			} else {
				r.Removed = append(r.Removed, name)
			}
		}
		for _, name := range sub.Subscribe {
			p.asked = append(p.asked, name)
			if !keyer.IsGlob(name) {
				say(name)
				continue
			}
			before := len(r.Resources)
			for _, member := range slices.Sorted(maps.Keys(p.truth)) {
				if keyer.GlobOf(member) == name {
					say(member)
				}
			}
			if len(r.Resources) == before {
				say(name)
			}
		}
		for name := range sub.Versions {
			if p.truth[name] == nil {
				say(name)
			}
		}
		if !p.silent {
			p.apply(r)
		}
	}
}

func (p *plane) apply(r *wire.Response) {
	if err := p.store.Session().Apply(wire.StreamID{}, r, time.Now()); err != nil {
		p.world.Errorf("Apply: %v", err)
	}
	p.store.Session().Settle(time.Now())
}

// has gives the control plane resources, from now on.
func (p *plane) has(resources ...*wire.Resource) {
	p.world.Helper()
	p.mu.Lock()
	byType := make(map[string]*wire.Response)
	for _, r := range resources {
		p.truth[r.Name] = r
		typeURL := lds
		if r.TypeURL() == ldsList || strings.HasPrefix(r.Name, list(p.name(), "")) {
			typeURL = ldsList
		}
		if byType[typeURL] == nil {
			byType[typeURL] = &wire.Response{TypeURL: typeURL}
		}
		byType[typeURL].Resources = append(byType[typeURL].Resources, r)
	}
	if p.up && !p.silent {
		for _, r := range byType {
			p.apply(r)
		}
	}
	p.mu.Unlock()
	p.world.settle()
}

// name is that of its authority.
func (p *plane) name() string {
	for name, o := range p.world.planes {
		if o == p {
			return name
		}
	}
	return ""
}

// lacks has resources be gone from now on.
func (p *plane) lacks(names ...string) {
	p.world.Helper()
	p.mu.Lock()
	for _, name := range names {
		delete(p.truth, name)
	}
	if p.up {
		for _, typeURL := range []string{lds, ldsList} {
			p.apply(&wire.Response{TypeURL: typeURL, Removed: names})
		}
	}
	p.mu.Unlock()
	p.world.settle()
}

// fails has the control plane report an error.
func (p *plane) fails(name string, code codes.Code) {
	p.world.Helper()
	p.mu.Lock()
	p.apply(&wire.Response{TypeURL: lds, Errors: []wire.ResourceError{{Name: name, Code: code, Message: "because"}}})
	p.mu.Unlock()
	p.world.settle()
}

// goes makes it unreachable, as from now, and comes reachable again.
func (p *plane) goes() {
	p.world.Helper()
	p.mu.Lock()
	p.up, p.away = false, time.Now()
	p.store.Session().Lost(wire.StreamID{})
	p.turned()
	p.world.settle()
}

func (p *plane) comes() {
	p.world.Helper()
	p.mu.Lock()
	p.up, p.away = true, time.Time{}
	p.answer(p.store.Session().Restart(wire.StreamID{}, 0))
	p.turned()
	p.world.settle()
}

// stand says whether a stream stands that was not answered yet.
func (p *plane) stand(open bool) {
	p.world.Helper()
	p.mu.Lock()
	p.stands = open
	p.turned()
	p.world.settle()
}

// turned tells who wants to know, and gives mu back.
func (p *plane) turned() {
	changed := p.changed
	p.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// wasAsked gives what the control plane was asked for since the last time.
func (p *plane) wasAsked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return slices.Sorted(slices.Values(asked))
}

// a makes a listener with a version, "once" after it for one that is not to be kept,
// and with a ttl if there is one.
func a(name, version string, options ...any) *wire.Resource {
	p := &discovery.Resource{Name: name, Version: version, Resource: packed(&listenerv3.Listener{Name: name, StatPrefix: version})}
	for _, o := range options {
		switch o := o.(type) {
		case time.Duration:
			p.Ttl = durationpb.New(o)
		case string:
			p.CacheControl = &discovery.Resource_CacheControl{DoNotCache: o == "once"}
		}
	}
	return resource(p)
}

// redirect makes one that leads from a name to another.
func redirect(name, to string) *wire.Resource {
	return resource(&discovery.Resource{Name: name, Version: "to " + to, Resource: packed(locator(to))})
}

func locator(name string) *xdscorev3.ResourceLocator {
	n, err := keyer.Parse(name)
	if err != nil {
		panic(err)
	}
	l := &xdscorev3.ResourceLocator{Authority: n.Authority, ResourceType: n.Type, Id: n.ID}
	if n.Alt() != "" {
		l.Directives = append(l.Directives, &xdscorev3.ResourceLocator_Directive{
			Directive: &xdscorev3.ResourceLocator_Directive_Alt{Alt: locator(n.Alt())},
		})
	}
	if n.Entry() != "" {
		l.Directives = append(l.Directives, &xdscorev3.ResourceLocator_Directive{
			Directive: &xdscorev3.ResourceLocator_Directive_Entry{Entry: n.Entry()},
		})
	}
	return l
}

// directoryOf makes a list collection of inline entries, "name@version".
func directoryOf(name, version string, entries ...string) *wire.Resource {
	l := &listenerv3.ListenerCollection{}
	for _, e := range entries {
		entry, v, _ := strings.Cut(e, "@")
		l.Entries = append(l.Entries, inline(entry, v, packed(&listenerv3.Listener{Name: entry, StatPrefix: v})))
	}
	return collection(name, version, l)
}

func collection(name, version string, l *listenerv3.ListenerCollection) *wire.Resource {
	return resource(&discovery.Resource{Name: name, Version: version, Resource: packed(l)})
}

func inline(name, version string, payload *anypb.Any) *xdscorev3.CollectionEntry {
	return &xdscorev3.CollectionEntry{ResourceSpecifier: &xdscorev3.CollectionEntry_InlineEntry_{
		InlineEntry: &xdscorev3.CollectionEntry_InlineEntry{Name: name, Version: version, Resource: payload},
	}}
}

func packed(m proto.Message) *anypb.Any {
	p, err := anypb.New(m)
	if err != nil {
		panic(err)
	}
	return p
}

func resource(p *discovery.Resource) *wire.Resource {
	r, err := wire.NewResource(p)
	if err != nil {
		panic(err)
	}
	return r
}

// client is one of the resolved store.
type client struct {
	*world

	s     *delivery.Subscriber
	c     *delivery.Place // its place
	state bool
	held  map[string]string // version by name
}

func (w *world) join(form delivery.Form) *client {
	s := delivery.NewSubscriber(func() {}, form)
	return &client{
		world: w, s: s, c: s.Join(w.resolved),
		state: form.State, held: make(map[string]string),
	}
}

// wants subscribes to names and waits for what comes.
func (c *client) wants(spellings ...string) {
	c.Helper()
	ch := delivery.Change{TypeURL: lds}
	for _, s := range spellings {
		ch.Subscribe = append(ch.Subscribe, nameOf(s))
	}
	c.c.Update(&ch)
	c.settle()
}

func (c *client) drops(spellings ...string) {
	c.Helper()
	ch := delivery.Change{TypeURL: lds}
	for _, s := range spellings {
		ch.Unsubscribe = append(ch.Unsubscribe, nameOf(s))
		if glob, _, _ := strings.Cut(s, "#"); keyer.IsGlob(glob) {
			maps.DeleteFunc(c.held, func(name, _ string) bool { return keyer.GlobOf(name) == glob })
		}
		delete(c.held, s)
	}
	c.c.Update(&ch)
	c.settle()
}

func nameOf(spelling string) cache.Name {
	n, err := keyer.Parse(spelling)
	if err != nil {
		panic(err)
	}
	return cache.Name{Spelling: spelling, Key: n.Resolved()}
}

// unhurried is the pace of a client that acknowledges at once, and for which nothing waits.
var unhurried = delivery.Pace{Acks: func(string) delivery.Acks { return delivery.Acknowledged }, Size: 1 << 20, Parts: 8, ListHold: time.Hour}

// collect takes what is due and gives it a word each: +name@version, -name, !name CODE.
func (c *client) collect() []string {
	c.Helper()
	var said []string
	for more := true; more; {
		batches, left, err := c.s.Collect(&unhurried)
		if err != nil {
			c.Fatal(err)
		}
		more = left.More || len(batches) > 0 // what was taken is acknowledged by now
		for _, b := range batches {
			said = append(said, c.take(b)...)
		}
	}
	c.settle()
	return said
}

func (c *client) take(b *delivery.Batch) []string {
	c.Helper()
	encoded := b.Body.Finish(b.TypeURL, b.SystemVersion, "n").Bytes()
	var said []string
	if c.state {
		var r discovery.DiscoveryResponse
		if err := proto.Unmarshal(encoded, &r); err != nil {
			c.Fatal(err)
		}
		clear(c.held)
		for _, x := range r.Resources {
			res := new(discovery.Resource)
			if err := proto.Unmarshal(x.Value, res); err != nil {
				c.Fatal(err)
			}
			c.held[res.Name] = res.Version
			said = append(said, "+"+res.Name+"@"+res.Version)
		}
		return slices.Sorted(slices.Values(said))
	}
	var r discovery.DeltaDiscoveryResponse
	if err := proto.Unmarshal(encoded, &r); err != nil {
		c.Fatal(err)
	}
	for _, res := range r.Resources {
		c.held[res.Name] = res.Version
		said = append(said, "+"+res.Name+"@"+res.Version)
	}
	for _, name := range r.RemovedResources {
		delete(c.held, name)
		said = append(said, "-"+name)
	}
	for _, e := range r.ResourceErrors {
		said = append(said, fmt.Sprintf("!%s %s: %s", e.ResourceName.Name, codes.Code(e.ErrorDetail.Code), e.ErrorDetail.Message))
	}
	return slices.Sorted(slices.Values(said))
}

// gets collects and compares.
func (c *client) gets(want ...string) {
	c.Helper()
	if diff := cmp.Diff(want, c.collect()); diff != "" {
		c.Fatalf("-want +got:\n%s", diff)
	}
}
