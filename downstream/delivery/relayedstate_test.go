package delivery

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// heldFor is how much of what is not to be cached is held for lists.
func (b *bed) heldFor(member string) bool {
	b.Helper()
	for _, k := range []cache.Kind{cache.WholeType, cache.ByName} {
		t := b.store.FindTable(cds, k)
		if t == nil {
			continue
		}
		if e := t.Find(member); e != nil && e.State() == cache.Transient && e.Listed() != nil {
			return true
		}
	}
	return false
}

// anew answers what the relay asks for again with what the server has.
func (b *bed) anew(member, content string) {
	b.Helper()
	switch said := b.demand(0); {
	case len(said) == 0:
		b.Fatal("TTL-5: the server is not asked again")
	case said[0] == "begin anew":
		b.store.Session().Lost(streamOf(0))
		b.connect(0)
	}
	b.once(cds, member+"@"+content)
}

// Lists hold everything, so what is not to be cached is held for those who are sent
// some; nobody else gets it from there, in whatever order clients come and go.
func TestDoNotCacheInLists_TTL5(t *testing.T) {
	for _, s := range []struct {
		name string
		run  func(b *bed, sub, member string)
	}{
		{"RES-2 each list holds it", func(b *bed, sub, member string) {
			c := b.joinAs(wrappedForm)
			c.sub(cds, sub, "zz")
			b.connect(0)
			b.connect(1)
			b.once(cds, member+"@1")
			b.expect(c.worlds(), "CDS +"+member+"@1")
			b.other("+zz@1")
			b.expect(c.worlds(), "CDS +"+member+"@1 +zz@1")
			b.once(cds, member+"@2")
			b.expect(c.worlds(), "CDS +"+member+"@2 +zz@1")
			b.says(cds, "-"+member)
			b.expect(c.worlds(), "CDS +zz@1")
		}},
		{"STR-7 the same again is no reason for a list", func(b *bed, sub, member string) {
			c := b.joinAs(wrappedForm)
			c.sub(cds, sub)
			b.connect(0)
			b.once(cds, member+"@1")
			b.expect(c.worlds(), "CDS +"+member+"@1")
			b.once(cds, member+"@1")
			b.expect(c.worlds())
			b.once(cds, member+"@2")
			b.once(cds, member+"@2")
			b.expect(c.worlds(), "CDS +"+member+"@2")
			b.expect(c.worlds())
		}},
		{"who is sent lists and comes second is served from what the first one's hold", func(b *bed, sub, member string) {
			c := b.joinAs(wrappedForm)
			c.sub(cds, sub)
			b.connect(0)
			b.once(cds, member+"@1")
			c.worlds()
			late := b.joinAs(wrappedForm)
			late.sub(cds, sub)
			b.expect(late.worlds(), "CDS +"+member+"@1")
			b.expect(b.demand(0))
		}},
		{"who is sent lists and comes after an incremental client makes the relay ask again", func(b *bed, sub, member string) {
			c := b.join()
			c.sub(cds, sub)
			b.connect(0)
			b.once(cds, member+"@1")
			b.expect(c.collect(), "CDS +"+member+"@1")
			late := b.joinAs(wrappedForm)
			late.sub(cds, sub)
			late.worlds() // without it, if there is anything to say
			b.anew(member, "1")
			b.expect(late.worlds(), "CDS +"+member+"@1")
			b.expect(c.collect())
		}},
		{"an incremental client that comes later makes the relay ask again", func(b *bed, sub, member string) {
			c := b.joinAs(wrappedForm)
			c.sub(cds, sub)
			b.connect(0)
			b.once(cds, member+"@1")
			b.expect(c.worlds(), "CDS +"+member+"@1")
			late := b.join()
			late.sub(cds, sub)
			b.expect(late.collect())
			b.anew(member, "1")
			b.expect(late.collect(), "CDS +"+member+"@1")
			b.expect(c.worlds())
			b.once(cds, member+"@2")
			b.expect(late.collect(), "CDS +"+member+"@2")
			b.expect(c.worlds(), "CDS +"+member+"@2")
		}},
		{"the bytes go with the last one who is sent lists", func(b *bed, sub, member string) {
			c, d, beside := b.joinAs(wrappedForm), b.joinAs(bareForm), b.join()
			for _, p := range []*peer{c, d, beside} {
				p.sub(cds, sub)
			}
			b.connect(0)
			b.once(cds, member+"@1")
			c.leave()
			if !b.heldFor(member) {
				b.Error("not held for the other one")
			}
			d.unsub(cds, sub)
			if b.heldFor(member) {
				b.Error("held for nobody")
			}
			b.expect(beside.collect(), "CDS +"+member+"@1")
			late := b.joinAs(wrappedForm)
			late.sub(cds, sub)
			late.worlds()
			b.anew(member, "1")
			b.expect(late.worlds(), "CDS +"+member+"@1")
		}},
		{"RES-2 a warm client waits for what was not kept", func(b *bed, sub, member string) {
			c := b.join()
			c.sub(cds, sub)
			b.connect(0)
			b.once(cds, member+"@1")
			c.collect()
			b.after(2 * quiet)
			warm := b.joinAs(wrappedForm)
			warm.show(cds, "old", sub)
			b.expect(warm.worlds())
			b.anew(member, "1")
			b.expect(warm.worlds(), "CDS +"+member+"@1")
		}},
		{"TTL-1 TTL-2 with a ttl", func(b *bed, sub, member string) {
			able, plain := b.joinAs(timedState), b.joinAs(wrappedForm)
			able.sub(cds, sub)
			plain.sub(cds, sub)
			b.connect(0)
			b.once(cds, member+"@1~10s")
			b.expect(able.worlds(), "CDS +"+member+"@1~10s")
			b.expect(plain.worlds(), "CDS +"+member+"@1")
			b.after(4 * time.Second)
			b.says(cds, "="+member+"@1~20s")
			b.expect(able.worlds(), "CDS ="+member+"@1~20s")
			b.after(20 * time.Second)
			b.expect(able.worlds())
			b.expect(plain.worlds(), "CDS")
		}},
		// The content ran out by what the client was told, and its heartbeat comes after
		// that: only the content can bring it back.
		{"TTL-3 a heartbeat that comes too late is a list", func(b *bed, sub, member string) {
			able := b.joinAs(timedState)
			able.sub(cds, sub)
			b.connect(0)
			b.once(cds, member+"@1~10s")
			b.expect(able.worlds(), "CDS +"+member+"@1~10s")
			b.after(9 * time.Second)
			b.says(cds, "="+member+"@1~10s")
			b.after(5 * time.Second)
			b.expect(able.worlds(), "CDS ="+member+"@1~5s")
			b.expect(able.worlds())
		}},
	} {
		for sub, member := range subscriptions {
			t.Run("TTL-5 "+s.name+", subscribed as "+strings.ReplaceAll(sub, "/", "|"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { s.run(newBed(t, cache.Limits{}), sub, member) })
			})
		}
	}
}

