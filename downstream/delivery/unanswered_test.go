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

// Names without an answer count for the greatest size of the cache, over all scopes. Those that have been idle
// for longest go first, and never content that the limits have room for.
func TestUnansweredTotal_LIM3(t *testing.T) {
	const limit, scopes, perScope = 1 << 20, 4, 1000
	for what, limits := range map[string]cache.Limits{
		"size":   {MaxBytes: limit},
		"number": {MaxResources: limit >> 10},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBed(t, limits)
			b.connect(0)
			b.park(cds, "warm")
			first := b.store
			for scope := range scopes {
				b.store = b.cache.Open(cache.Source{Quiet: quiet})
				c := b.join()
				b.connect(0)
				c.sub(cds, many("", fmt.Sprint("made up ", scope, " "), 0, perScope, "")...)
				c.leave()
				b.check()
				if n := b.cache.Unwatched(); n > limit>>10 {
					t.Errorf("%d names without an answer are kept after %d scopes", n, scope+1)
				}
			}
			// The last names asked for are those that stay.
			if n := b.store.Session().Wanted(); n < perScope-100 {
				t.Errorf("%d names of the last scope are kept", n)
			}
			if n := b.seen.evicted[cache.ReasonUnanswered]; n+b.cache.Unwatched()-1 != scopes*perScope {
				t.Errorf("%d names of %d are kept, evicted %v", b.cache.Unwatched()-1, scopes*perScope, b.seen.evicted)
			}
			b.store = first
			b.expect(b.demand(0)) // the content of others stays
		})
	}
}

// Content that is too much by itself displaces what has been idle for longest.
func TestUnansweredAndContent_LIM3(t *testing.T) {
	for what, c := range map[string]struct {
		limits cache.Limits
		reason cache.Reason
	}{
		"size":   {cache.Limits{MaxBytes: 10 << 10}, cache.ReasonBytes},
		"number": {cache.Limits{MaxResources: 100}, cache.ReasonCount},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBed(t, c.limits)
			b.connect(0)
			b.park(cds, "old")
			c1 := b.join()
			c1.sub(cds, "made up")
			b.demand(0)
			c1.leave()
			for i := range 1000 {
				b.park(cds, fmt.Sprint("n", i))
			}
			b.check()
			if n := b.seen.evicted[cache.ReasonUnanswered]; n+b.seen.evicted[c.reason] != 1002-b.cache.Unwatched() || n > 1 {
				t.Errorf("%d are idle, evicted %v", b.cache.Unwatched(), b.seen.evicted)
			}
			if b.cache.Resources() > 1000 || b.cache.Unwatched() < 90 {
				t.Errorf("%d resources, %d idle", b.cache.Resources(), b.cache.Unwatched())
			}
		})
	}
}

// A name that is answered while it is idle is none without an answer any more, and one whose answer is open
// again is one.
func TestUnansweredAnswered_LIM3(t *testing.T) {
	b := newBed(t, cache.Limits{MaxResources: 2})
	b.connect(0)
	for _, name := range []string{"a", "b"} {
		c := b.join()
		c.sub(cds, name)
		b.demand(0)
		c.leave()
	}
	b.says(cds, "+a@1")
	other := &bed{TB: t, cache: b.cache, store: b.cache.Open(cache.Source{Quiet: quiet}), seen: b.seen}
	other.connect(0)
	c := other.join()
	c.sub(cds, "c")
	other.demand(0)
	c.leave() // one too many: a has been idle for longest, and has content
	b.check()
	other.check()
	b.expect(b.demand(0), "CDS -b")
	c = b.join()
	c.sub(cds, "a")
	c.leave()
	d := other.join()
	d.sub(cds, "c")
	other.says(cds, "+c@1")
	b.check()
	if got := b.seen.evicted; got[cache.ReasonUnanswered] != 1 || len(got) != 1 || b.cache.Resources() != 2 {
		t.Errorf("evicted %v, %d resources", got, b.cache.Resources())
	}
}

// Collections without members count like names without an answer: those that are idle displace no content, and a
// scope has few of them (RES-17).
func TestEmptyCollections_LIM3_RES17(t *testing.T) {
	const n = 1000
	globs := many("", "xdstp://x/envoy.config.cluster.v3.Cluster/made-up-", 0, n, "/*")
	for what, limits := range map[string]cache.Limits{
		"size":   {MaxBytes: 100 << 10},
		"number": {MaxResources: 100},
	} {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, answered %t", what, answered), func(t *testing.T) {
				b := newBed(t, limits)
				b.connect(0)
				b.park(cds, "warm")
				b.park(cds, nameG1)
				c := b.join()
				c.sub(cds, globG)
				b.demand(0)
				b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
				c.sub(cds, globs...)
				b.demand(0)
				if answered {
					b.says(cds, many("-", globs[0][:len(globs[0])-3], 0, n, "/*")...)
				}
				c.leave()
				b.check()
				if kept := b.cache.Unwatched(); kept > 100 || kept < 60 {
					t.Errorf("%d names and collections are idle", kept)
				}
				if got := b.seen.evicted; len(got) != 1 || got[cache.ReasonUnanswered] != n+3-b.cache.Unwatched() {
					t.Errorf("%d are idle, evicted %v", b.cache.Unwatched(), got)
				}
				for range b.demand(0) {
				}
				if b.cache.Resources() != 3 {
					t.Errorf("%d resources are left", b.cache.Resources())
				}
			})
		}
	}
	t.Run("in one scope", func(t *testing.T) {
		const most = 4 << 20
		b := newBed(t, cache.Limits{})
		b.connect(0)
		c := b.join()
		c.sub(cds, many("", "xdstp://x/envoy.config.cluster.v3.Cluster/"+strings.Repeat("n", 1<<10), 0, 4*n, "/*")...)
		b.demand(0)
		c.leave()
		b.demand(0)
		if left := b.store.Session().Wanted(); left*(2<<10) > most || left < n {
			t.Errorf("%d collections are asked for", left)
		}
	})
}

// An idle collection that gets its first member is kept like content, and one that loses its last member is
// not (LIM-3).
func TestEmptiedCollection_LIM3(t *testing.T) {
	b := newBed(t, cache.Limits{MaxResources: 3})
	b.connect(0)
	c := b.join()
	c.sub(cds, globG, globQ)
	b.demand(0)
	c.leave()
	b.says(cds, "+"+nameG1+"@1", "+"+nameQ+"@1")
	b.says(cds, "-"+nameG1)
	b.park(cds, "a")
	b.expect(b.demand(0))
	b.park(cds, "b")
	b.expect(b.demand(0), "CDS -"+globG)
	b.says(cds, "-"+nameQ)
	b.park(cds, "c")
	b.expect(b.demand(0), "CDS -"+globQ)
	if b.cache.Resources() != 3 || b.seen.evicted[cache.ReasonUnanswered] != 2 {
		t.Errorf("%d resources, evicted %v", b.cache.Resources(), b.seen.evicted)
	}
}
