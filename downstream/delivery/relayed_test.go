package delivery

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// once applies a resource that is not to be kept.
func (b *bed) once(typeURL, text string) {
	b.Helper()
	b.onceOn(0, typeURL, text)
}

func (b *bed) onceOn(stream int, typeURL, text string) {
	b.Helper()
	var p discovery.Resource
	if err := proto.Unmarshal(resource(typeURL, text).Raw(), &p); err != nil {
		b.Fatal(err)
	}
	p.CacheControl = &discovery.Resource_CacheControl{DoNotCache: true}
	if ttl := resource(typeURL, text); ttl.HasTTL { // it is not among the bytes
		p.Ttl = durationpb.New(ttl.TTL())
	}
	r, err := wire.NewResource(&p)
	if err != nil {
		b.Fatal(err)
	}
	if err := b.apply(stream, &wire.Response{TypeURL: typeURL, Resources: []*wire.Resource{r}}); err != nil {
		b.Fatalf("Apply: %v", err)
	}
}

func TestDoNotCache(t *testing.T) {
	t.Run("TTL-5 a name: to present subscribers once, and asked for again for later ones", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c, slow, late := b.join(), b.join(), b.join()
		c.sub(cds, "a")
		slow.sub(cds, "a")
		b.connect(0)
		b.once(cds, "a@1")
		b.expect(c.collect(), "CDS +a@1")
		b.expect(c.collect())
		if b.cache.Resources() != 0 || b.cache.Bytes() != 0 {
			t.Errorf("kept: %d resources, %d bytes", b.cache.Resources(), b.cache.Bytes())
		}
		b.expect(b.demand(0))
		late.sub(cds, "a")
		b.expect(late.collect())
		b.expect(b.demand(0), "CDS -a", "CDS +a")
		b.expect(b.demand(0))
		b.once(cds, "a@1")
		b.expect(late.collect(), "CDS +a@1")
		b.expect(c.collect())
		b.expect(slow.collect(), "CDS +a@1")
		b.once(cds, "a@2")
		for _, p := range []*peer{c, slow, late} {
			b.expect(p.collect(), "CDS +a@2")
		}
	})
	t.Run("TTL-5 RES-12 it is not presented as held", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a", "b")
		b.says(cds, "+b@1")
		b.once(cds, "a@1")
		b.store.Session().Lost(streamOf(0))
		b.expect(b.connect(0), "CDS +a +b =b@1")
		b.once(cds, "a@1")
		b.expect(c.collect(), "CDS +b@1 +a@1")
	})
	t.Run("TTL-5 ACK-4 its version stood for other content before", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
		b.once(cds, "a@1:x")
		b.expect(c.collect(), "CDS +a@1")
		for _, content := range []string{"x", "y"} {
			late := b.join()
			late.resume(cds, []string{"a@1"}, "a")
			b.expect(b.demand(0), "CDS -a", "CDS +a")
			b.once(cds, "a@1:"+content)
			if content == "x" {
				b.expect(late.collect())
			} else {
				b.expect(late.collect(), "CDS +a@1")
			}
		}
	})
	// Its only subscriber was away when the server used the version again.
	t.Run("TTL-5 ACK-4 its version stood for other content before, and nobody watched it since", func(t *testing.T) {
		for _, removed := range []bool{false, true} {
			b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
			b.once(cds, "a@1:x")
			b.expect(c.collect(), "CDS +a@1")
			if removed {
				b.says(cds, "-a")
				b.expect(c.collect(), "CDS -a")
			}
			for i, content := range []string{"x", "x", "y"} {
				c.leave()
				b.expect(b.demand(0), "CDS -a")
				if b.store.Session().Wanted() != 0 {
					t.Fatal("the name is wanted still")
				}
				c = b.join()
				c.resume(cds, []string{"a@1"}, "a")
				b.expect(b.demand(0), "CDS +a")
				b.once(cds, "a@1:"+content)
				if i < 2 {
					b.expect(c.collect())
				} else {
					b.expect(c.collect(), "CDS +a@1")
				}
			}
		}
	})
	t.Run("TTL-5 SUB-6 subscribing again asks again", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
		b.once(cds, "a@1")
		b.expect(c.collect(), "CDS +a@1")
		c.sub(cds, "a")
		b.expect(c.collect())
		b.expect(b.demand(0), "CDS -a", "CDS +a")
		b.once(cds, "a@1")
		b.expect(c.collect(), "CDS +a@1")
	})
	t.Run("TTL-5 GLOB-6 a name is asked for again before its glob is let go", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globG, nameG1)
		b.once(cds, nameG1+"@1")
		b.expect(c.collect(), "CDS +"+nameG1+"@1")
		c.sub(cds, nameG1)
		c.unsub(cds, globG)
		b.letGo()
		b.expect(b.demand(0), "CDS -"+nameG1, "CDS +"+nameG1, "CDS -"+globG)
	})
	t.Run("TTL-5 SUB-11 what nobody watches is not asked for any more", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a", "b")
		b.once(cds, "a@1")
		c.unsub(cds, "a")
		b.expect(b.demand(0), "CDS -a")
		c.unsub(cds, "b")
		b.once(cds, "b@1")
		b.expect(b.demand(0), "CDS -b")
	})
	t.Run("TTL-5 it changes to what is kept and back, and is removed", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a", globG)
		for _, name := range []string{"a", nameG1} {
			b.once(cds, name+"@1")
			b.expect(c.collect(), "CDS +"+name+"@1")
			b.says(cds, "+"+name+"@2")
			b.expect(c.collect(), "CDS +"+name+"@2")
			b.once(cds, name+"@3")
			b.says(cds, "-"+name)
			b.expectRemoved(c, name)
			b.once(cds, name+"@3")
			b.expect(c.collect(), "CDS +"+name+"@3")
			b.says(cds, "-"+name)
			b.expectRemoved(c, name)
		}
	})
	// The content ran out by what the client was told, and its heartbeat comes after
	// that: only the content can bring it back, and it is not here, save for clients that
	// are renewed with whole resources (TTL-1).
	for sub, member := range subscriptions {
		for _, form := range []Form{timed, timedState} {
			t.Run(fmt.Sprintf("TTL-3 TTL-5 a heartbeat that comes too late, state of the world: %t, %s", form.State, strings.ReplaceAll(sub, "/", "|")), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet})
					able := b.joinAs(form)
					took := able.collect
					if form.State {
						took = able.worlds
					}
					able.sub(cds, sub)
					b.connect(0)
					b.once(cds, member+"@1~10s")
					b.expect(took(), "CDS +"+member+"@1~10s")
					b.after(9 * time.Second)
					b.says(cds, "="+member+"@1~10s")
					b.after(5 * time.Second)
					if form.State {
						b.expect(took(), "CDS ="+member+"@1~5s")
						b.expect(took())
						able.leave()
						return
					}
					b.expect(took())
					b.anew(member, "1~10s")
					b.expect(took(), "CDS +"+member+"@1~10s")
				})
			})
		}
	}
	t.Run("TTL-5 a collection: for later followers the stream begins anew", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c, late := b.join(), b.join()
			c.sub(cds, globG)
			b.connect(0)
			b.once(cds, nameG1+"@1")
			b.once(cds, nameG2+"@1")
			b.says(cds, "+xdstp://x/envoy.config.cluster.v3.Cluster/g/3@1")
			b.expect(c.collect(), "CDS +"+nameG1+"@1 +"+nameG2+"@1 +xdstp://x/envoy.config.cluster.v3.Cluster/g/3@1")
			late.sub(cds, globG)
			b.expect(late.collect(), "CDS +xdstp://x/envoy.config.cluster.v3.Cluster/g/3@1")
			b.expect(b.demand(0), "begin anew")
			b.store.Session().Lost(streamOf(0))
			b.expect(b.connect(0), "CDS +"+globG+" =xdstp://x/envoy.config.cluster.v3.Cluster/g/3@1")
			b.expect(b.demand(0))
			b.once(cds, nameG1+"@1")
			b.expect(late.collect(), "CDS +"+nameG1+"@1")
			b.expect(c.collect())
			// What was not presented and is not mentioned does not exist any more.
			b.after(2 * quiet)
			b.expectRemoved(c, nameG2)
			b.expectRemoved(late, nameG2)
			b.after(2 * quiet)
			b.expect(c.collect())
		})
	})
	t.Run("TTL-5 SUB-8 a name that ends is answered from the collection, once it was asked again", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "*", "a")
		b.connect(1)
		b.once(cds, "a@1")
		b.onceOn(1, cds, "a@1")
		b.expect(c.collect(), "CDS +a@1")
		c.unsub(cds, "a")
		b.expect(c.collect())
		b.expect(b.demand(0), "begin anew")
		b.store.Session().Lost(streamOf(0))
		b.connect(0)
		b.once(cds, "a@1")
		b.expect(c.collect(), "CDS +a@1")
		b.expect(c.collect())
	})
	t.Run("TTL-5 RES-10 under an alias too", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c, late := b.join(), b.join()
		c.sub(rds, "x")
		b.connect(0)
		b.once(rds, "vh@1|x")
		b.expect(c.collect(), "RDS +vh@1")
		late.sub(rds, "x")
		b.expect(late.collect())
		b.expect(b.demand(0), "RDS -x", "RDS +x")
		b.says(rds, "-vh")
		b.expect(c.collect(), "RDS -x -vh")
		b.expect(late.collect(), "RDS -x")
	})
	t.Run("TTL-5 TTL-2 TTL-3 with a ttl", func(t *testing.T) {
		for sub, name := range map[string]string{"a": "a", globG: nameG1} {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				able, plain, late := b.joinAs(timed), b.join(), b.joinAs(timed)
				able.sub(cds, sub)
				plain.sub(cds, sub)
				b.connect(0)
				b.once(cds, name+"@1~10s")
				b.expect(able.collect(), "CDS +"+name+"@1~10s")
				b.expect(plain.collect(), "CDS +"+name+"@1")
				b.after(5 * time.Second)
				late.sub(cds, sub)
				b.says(cds, "="+name+"@1~10s")
				b.expect(able.collect(), "CDS ="+name+"@1~10s")
				b.expect(plain.collect())
				b.expect(late.collect())
				b.once(cds, name+"@1~10s")
				b.expect(late.collect(), "CDS +"+name+"@1~10s")
				b.expect(able.collect(), "CDS +"+name+"@1~10s")
				b.expect(plain.collect())
				b.after(10 * time.Second)
				b.expect(able.collect())
				b.expect(late.collect())
				b.expectRemoved(plain, name)
			})
		}
	})
}

// expectRemoved collects one removal, whether it had to wait or not.
func (b *bed) expectRemoved(p *peer, name string) {
	b.Helper()
	got := p.collect()
	if len(got) != 1 || (got[0] != "CDS -"+name && got[0] != "CDS! -"+name) {
		b.Fatalf("got %q, want the removal of %q", got, name)
	}
}

func TestDoNotCacheErrors(t *testing.T) {
	t.Run("TTL-5 ERR-1 an error that passes keeps what was relayed, others do not", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
		b.once(cds, "a@1")
		b.expect(c.collect(), "CDS +a@1")
		b.fails(cds, "a", unavailable)
		b.expect(c.collect(), "CDS !a")
		b.fails(cds, "a", notFound)
		b.expect(c.collect(), "CDS -a !a")
	})
}
