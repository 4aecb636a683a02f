package delivery

import (
	"fmt"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// waiting are the followers of "*" that the next change would touch.
func (b *bed) waiting(typeURL string) int {
	return b.upkeep(typeURL, cache.WholeType).Waiting
}

func TestWaiting(t *testing.T) {
	t.Run("OPS-3 a change touches who has collected since the last one, and nobody else", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		var all []*peer
		for i := range 10 {
			p := b.joinAs(Form{TTL: i%2 == 0})
			p.sub(lds, "*")
			all = append(all, p)
		}
		b.connect(0)
		for i := range 3 {
			b.says(lds, fmt.Sprintf("+a@%d", i))
			if n := b.waiting(lds); n != 0 {
				t.Fatalf("%d followers to be touched by the next change, all were woken", n)
			}
		}
		b.expect(all[4].collect(), "LDS +a@2")
		if n := b.waiting(lds); n != 1 {
			t.Fatalf("%d followers to be touched by the next change, one has collected", n)
		}
		all[4].rang()
		b.says(lds, "+a@3")
		if !all[4].rang() || b.waiting(lds) != 0 {
			t.Error("who has collected was not woken")
		}
		for _, p := range all {
			p.collect()
		}
		all[3].leave()
		all[9].leave()
		if n := b.waiting(lds); n != 8 {
			t.Errorf("%d followers rest, 8 are left", n)
		}
	})
	t.Run("TTL-3 a heartbeat touches who can do ttl", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		plain, timed := b.join(), b.joinAs(Form{TTL: true})
		for _, p := range []*peer{plain, timed} {
			p.sub(lds, "*")
		}
		b.connect(0)
		b.says(lds, "+a@1~1m")
		for _, p := range []*peer{plain, timed} {
			p.collect()
			p.rang()
		}
		b.says(lds, "=a@1~1m")
		if plain.rang() || !timed.rang() || b.waiting(lds) != 1 {
			t.Errorf("%d followers are left to be touched, want the one that cannot do ttl", b.waiting(lds))
		}
	})
	t.Run("OPS-3 a client that owes an acknowledgement is not touched until it has come", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		p := b.join()
		p.sub(lds, "*")
		b.connect(0)
		b.says(lds, "+a@1")
		p.collect()
		p.busy[lds] = true
		b.says(lds, "+a@2")
		b.expect(p.collect())
		if n := b.waiting(lds); n != 0 {
			t.Errorf("%d followers to be touched by the next change", n)
		}
		p.busy[lds] = false
		b.expect(p.collect(), "LDS +a@2")
		if n := b.waiting(lds); n != 1 {
			t.Errorf("%d followers rest after the acknowledgement", n)
		}
	})
}

// A pass ends before it has seen all of a large collection, and the next one goes on
// where it ended.
func TestOPS3_passesAreBounded(t *testing.T) {
	const members = 2*cache.MaxLooked + 10
	p := newPool(t, members)
	held := map[string]string{}
	for e := p.glob().First(); e != nil; e = e.Next() {
		held[e.Key()] = "0"
	}
	for key := range held {
		held[key] = "another"
		break
	}
	for _, tc := range []struct {
		name   string
		held   map[string]string
		expect int
	}{
		{"RES-9 a client that has nothing", nil, members},
		{"RES-11 a client that has nearly everything", held, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Join(p.store, func() {}, Form{})
			defer c.Leave()
			c.Update(&Change{TypeURL: lbEndpoint, Subscribe: []cache.Name{{Spelling: poolGlob, Key: poolGlob}}, Versions: wire.NewVersions(tc.held)})
			sent := 0
			for pass := 0; ; pass++ {
				batches, more, err := collectFrom(c, never, 1<<30, 8)
				if err != nil {
					t.Fatal(err)
				}
				for _, batch := range batches {
					sent += batch.Body.Resources()
				}
				if !more {
					if pass != 2 || sent != tc.expect {
						t.Errorf("%d resources in %d passes, want %d in 3", sent, pass+1, tc.expect)
					}
					return
				}
			}
		})
	}
}
