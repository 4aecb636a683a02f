package delivery

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"pgregory.net/rapid"
)

var (
	bareForm    = Form{State: true}
	wrappedForm = Form{State: true, Wrapped: true}
)

func TestState(t *testing.T) {
	for _, s := range []struct {
		name string
		run  func(b *bed)
	}{
		{"RES-2 RES-4 a full-state list is whole, a partial one is not", func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(cds, "*")
			p.sub(eds, "a", "b")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			b.says(eds, "+a@1", "+b@1")
			b.expect(p.lists(), "CDS a1 b1", "EDS a1 b1")
			b.says(cds, "+a@2")
			b.says(eds, "+a@2")
			b.expect(p.lists(), "CDS a2 b1", "EDS a2")
			b.says(cds, "-a")
			b.says(eds, "-a")
			b.expect(p.lists(), "CDS b1")
			b.expect(p.lists())
		}},
		{"RES-3 removals hold nothing back and are not waited for", func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(cds, "*")
			p.sub(eds, "a")
			p.sub(rds, globG, "*")
			b.connect(0)
			b.says(cds, "+a@1")
			b.says(eds, "+a@1")
			p.lists()
			b.says(eds, "-a")
			b.says(cds, "-a")
			b.expect(p.lists(), "CDS")
			b.says(eds, "+a@3")
			b.expect(p.lists(), "EDS a3")
		}},
		{"STR-7 what comes and goes between two lists is no reason for one", func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(lds, "*")
			b.connect(0)
			b.says(lds, "+a@1")
			b.expect(p.lists(), "LDS a1")
			b.says(lds, "+b@1")
			b.says(lds, "-b")
			b.expect(p.lists())
		}},
		{"ADS-1 tombstones keep their bytes while a list may hold them", func(b *bed) {
			p, q := b.joinAs(bareForm), b.joinAs(bareForm)
			for _, c := range []*peer{p, q} {
				c.sub(cds, "*")
				c.sub(rds, "r")
			}
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			b.says(rds, "+r@1")
			p.lists()
			q.lists()
			p.busy[rds], q.busy[rds] = true, true
			b.says(cds, "-a")
			b.expect(p.lists())
			b.says(cds, "+b@2")
			b.expect(p.lists(), "CDS a1 b2")
			kept := func() int {
				return b.upkeep(cds, cache.WholeType).Retained
			}
			if kept() != 1 {
				b.Errorf("%d tombstones keep their bytes, want 1", kept())
			}
			p.busy[rds], q.busy[rds] = false, false
			b.expect(p.lists(), "CDS b2")
			b.expect(q.lists(), "CDS b2") // never told of a again
			b.says(cds, "+b@3")
			if kept() != 0 {
				b.Errorf("%d tombstones keep their bytes though all have passed them", kept())
			}
			b.says(cds, "-b")
			p.leave()
			q.leave()
			if kept() != 0 {
				b.Errorf("%d tombstones keep their bytes for nobody", kept())
			}
		}},
		{"ADS-1 a later type that never rests does not keep what was removed", func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(cds, "*")
			p.sub(eds, "a")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			b.says(eds, "+a@1")
			p.lists()
			p.busy[eds] = true
			b.says(eds, "+a@2")
			b.says(cds, "-b")
			b.expect(p.lists())
			p.busy[eds] = false
			b.expect(p.lists(), "EDS a2")
			p.busy[eds] = true
			b.says(eds, "+a@3")
			b.expect(p.lists())
			p.busy[eds] = false // it has acknowledged what was sent after the removal
			b.expect(p.lists(), "CDS a1", "EDS a3")
		}},
		{"RES-2 ADS-1 what a client may have from before is taken out of a later list, too", func(b *bed) {
			first := b.joinAs(bareForm)
			first.sub(cds, "*")
			first.sub(rds, "r")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			b.says(rds, "+r@1")
			first.lists()
			b.settle()
			p := b.joinAs(bareForm)
			p.show(cds, "old", "*")
			p.sub(rds, "r")
			b.says(cds, "-b")
			b.expect(p.lists(), "CDS a1 b1", "RDS r1")
			b.expect(p.lists(), "CDS a1")
			b.expect(p.lists())
		}},
		{"ERR-1 RES-2 an error is no word that a name does not exist", func(b *bed) {
			p := b.joinAs(bareForm)
			p.show(cds, "old", "a", "b")
			b.connect(0)
			b.says(cds, "+a@1")
			b.fails(cds, "b", unavailable)
			b.expect(p.lists())
			b.fails(cds, "b", notFound)
			b.expect(p.lists(), "CDS a1 !b")
		}},
		{"ADS-1 incremental clients make nobody keep anything", func(b *bed) {
			p := b.join()
			p.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			p.collect()
			b.says(cds, "-a")
			if kept := b.upkeep(cds, cache.WholeType).Retained; kept != 0 {
				b.Errorf("kept %d", kept)
			}
		}},
		{"RES-2 a client behind discarded tombstones gets the whole list", func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(cds, "*")
			p.sub(eds, "*")
			b.connect(0)
			add := many("+", "m", 0, 2*1024, "@1")
			b.says(cds, append(add, "+z@1")...)
			b.says(eds, append(add, "+z@1")...)
			p.lists()
			b.says(cds, many("-", "m", 0, 2*1024, "")...)
			b.says(eds, many("-", "m", 0, 2*1024, "")...)
			b.expect(p.lists(), "CDS z1")
		}},
		{"ACK-4 versions do not depend on the order, nor on the replica", func(b *bed) {
			o := newBed(b.TB, cache.Limits{})
			p, q := b.joinAs(bareForm), o.joinAs(wrappedForm)
			p.sub(eds, "a", "b")
			q.sub(eds, "b", "a")
			p.sub(cds, "*")
			q.sub(cds, "*")
			b.connect(0)
			o.connect(0)
			b.says(cds, "+a@1", "+b@2")
			b.says(eds, "+a@1", "+b@2")
			p.lists()
			o.says(cds, "+b@1", "+c@1")
			o.says(eds, "+b@2")
			q.lists()
			o.says(cds, "+b@2", "+a@1", "-c")
			o.says(eds, "+a@1")
			q.lists() // c is still listed, since endpoints go out
			endpoints := q.took[1].SystemVersion
			q.lists()
			if q.took[0].SystemVersion != p.took[0].SystemVersion || endpoints != p.took[1].SystemVersion {
				b.Errorf("other versions for the same content: %v, %v", q.took, p.took)
			}
			if v := p.took[0].SystemVersion; v == cache.EmptyVersion() || len(v) != 32 {
				b.Errorf("version %q", v)
			}
		}},
		{"ACK-4 a version with two contents gives two lists their own", func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1:x")
			p.lists()
			was := p.took[0].SystemVersion
			b.says(cds, "+a@1:y")
			b.expect(p.lists(), "CDS ay")
			if p.took[0].SystemVersion == was {
				b.Errorf("version %q again", was)
			}
		}},
		{"ACK-5 RES-2 a warm wildcard", func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1")
			p.lists()
			version := p.took[0].SystemVersion
			q := b.joinAs(bareForm)
			q.show(cds, version, "*")
			b.expect(q.lists()) // nobody knows whether a is all
			b.settle()
			b.expect(q.lists())
			r := b.joinAs(bareForm)
			r.show(cds, "another", "*")
			b.expect(r.lists(), "CDS a1")
			b.says(cds, "+b@1")
			b.expect(q.lists(), "CDS a1 b1")
		}},
		{"RES-2 ADS-1 later types wait for a list that is not complete", func(b *bed) {
			p := b.joinAs(bareForm)
			p.show(cds, "old", "a", "b")
			p.sub(rds, "r")
			b.connect(0)
			b.says(rds, "+r@1")
			b.expect(p.lists(), "RDS r1") // no cluster to wait for yet
			b.says(cds, "+a@1")
			b.says(rds, "+r@2")
			b.expect(p.lists())
			b.says(cds, "-b")
			b.expect(p.lists(), "CDS a1 !b", "RDS r2")
		}},
		{"RES-9 a large partial set is split, a list is not", func(b *bed) {
			p := b.joinAs(bareForm)
			p.size = 1
			p.sub(eds, "a", "b")
			p.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			b.says(eds, "+a@1", "+b@1")
			b.expect(p.lists(), "CDS a1 b1", "EDS a1", "EDS b1")
		}},
		{"NAME-4 RES-4 two spellings are one bare resource, and two wrapped ones", func(b *bed) {
			p, q := b.joinAs(bareForm), b.joinAs(wrappedForm)
			for _, c := range []*peer{p, q} {
				c.sub(cds, nameQ, nameQ2)
				c.sub(rds, strings.ReplaceAll(nameQ, "cluster.v3.Cluster", "route.v3.RouteConfiguration"),
					strings.ReplaceAll(nameQ2, "cluster.v3.Cluster", "route.v3.RouteConfiguration"))
			}
			b.connect(0)
			b.says(cds, "+"+nameQ+"@1")
			b.says(rds, "+"+strings.ReplaceAll(nameQ, "cluster.v3.Cluster", "route.v3.RouteConfiguration")+"@1")
			for _, c := range []struct {
				p    *peer
				want int
			}{{p, 1}, {q, 2}} {
				batches, _, _ := collectFrom(c.p.c, never, 1<<20, 8)
				if len(batches) != 2 || batches[0].Body.Resources() != c.want || batches[1].Body.Resources() != c.want {
					b.Errorf("%d batches, want two of %d resources", len(batches), c.want)
				}
			}
		}},
		{"SUB-8 a name that ended beside the wildcard", func(b *bed) {
			p := b.joinAs(bareForm)
			p.sub(cds, "*", "odd")
			b.connect(0)
			b.demand(0)
			b.saysOn(1, cds, "-odd")
			b.says(cds, "+a@1")
			b.settle()
			p.lists()
			p.unsub(cds, "odd")
			b.expect(p.lists(), "CDS a1")
			b.expect(p.lists())
		}},
	} {
		t.Run(s.name, func(t *testing.T) { s.run(newBed(t, cache.Limits{})) })
	}
}

