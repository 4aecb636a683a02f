package delivery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// One client's names that no server answers are bounded when it drops them, and cost nobody else what is kept
// warm.
func TestUnansweredNames_LIM3(t *testing.T) {
	const (
		most    = 4 << 20 // bytes in one scope
		perName = 1 << 10 // beside the name
	)
	long := strings.Repeat("n", 60<<10)
	for what, c := range map[string]struct {
		format    string
		rounds, n int
		bytes     int // of a name
	}{
		"plain names":           {"made-up-%08d", 10, 1000, 16},
		"xdstp names":           {"xdstp://x/envoy.config.cluster.v3.Cluster/made-up-%08d", 10, 1000, 58},
		"names of 60 KiB":       {"%08d" + long, 5, 40, 60<<10 + 8},
		"xdstp names of 60 KiB": {"xdstp://x/envoy.config.cluster.v3.Cluster/%08d" + long, 5, 40, 60<<10 + 50},
	} {
		for _, state := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, state of the world %t", what, state), func(t *testing.T) {
				// warmed has names of others: one with content and one without an answer, both idle.
				limits := cache.Limits{MaxBytes: 1 << 30, MaxResources: 1 << 20}
				b := newBedOf(t, limits, cache.Source{Quiet: quiet, State: state})
				others := &bed{TB: t, cache: b.cache, store: b.cache.Open(cache.Source{Quiet: quiet, State: state}), seen: b.seen}
				for _, o := range []*bed{b, others} {
					c := o.join()
					c.sub(cds, "warm")
					o.connect(0)
					if state {
						o.state(cds, "1", "+warm@1")
					} else {
						o.says(cds, "+warm@1")
					}
					if o == others {
						c.sub(cds, "awaited")
						o.demand(0)
					}
					c.leave()
				}
				harmful := b.join()
				for round := range c.rounds {
					names := make([]string, c.n)
					for i := range names {
						names[i] = fmt.Sprintf(c.format, round*c.n+i)
					}
					harmful.sub(cds, names...)
					b.store.Session().TakeDemand(streamOf(0))
					for range 3 { // again and again: it is the same name
						harmful.unsub(cds, names[0])
						harmful.sub(cds, names[0])
					}
					harmful.unsub(cds, names...)
					b.store.Session().TakeDemand(streamOf(0))
				}
				b.check()
				left := b.store.Session().Wanted() - 1
				if weight := left * (c.bytes + perName); left <= 0 || weight > most {
					t.Errorf("%d names without an answer are asked for, which take %d bytes", left, weight)
				}
				if evicted := b.seen.evicted[cache.ReasonUnanswered]; evicted != c.rounds*c.n-left {
					t.Errorf("%d names are gone, %v", c.rounds*c.n-left, b.seen.evicted)
				}
				if b.cache.Resources() != 2 || others.store.Session().Wanted() != 2 {
					t.Errorf("%d resources are kept warm, others ask for %d names", b.cache.Resources(), others.store.Session().Wanted())
				}
				harmful.leave()
			})
		}
	}
}

// A name without an answer that is asked for again and again stays one.
func TestUnansweredAgain_LIM3(t *testing.T) {
	b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
	c.unsub(cds, "a")
	b.demand(0)
	for range 1000 {
		c.sub(cds, "a")
		c.unsub(cds, "a")
	}
	b.expect(b.demand(0))
	if b.store.Session().Wanted() != 1 || b.seen.evicted[cache.ReasonUnanswered] != 0 {
		t.Errorf("%d names, evicted %v", b.store.Session().Wanted(), b.seen.evicted)
	}
	b.says(cds, "+a@1") // it is a warm one from now on
	b.expect(b.demand(0))
	b.check()
}

// Names without an answer count for the greatest size of the cache, over all scopes.
func TestUnansweredBytes_LIM3(t *testing.T) {
	const limit = 1 << 20
	b := newBed(t, cache.Limits{MaxBytes: limit})
	for scope := range 4 {
		b.store = b.cache.Open(cache.Source{Quiet: quiet})
		c := b.join()
		b.connect(0)
		c.sub(cds, many("", "made up ", 0, 1000, "")...)
		c.leave()
		b.check()
		if n := b.cache.Unwatched(); n > limit>>10 {
			t.Errorf("%d names without an answer are kept after %d scopes", n, scope+1)
		}
	}
	if b.seen.evicted[cache.ReasonBytes] == 0 {
		t.Errorf("evicted %v", b.seen.evicted)
	}
}
