package delivery

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A name that stays unanswered on a live stream does not exist; nothing that is cached
// is touched, and the time counts anew on every stream (RES-7).
func TestRES7Absent(t *testing.T) {
	wait := func(d time.Duration) { <-time.After(d) }
	t.Run("RES-7 after the time, which a new stream begins anew", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newStateBed(t)
			c := b.join()
			c.sub(eds, "a", "b")
			if at := b.store.Session().Settle(time.Now()); !at.IsZero() {
				t.Fatalf("waits until %v without a stream", at)
			}
			b.connect(0)
			begin := time.Now()
			b.state(eds, "1", "+a@1")
			b.expect(c.told(), "EDS +a")
			wait(absentAfter - time.Second)
			c.sub(eds, "c")
			b.demand(0)
			if at := b.store.Session().Settle(time.Now()); !at.Equal(begin.Add(absentAfter)) {
				t.Fatalf("waits until %v, want %v", at, begin.Add(absentAfter))
			}
			b.store.Session().Lost(streamOf(0))
			b.check()
			wait(time.Hour)
			if at := b.store.Session().Settle(time.Now()); !at.IsZero() {
				t.Fatalf("waits until %v without a stream", at)
			}
			b.expect(c.told())
			b.expect(b.connect(0), "EDS +a +b +c held")
			wait(absentAfter / 2)
			b.state(eds, "1", "+c@1")
			b.expect(c.told(), "EDS +c")
			c.rang()
			wait(absentAfter / 2)
			if at := b.store.Session().Settle(time.Now()); !at.IsZero() {
				t.Fatalf("waits until %v", at)
			}
			b.check()
			c.woken()
			b.expect(c.told(), "EDS !b")
			b.state(eds, "2", "+b@1") // it appears
			b.expect(c.told(), "EDS +b")
		})
	})
	for _, tc := range []struct {
		name   string
		before bool // the server takes the member away before the name counts as not answered
	}{{"before", true}, {"after", false}} {
		t.Run("RES-7 SUB-8 what * lost "+tc.name+" its name counted as not answered is told as removed", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, c := newStateBed(t).subscribed(cds, "*")
				b.state(cds, "1", "+a@1", "+b@1")
				b.expect(c.told(), "CDS +a +b")
				c.sub(cds, "a")
				b.connect(1)
				if tc.before {
					b.state(cds, "2", "+b@1")
					b.expect(c.told()) // the name's answer may still come
					b.after(absentAfter)
					b.expect(c.told(), "CDS -a !a")
				} else {
					b.after(absentAfter)
					b.expect(c.told(), "CDS !a") // the client keeps it: a silence removes nothing
					b.state(cds, "2", "+b@1")
					b.expect(c.told(), "CDS -a")
				}
				b.check()
			})
		})
	}
	t.Run("RES-7 SUB-8 what * lost and has again is not told as removed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := newStateBed(t).subscribed(cds, "*")
			b.state(cds, "1", "+a@1", "+b@1")
			b.expect(c.told(), "CDS +a +b")
			c.sub(cds, "a")
			b.connect(1)
			b.state(cds, "2", "+b@1")
			b.expect(c.told())
			b.state(cds, "3", "+a@3", "+b@1")
			b.expect(c.told(), "CDS +a")
			b.after(absentAfter)
			b.expect(c.told(), "CDS !a")
			b.check()
		})
	})
	t.Run("RES-7 RES-11 a name that is answered late brings what * lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := newStateBed(t).subscribed(cds, "*", "a")
			b.connect(1)
			b.state(cds, "1", "+a@1", "+b@1")
			b.expect(c.told(), "CDS +a +b")
			b.after(absentAfter)
			b.expect(c.told(), "CDS !a")
			b.state(cds, "2", "+b@1")
			b.expect(c.told(), "CDS -a")
			if err := b.store.Session().Apply(streamOf(1), stateOf(cds, "3", "+a@1"), time.Now()); err != nil {
				t.Fatal(err)
			}
			b.expect(c.told(), "CDS +a")
			b.check()
		})
	})
	t.Run("RES-7 SUB-8 an incremental server that is silent of the name", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: absentAfter})
			c := b.join()
			c.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			b.expect(c.collect(), "CDS +a@1 +b@1")
			c.sub(cds, "a")
			b.connect(1)
			b.says(cds, "-a")
			b.expect(c.collect())
			c.rang()
			b.after(absentAfter)
			if !c.rang() {
				t.Error("the client is not woken")
			}
			b.expect(c.collect(), "CDS -a")
			b.check()
		})
	})
	t.Run("RES-7 SUB-8 ERR-1 a server whose error leaves the name open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: absentAfter})
			c := b.join()
			c.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			b.expect(c.collect(), "CDS +a@1 +b@1")
			c.sub(cds, "a")
			b.connect(1)
			b.failsOn(1, cds, "a", unavailable)
			b.expect(c.collect(), "CDS !a")
			b.says(cds, "-a")
			b.expect(c.collect())
			b.after(absentAfter)
			b.expect(c.collect(), "CDS -a !a")
			b.check()
		})
	})
	t.Run("SUB-11 a name that nobody wants keeps nobody waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := newStateBed(t).subscribed(eds, "warm", "held")
			b.state(eds, "1", "+warm@1", "+held@1")
			c.unsub(eds, "warm")
			wait(time.Hour)
			b.store.Session().Settle(time.Now())
			b.expect(b.demand(0)) // kept, as long as everything is answered
			c.sub(eds, "new")
			b.expect(b.demand(0), "EDS +new")
			asked := time.Now()
			if at := b.store.Session().Settle(asked); !at.Equal(asked.Add(time.Second)) {
				t.Fatalf("waits until %v, want %v", at, asked.Add(time.Second))
			}
			wait(time.Second)
			if at := b.store.Session().Settle(time.Now()); !at.Equal(asked.Add(absentAfter)) {
				t.Fatalf("waits until %v, want %v", at, asked.Add(absentAfter))
			}
			b.check()
			b.expect(b.demand(0), "EDS -warm")
			if b.seen.evicted[cache.ReasonSilence] != 1 {
				t.Errorf("evicted %v", b.seen.evicted)
			}
		})
	})
	t.Run("SUB-11 a name that nobody waits for takes no other's place", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newStateBed(t)
			c := b.join()
			c.sub(eds, "warm", "late")
			b.connect(0)
			b.state(eds, "1", "+warm@1")
			c.unsub(eds, "warm", "late")
			asked := time.Now()
			wait(2 * time.Second)
			if at := b.store.Session().Settle(time.Now()); !at.Equal(asked.Add(absentAfter)) {
				t.Errorf("waits until %v, want %v", at, asked.Add(absentAfter))
			}
			b.expect(b.demand(0))
			select {
			case <-b.store.Session().DemandChanged():
			default:
			}
			c.sub(eds, "late")
			select {
			case <-b.store.Session().DemandChanged():
			default:
				t.Error("the session is not told to settle")
			}
			b.store.Session().Settle(time.Now())
			b.expect(b.demand(0), "EDS -warm")
		})
	})
	t.Run("SUB-11 ERR-1 nor does one that the server answers with an error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newStateBed(t)
			c := b.join()
			c.sub(eds, "warm", "bad")
			b.connect(0)
			b.state(eds, "1", "+warm@1", "!bad")
			c.unsub(eds, "warm")
			wait(2 * time.Second)
			b.store.Session().Settle(time.Now())
			b.expect(b.demand(0))
			b.check()
		})
	})
	t.Run("ABS-3 a name that is not answered is not waited for again by who comes back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := newStateBed(t).subscribed(eds, "a", "b")
			c.unsub(eds, "a")
			wait(absentAfter)
			b.store.Session().Settle(time.Now())
			b.check()
			b.expect(b.demand(0))
			b.expect(c.told(), "EDS !b")
			c.sub(eds, "a")
			b.expect(b.demand(0))
			b.expect(c.told(), "EDS !a")
			if len(b.seen.evicted) != 0 {
				t.Errorf("evicted %v", b.seen.evicted)
			}
		})
	})
	t.Run("a name asked for again waits its own time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := newStateBed(t).subscribed(eds, "a")
			wait(absentAfter / 2)
			c.unsub(eds, "a")
			b.letGo()
			b.expect(b.demand(0), "EDS -a")
			c.sub(eds, "a")
			b.expect(b.demand(0), "EDS +a")
			again := time.Now()
			wait(absentAfter / 2)
			if at := b.store.Session().Settle(time.Now()); !at.Equal(again.Add(absentAfter)) {
				t.Fatalf("waits until %v, want %v", at, again.Add(absentAfter))
			}
			b.expect(c.told())
		})
	})
	t.Run("RES-7 what is withheld was not asked for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, c := newStateBed(t).subscribed(eds, "a")
			b.store.Session().Withhold(streamOf(0), eds, true)
			b.store.Session().Withhold(streamOf(1), eds, false) // of another stream
			c.sub(eds, "b")
			b.demand(0)
			wait(time.Hour)
			if at := b.store.Session().Settle(time.Now()); !at.IsZero() {
				t.Fatalf("waits until %v for what nobody was asked for", at)
			}
			b.expect(c.told())
			b.store.Session().Withhold(streamOf(0), eds, false)
			b.check()
			asked := time.Now()
			if at := b.store.Session().Settle(asked.Add(time.Second)); !at.Equal(asked.Add(absentAfter)) {
				t.Fatalf("waits until %v, want %v", at, asked.Add(absentAfter))
			}
			b.store.Session().Withhold(streamOf(0), eds, true)
			b.store.Session().Lost(streamOf(0))
			b.connect(0)
			wait(absentAfter)
			b.store.Session().Settle(time.Now())
			b.check()
			b.expectAll(strings.Fields(strings.Join(c.told(), " ")), "EDS", "!a", "!b")
		})
	})
	t.Run("RES-2 an incremental server is waited for no longer, and nothing is said", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: absentAfter})
			c := b.join()
			c.sub(eds, "a", "b")
			e := b.table(eds, cache.ByName).Find("a")
			b.connect(0)
			b.says(eds, "+b@1")
			c.told()
			if !e.Unanswered() {
				t.Error("not awaited though just asked for")
			}
			wait(absentAfter)
			b.store.Session().Settle(time.Now())
			b.check()
			if e.Unanswered() || e.State() != cache.Unknown || !c.rang() {
				t.Errorf("awaited %t, %s", e.Unanswered(), e.State())
			}
			b.expect(c.told())
			b.store.Session().Lost(streamOf(0))
			if !e.Unanswered() {
				t.Error("not awaited though the stream is down")
			}
			b.connect(0)
			wait(absentAfter)
			b.says(eds, "+a@1")
			b.store.Session().Settle(time.Now())
			b.expect(c.told(), "EDS +a")
			if e.Unanswered() {
				t.Error("awaited though answered")
			}
		})
	})
	t.Run("RES-2 ERR-1 a name that fails holds back no list for longer", func(t *testing.T) {
		for _, before := range []string{"unknown", "absent"} {
			synctest.Test(t, func(t *testing.T) {
				b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: absentAfter, FullState: map[string]bool{cds: true}})
				c := b.joinAs(bareForm)
				c.show(cds, "old", "a", "b", "c")
				c.sub(rds, "r")
				b.connect(0)
				b.says(cds, "+a@1")
				b.says(rds, "+r@1")
				if before == "absent" {
					b.says(cds, "-b")
					wait(time.Second)
				}
				b.fails(cds, "b", unavailable)
				b.says(cds, "-c")
				b.expect(c.lists())
				wait(absentAfter - time.Second)
				b.store.Session().Settle(time.Now())
				b.expect(c.lists())
				c.rang()
				wait(time.Second)
				b.store.Session().Settle(time.Now())
				b.check()
				if !c.rang() {
					t.Error("not woken")
				}
				b.expect(c.lists(), "CDS a1 !b !c", "RDS r1")
			})
		}
	})
	t.Run("RES-2 TTL-2 what expires before the first list goes from who showed a version", func(t *testing.T) {
		for _, form := range []Form{bareForm, timedState} {
			synctest.Test(t, func(t *testing.T) {
				b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: absentAfter, FullState: map[string]bool{cds: true}})
				first := b.join()
				first.sub(cds, globG, "a")
				b.connect(0)
				b.says(cds, "+a@1", "+"+nameG1+"@1~1ms")
				b.store.Session().Lost(streamOf(0)) // before its quiet time was over
				c := b.joinAs(form)
				c.show(cds, "old", globG, "a")
				b.connect(0) // shows what is held, and the server has nothing to say
				b.expect(c.lists())
				wait(absentAfter)
				b.store.Session().Settle(time.Now())
				b.check()
				if got := c.lists(); len(got) != 1 || !strings.HasSuffix(got[0], "a1") || strings.Contains(got[0], nameG1) {
					t.Errorf("got %q, want a list of a", got)
				}
				b.expect(c.lists())
			})
		}
	})
	t.Run("RES-2 RES-12 a collection of which the server has nothing to say", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: absentAfter, FullState: map[string]bool{cds: true}})
			c := b.joinAs(bareForm)
			c.show(cds, "old", globG, "a")
			b.connect(0)
			b.says(cds, "+a@1", "+"+nameG1+"@1")
			b.expect(c.lists())
			b.store.Session().Lost(streamOf(0)) // before its quiet time was over
			wait(time.Hour)
			b.store.Session().Settle(time.Now())
			b.expect(c.lists())
			b.connect(0) // shows what is held
			asked := time.Now()
			if at := b.store.Session().Settle(asked); !at.Equal(asked.Add(absentAfter)) {
				t.Fatalf("waits until %v, want %v", at, asked.Add(absentAfter))
			}
			c.rang()
			wait(absentAfter)
			b.store.Session().Settle(time.Now())
			b.check()
			if !c.rang() {
				t.Error("not woken")
			}
			b.expect(c.lists(), "CDS a1 "+nameG1+"1")
		})
	})
}
