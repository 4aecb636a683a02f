package delivery

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// warms collects all that is due. Routes wait a second for clusters that are not warm, and removals as long as removal says.
func (p *peer) warms(removal time.Duration) (all []*Batch) {
	p.Helper()
	for more := true; more; {
		pace := paceOf(func(typeURL string) bool { return p.busy[typeURL] }, p.size, 8)
		pace.WarmWait = time.Second
		if removal > 0 {
			pace.RemovalWait = removal
		}
		batches, left, err := p.s.Collect(pace)
		if err != nil {
			p.Fatal(err)
		}
		all, more = append(all, batches...), left.More
		p.check()
	}
	return all
}

// saysWarm is warms, as an incremental client reads it.
func (p *peer) saysWarm(removal time.Duration) (said []string) {
	p.Helper()
	for _, b := range p.warms(removal) {
		said = append(said, p.render(b))
	}
	return said
}

// clusterResource is a cluster of type EDS with a version.
func clusterResource(t *testing.T, name, version string) *wire.Resource {
	t.Helper()
	r, err := wire.NewResource(&discovery.Resource{Name: name, Version: version, Resource: packed(t, edsCluster(name, ""))})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Routes wait for the endpoints of clusters that are new to the client: of one that it was told had gone, too (WARM-4).
func TestCameBack_WARM4(t *testing.T) {
	for name, told := range map[string]bool{
		"WARM-4 the client was told of the removal":                    true,
		"WARM-4 the cluster came back before the client heard of that": false,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				p := b.join()
				collect := func(want ...string) {
					t.Helper()
					b.expect(p.saysWarm(0), want...)
				}
				p.sub(cds, "*")
				p.sub(eds, "a")
				p.sub(rds, "r")
				b.connect(0)
				cluster := func(version string) {
					if err := b.apply(0, &wire.Response{TypeURL: cds, Resources: []*wire.Resource{clusterResource(t, "a", version)}}); err != nil {
						t.Fatal(err)
					}
				}
				cluster("1")
				b.says(eds, "+a@1")
				b.says(rds, "+r@1")
				collect("CDS +a@1", "EDS +a@1", "RDS +r@1")
				b.says(cds, "-a")
				if told {
					collect("CDS -a")
				}
				cluster("2")
				collect("CDS +a@2", "EDS +a@1")
				p.busy[eds] = true // not acknowledged
				b.says(rds, "+r@2")
				if told {
					collect()
					<-time.After(time.Second - 1)
					collect()
					<-time.After(1)
				}
				collect("RDS +r@2")
			})
		})
	}
}

// A client that comes back may lead traffic to clusters before it shows its routes: these wait for the endpoints of clusters
// that it was sent before. Nothing waits for a client that begins (WARM-4).
func TestShowsRoutesLater_WARM4(t *testing.T) {
	for name, tc := range map[string]struct {
		returns bool
		want    []string // of the route, before the time is over
	}{
		"WARM-4 a client that comes back": {returns: true},
		"WARM-4 a client that begins":     {want: []string{"RDS +r@2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				b.connect(0)
				keeper := b.join()
				keeper.sub(cds, "*")
				keeper.sub(rds, "r")
				if err := b.apply(0, &wire.Response{TypeURL: cds, Resources: []*wire.Resource{clusterResource(t, "new", "1")}}); err != nil {
					t.Fatal(err)
				}
				b.says(rds, "+r@2")
				b.settle()
				p := b.join()
				collect := func(want ...string) {
					t.Helper()
					b.expect(p.saysWarm(time.Minute), want...)
				}
				if tc.returns {
					p.presents(cds, "old@1", "*")
				} else {
					p.sub(cds, "*")
				}
				collect("CDS +new@1")
				p.sub(eds, "new") // whose endpoints nobody knows yet
				if tc.returns {
					p.presents(rds, "r@1", "r")
				} else {
					p.sub(rds, "r")
				}
				collect(tc.want...)
				if !tc.returns {
					return
				}
				<-time.After(time.Second)
				collect("RDS +r@2")
			})
		})
	}
}

// A list does not say which of its clusters a client that comes back has. Its subscriptions to endpoints do: routes wait for
// the endpoints of the other clusters alone (WARM-4).
func TestReturnsWithList_WARM4(t *testing.T) {
	for name, tc := range map[string]struct {
		asks, asksLater string // for endpoints, before and after the list
		first           bool   // it shows no version
		waits           bool
	}{
		"WARM-4 it asks for those of another cluster":      {asks: "old", waits: true},
		"WARM-4 it asks for those of the cluster":          {asks: "new"},
		"WARM-4 it asks for those of the cluster later":    {asksLater: "new"},
		"WARM-4 it asks for those of another one later":    {asksLater: "old", waits: true},
		"WARM-4 it asks for none":                          {waits: true},
		"WARM-4 it begins, and asks for those of no other": {first: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				keeper := b.join()
				keeper.sub(cds, "*")
				keeper.sub(rds, "r")
				b.connect(0)
				r := response(cds)
				r.Resources = append(r.Resources, clusterResource(t, "new", "1"))
				if err := b.apply(0, r); err != nil {
					t.Fatal(err)
				}
				b.says(rds, "+r@2")
				b.settle()
				p := b.joinAs(bareForm)
				show := func(typeURL string, spellings ...string) {
					if version := "before"; tc.first {
						p.sub(typeURL, spellings...)
					} else {
						p.show(typeURL, version, spellings...)
					}
				}
				collect := func() bool {
					t.Helper()
					return slices.ContainsFunc(p.warms(0), func(b *Batch) bool { return b.TypeURL == rds })
				}
				if tc.asks != "" {
					show(eds, tc.asks) // whose endpoints nobody knows
				}
				show(cds, "*")
				sent := collect()
				if tc.asksLater != "" {
					show(eds, tc.asksLater)
				}
				show(rds, "r")
				if sent = collect() || sent; sent == tc.waits {
					t.Errorf("the route goes at once: %t", sent)
				}
				<-time.After(time.Second)
				if sent = collect() || sent; !sent {
					t.Error("the route does not go in time")
				}
			})
		})
	}
}

// Routes of a client that comes back wait until the relay knows something of its clusters (WARM-4).
func TestReturnsBeforeClusters_WARM4(t *testing.T) {
	for name, returns := range map[string]bool{"WARM-4 a client that comes back": true, "WARM-4 a client that begins": false} {
		for _, answered := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBed(t, cache.Limits{})
					p := b.join()
					if returns {
						p.presents(cds, "old@1", "*")
						p.presents(rds, "r@1", "r")
					} else {
						p.sub(cds, "*")
						p.sub(rds, "r")
					}
					b.connect(0)
					collect := func(want ...string) {
						t.Helper()
						b.expect(p.saysWarm(time.Minute), want...)
					}
					b.says(rds, "+r@2")
					if !returns {
						collect("RDS +r@2")
						return
					}
					collect()
					if answered {
						b.says(cds, "+old@1")
					} else {
						<-time.After(time.Second)
					}
					collect("RDS +r@2")
				})
			})
		}
	}
}