// other applies a response on the stream that carries names.
func (b *bed) other(words ...string) {
	b.Helper()
	stream := 0
	if b.store.Session().StreamWanted(streamOf(1)) {
		stream = 1
	}
	b.saysOn(stream, cds, words...)
}

// Types whose responses need not be complete hold nothing back for anybody.
func TestDoNotCacheOfOtherTypes_TTL5(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.joinAs(wrappedForm)
	c.sub(eds, "a", "b")
	b.connect(0)
	b.once(eds, "a@1")
	b.expect(c.worlds(), "EDS +a@1")
	b.says(eds, "+b@1")
	b.expect(c.worlds(), "EDS +b@1")
	late := b.joinAs(wrappedForm)
	late.sub(eds, "a")
	b.expect(late.worlds())
	b.expect(b.demand(0), "EDS -a", "EDS +a")
	b.once(eds, "a@1")
	b.expect(late.worlds(), "EDS +a@1")
	b.expect(c.worlds())
}

// stateTTL is stateOf with resources as they are written for an incremental source.
func stateTTL(typeURL, version string, words ...string) *wire.Response {
	return &wire.Response{State: true, TypeURL: typeURL, Version: version, Resources: response(typeURL, words...).Resources}
}

// What a source of the state of the world says of ttls.
func TestApplyStateTTL(t *testing.T) {
	for name, f := range map[string]func(b *bed, able, plain *peer){
		"TTL-3 a heartbeat without version, as go-control-plane sends it": func(b *bed, able, plain *peer) {
			b.world("1", "+a@~10s", "+b@")
			b.expect(able.told(), "CDS +a +b")
			b.after(5 * time.Second)
			b.world("1", "=a@~10s")
			b.expect(able.told(), "CDS =a")
			b.after(10*time.Second - 1)
			b.expect(plain.told(), "CDS +a +b")
			b.after(1)
			b.expect(plain.told(), "CDS -a")
		},
		"TTL-3 a heartbeat with the version_info as version": func(b *bed, able, plain *peer) {
			b.world("1", "+a@~10s")
			b.expect(able.told(), "CDS +a")
			b.world("1", "=a@1~20s")
			b.expect(able.told(), "CDS =a")
			b.after(11 * time.Second)
			b.expect(plain.told(), "CDS +a")
		},
		"TTL-3 a heartbeat with the resource's version": func(b *bed, able, _ *peer) {
			b.world("1", "+a@v1~10s")
			b.expect(able.collect(), "CDS +a@v1~10s")
			b.world("2", "=a@v1~20s")
			b.expect(able.collect(), "CDS =a@v1~20s")
		},
		"TTL-3 a heartbeat for another state, or content, is none": func(b *bed, able, plain *peer) {
			b.world("1", "+a@v1~10s")
			b.expect(able.collect(), "CDS +a@v1~10s")
			b.expect(plain.collect(), "CDS +a@v1")
			b.world("2", "=a@~20s")
			b.world("1", "=a@v2~20s")
			b.world("1", "=unheard@~20s")
			b.expect(able.collect())
			b.after(10 * time.Second)
			b.expect(plain.collect(), "CDS -a")
		},
		"TTL-3 RES-8 beside contents a heartbeat only renews": func(b *bed, able, _ *peer) {
			b.world("1", "+a@v1~10s", "+b@v1")
			able.collect()
			b.world("1", "=a@v1~20s", "+b@v1", "+c@v1")
			b.expect(able.collect(), "CDS =a@v1~20s +c@v1")
		},
		"TTL-3 RES-8 heartbeats alone are no list": func(b *bed, able, _ *peer) {
			b.world("1", "+a@v1~10s", "+b@v1")
			able.collect()
			b.world("1", "=a@v1~20s")
			b.expect(able.collect(), "CDS =a@v1~20s")
			if v := b.store.FindTable(cds, cache.WholeType).VersionInfo(); v != "1" {
				b.Errorf("version_info %q", v)
			}
		},
		"TTL-4 everything again with another ttl": func(b *bed, able, plain *peer) {
			b.world("1", "+a@v1~10s", "+b@v1~10s", "+c@v1")
			able.collect()
			plain.collect()
			b.world("1", "+a@v1~20s", "+b@v1~20s", "+c@v1")
			b.expect(able.collect(), "CDS =a@v1~20s =b@v1~20s")
			b.expect(plain.collect())
		},
		"TTL-4 again without ttl removes it": func(b *bed, able, plain *peer) {
			b.world("1", "+a@v1~10s")
			able.collect()
			plain.collect()
			b.world("1", "+a@v1")
			b.expect(able.collect(), "CDS +a@v1")
			b.after(time.Hour)
			b.expect(plain.collect())
		},
		"TTL-2 RES-8 what expired is back with the next list": func(b *bed, able, plain *peer) {
			b.world("1", "+a@v1~10s")
			able.collect()
			plain.collect()
			b.after(10 * time.Second)
			b.expect(plain.collect(), "CDS -a")
			b.world("1", "+a@v1~10s")
			b.expect(able.collect(), "CDS +a@v1~10s")
			b.expect(plain.collect(), "CDS +a@v1")
		},
		"TTL-5 what is not to be cached": func(b *bed, able, _ *peer) {
			r := stateTTL(cds, "1", "+a@v1", "+b@v1")
			r.Resources[0].DoNotCache = true
			for range 2 { // a list holds it each time
				if err := b.applyState(r); err != nil {
					b.Fatal(err)
				}
			}
			b.expect(able.collect(), "CDS +b@v1 +a@v1")
			listed := b.joinAs(wrappedForm)
			listed.sub(cds, "*")
			b.expect(listed.worlds(), "CDS +b@v1")
			b.expect(b.demand(0), "begin anew")
			b.store.Session().Lost(streamOf(0))
			b.connect(0)
			if err := b.applyState(r); err != nil {
				b.Fatal(err)
			}
			b.expect(listed.worlds(), "CDS +a@v1 +b@v1")
			if err := b.applyState(r); err != nil {
				b.Fatal(err)
			}
			b.expect(listed.worlds())
			b.expect(able.collect())
			b.world("2", "+b@v1")
			b.expect(listed.worlds(), "CDS +b@v1")
			b.expect(able.collect(), "CDS -a")
		},
		// The server's version_info stands for what it said, and the relay holds less.
		"ACK-5 TTL-5 the version of what ran out is current no more": func(b *bed, _, _ *peer) {
			r := stateTTL(cds, "1", "+a@v1~10s")
			r.Resources[0].DoNotCache = true
			if err := b.applyState(r); err != nil {
				b.Fatal(err)
			}
			b.after(10 * time.Second)
			warm := b.joinAs(wrappedForm)
			warm.show(cds, "1", "*")
			b.expect(warm.worlds(), "CDS")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newStateBed(t)
				able, plain := b.joinAs(timed), b.join()
				able.sub(cds, "*")
				plain.sub(cds, "*")
				b.connect(0)
				f(b, able, plain)
			})
		})
	}
}

// world applies clusters as stateTTL writes them.
func (b *bed) world(version string, words ...string) {
	b.Helper()
	if err := b.applyState(stateTTL(cds, version, words...)); err != nil {
		b.Fatalf("Apply: %v", err)
	}
}

// What waits for a client goes with what it belongs to.
func TestDoNotCache_PassedOver_TTL5(t *testing.T) {
	for _, sub := range []string{"*", nameG1, globG} {
		t.Run(sub, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c := b.joinAs(wrappedForm)
			c.sub(eds, sub)
			b.connect(0)
			c.busy[eds] = true
			for range 100 {
				b.once(eds, nameG1+"@1")
				b.expect(c.worlds())
				b.says(eds, "-"+nameG1)
				b.expect(c.worlds())
			}
			w := c.c.find(eds)
			waiting := len(w.changed.handedOver)
			for f := range w.subs.cursors() {
				waiting += len(f.handedOver)
			}
			if waiting != 0 {
				t.Errorf("%d resources still wait", waiting)
			}
		})
	}
}
