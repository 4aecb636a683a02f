package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

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
			b.expect(able.collect(), "CDS +a@v1 +b@v1")
			listed := b.joinAs(wrappedForm)
			listed.sub(cds, "*")
			b.expect(listed.worlds(), "CDS +a@v1 +b@v1")
			b.expect(b.demand(0))
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