// A list for all who follow "*" is encoded once, however many they are.
func TestStateBody_BuiltOnce(t *testing.T) {
	const clients, members = 1000, 200
	b := newBed(t, cache.Limits{})
	all := make([]*Subscriber, clients)
	for i := range all {
		all[i] = b.joinAs(bareForm).s
		all[i].Join(b.store).Update(&Change{TypeURL: cds, Subscribe: names([]string{"*"})})
	}
	b.connect(0)
	b.says(cds, many("+", "m", 0, members, "@1")...)
	coll := b.store.FindTable(cds, cache.WholeType).Collection(cache.Wildcard)
	pace := Pace{Acks: acknowledged, Size: 1 << 20, Parts: 8, ListHold: longHold}
	collect := func(c *Subscriber) {
		if batches, _, _ := c.Collect(&pace); len(batches) != 1 || batches[0].Body.Resources() != members {
			t.Fatal("no list")
		}
	}
	collect(all[0])
	if b.upkeep(cds, cache.WholeType).Lists != 1 {
		t.Fatal("the list is not kept")
	}
	body := coll.List(false)
	next := 0
	if n := testing.AllocsPerRun(clients-2, func() { next++; collect(all[next]) }); n > 6 { // of which the race detector makes one
		t.Errorf("%.0f allocations for a list that is there already", n)
	}
	if coll.List(false) != body {
		t.Error("built again")
	}
	b.says(cds, many("+", "m", 0, 1, "@2")...)
	if b.upkeep(cds, cache.WholeType).Lists != 0 {
		t.Error("kept though it is not current")
	}
	collect(all[0])
	for _, c := range all {
		c.Leave()
	}
	if b.upkeep(cds, cache.WholeType).Lists != 0 {
		t.Error("kept though nobody follows")
	}
	b.check()
}

// BenchmarkStateList is a changed list on its way to one client more.
func BenchmarkStateList(b *testing.B) {
	for _, members := range []int{100, 10_000} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			bed := newBed(b, cache.Limits{})
			c := bed.joinAs(bareForm).c
			c.Update(&Change{TypeURL: cds, Subscribe: names([]string{"*"})})
			bed.connect(0)
			bed.says(cds, many("+", "m", 0, members, "@1")...)
			b.ReportAllocs()
			for b.Loop() {
				c.types[0].list.relist = true
				if batches, _ := collectStates([]*Place{c}, never, 1<<20, 8); len(batches) != 1 {
					b.Fatal("no list")
				}
			}
		})
	}
}

// A control plane adds a cluster, moves a route to it and drops the one before, at
// any pace; clients of every form acknowledge at any pace too. None ever holds a
// route whose cluster it has not, and in the end all hold the last state.
func TestModelOrder_ADS1_ADS2_RES2(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := cache.New(cache.Limits{}, nil).Open(cache.Source{Quiet: quiet, FullState: map[string]bool{cds: true, lds: true}})
		named := rapid.Bool().Draw(t, "named")
		var clients []*orderClient
		for _, form := range []Form{{}, wrappedForm} {
			clients = append(clients, newOrderClient(store, form, named))
		}
		store.Session().Restart(streamOf(0), 0)
		apply := func(typeURL string, words ...string) {
			if err := store.Session().Apply(streamOf(0), response(typeURL, words...), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		current, next := "c0", 1
		apply(cds, "+c0@1")
		apply(lds, "+l@c0")
		apply(rds, "+r@c0")
		gone := ""
		t.Repeat(map[string]func(*rapid.T){
			"move": func(t *rapid.T) {
				if gone != "" {
					t.Skip("the last one is not dropped yet")
				}
				gone, current = current, fmt.Sprint("c", next%orderNames)
				next++
				apply(cds, "+"+current+"@1")
				apply(rds, "+r@"+current)
				if rapid.Bool().Draw(t, "listener") {
					apply(lds, "+l@"+current)
				}
			},
			"drop": func(t *rapid.T) {
				if gone == "" {
					t.Skip("nothing to drop")
				}
				apply(lds, "+l@"+current)
				apply(cds, "-"+gone)
				gone = ""
			},
			"change": func(t *rapid.T) { apply(cds, fmt.Sprintf("+%s@%d", current, rapid.IntRange(1, 9).Draw(t, "version"))) },
			"collect": func(t *rapid.T) {
				rapid.SampledFrom(clients).Draw(t, "client").collect(t, rapid.SampledFrom([]int{1, 1 << 20}).Draw(t, "size"))
			},
			"ack": func(t *rapid.T) {
				delete(rapid.SampledFrom(clients).Draw(t, "client").busy, rapid.SampledFrom([]string{cds, lds, rds}).Draw(t, "type"))
			},
			"": func(t *rapid.T) {
				if err := store.Check(); err != nil {
					t.Fatal(err)
				}
			},
		})
		for _, c := range clients {
			for range 10 {
				clear(c.busy)
				c.collect(t, 1<<20)
			}
			want := []string{current}
			if gone != "" {
				want = append(want, gone)
				slices.Sort(want)
			}
			if got := c.holds(); !slices.Equal(got, want) || c.targets["r"] != current {
				t.Fatalf("%+v: holds %v with a route to %v, want %v", c.form, got, c.targets, want)
			}
		}
	})
}

// orderNames is how many clusters take turns: one that was removed comes back.
const orderNames = 3

type orderClient struct {
	form     Form
	client   *Place
	busy     map[string]bool
	clusters map[string]bool
	targets  map[string]string // of the listener and the route
}

func newOrderClient(store *cache.Store, form Form, named bool) *orderClient {
	c := &orderClient{
		form: form, busy: map[string]bool{}, clusters: map[string]bool{}, targets: map[string]string{},
		client: Join(store, func() {}, form),
	}
	clusters := []string{"*"}
	if named {
		clusters = nil
		for i := range orderNames {
			clusters = append(clusters, fmt.Sprint("c", i))
		}
	}
	c.client.Update(&Change{TypeURL: cds, Subscribe: names(clusters)})
	c.client.Update(&Change{TypeURL: lds, Subscribe: names([]string{"*"})})
	c.client.Update(&Change{TypeURL: rds, Subscribe: names([]string{"r"})})
	return c
}

func (c *orderClient) holds() []string {
	var all []string
	for name := range c.clusters {
		all = append(all, name)
	}
	return slices.Sorted(slices.Values(all))
}

func (c *orderClient) collect(t *rapid.T, size int) {
	batches, _, err := collectFrom(c.client, func(typeURL string) bool { return c.busy[typeURL] }, size, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		r, err := decode(b, c.form)
		if err != nil {
			t.Fatal(err)
		}
		c.busy[b.TypeURL] = true
		if c.form.State && b.TypeURL == cds {
			clear(c.clusters)
		}
		for _, res := range r.Resources {
			if b.TypeURL == cds {
				c.clusters[res.Name] = true
			} else {
				c.targets[res.Name] = res.Version
			}
		}
		for _, name := range r.RemovedResources {
			delete(c.clusters, name)
		}
		for name, target := range c.targets {
			if !c.clusters[target] {
				t.Fatalf("%+v: %s points to %s, the client has %v", c.form, name, target, c.clusters)
			}
		}
	}
}

// Two stores are changed while streams with places in both collect: a list always
// has the parts of both, and both orders hold.
func TestStateStores_RES2_ADS1(t *testing.T) {
	full := map[string]bool{cds: true}
	all := cache.New(cache.Limits{}, nil)
	stores := []*cache.Store{all.Open(cache.Source{Quiet: quiet, FullState: full}), all.Open(cache.Source{Quiet: quiet, FullState: full})}
	prefixes := []string{"a", "b"}
	var done atomic.Bool
	var server, others sync.WaitGroup
	for i, s := range stores {
		keep := Join(s, func() {}, Form{})
		t.Cleanup(keep.Leave)
		keep.Update(&Change{TypeURL: cds, Subscribe: names([]string{"*"})})
		keep.Update(&Change{TypeURL: rds, Subscribe: names([]string{prefixes[i] + "r"})})
		s.Session().Restart(streamOf(0), 0)
		apply := func(typeURL string, words ...string) {
			if err := s.Session().Apply(streamOf(0), response(typeURL, words...), time.Now()); err != nil {
				t.Error(err)
			}
		}
		apply(cds, "+"+prefixes[i]+"0@1")
		apply(rds, "+"+prefixes[i]+"r@"+prefixes[i]+"0")
		server.Go(func() {
			for n := 1; n < 1024; n++ { // none is discarded: that would end the order
				apply(cds, fmt.Sprintf("+%s%d@1", prefixes[i], n))
				apply(rds, fmt.Sprintf("+%sr@%s%d", prefixes[i], prefixes[i], n))
				apply(cds, fmt.Sprintf("-%s%d", prefixes[i], n-1))
			}
		})
	}
	for range 3 {
		others.Go(func() {
			c := &orderClient{form: wrappedForm, busy: map[string]bool{}, clusters: map[string]bool{}, targets: map[string]string{}}
			if err := c.followBoth(stores, prefixes, &done); err != nil {
				t.Error(err)
			}
		})
	}
	server.Wait()
	done.Store(true)
	others.Wait()
	for _, s := range stores {
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}

// followBoth is the life of a stream with places in two stores.
func (c *orderClient) followBoth(stores []*cache.Store, prefixes []string, done *atomic.Bool) error {
	bell := make(chan struct{}, 1)
	var places []*Place
	defer func() {
		for _, p := range places {
			p.Leave()
		}
	}()
	for i, s := range stores {
		p := Join(s, ringing(bell), c.form)
		p.Update(&Change{TypeURL: rds, Subscribe: names([]string{prefixes[i] + "r"})})
		p.Update(&Change{TypeURL: cds, Subscribe: names([]string{"*"})})
		places = append(places, p)
	}
	for n := 0; ; n++ {
		last := done.Load()
		batches, more := collectStates(places, func(typeURL string) bool { return c.busy[typeURL] }, 1<<20, 8)
		for _, b := range batches {
			r, err := decode(b, c.form)
			if err != nil {
				return err
			}
			if b.TypeURL == cds {
				clear(c.clusters)
			}
			parts := map[byte]bool{}
			for _, res := range r.Resources {
				if b.TypeURL == cds {
					c.clusters[res.Name] = true
					parts[res.Name[0]] = true
				} else {
					c.targets[res.Name] = res.Version
				}
			}
			if b.TypeURL == cds && len(parts) != len(stores) {
				return fmt.Errorf("a list with parts of %d stores", len(parts))
			}
			for name, target := range c.targets {
				if !c.clusters[target] {
					return fmt.Errorf("%s points to %s, the client has %v", name, target, c.clusters)
				}
			}
		}
		c.busy = map[string]bool{cds: n%3 == 0 && !last, rds: n%5 == 0 && !last}
		if len(batches) == 0 && !more {
			if last {
				return nil
			}
			select {
			case <-bell:
			case <-time.After(time.Millisecond):
			}
		}
	}
}
