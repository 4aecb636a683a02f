package delivery

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

func TestSetLimits_SUB11(t *testing.T) {
	// warm gives a bed with the names a and b held and watched by nobody, since that long.
	warm := func(t *testing.T) *bed {
		t.Helper()
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a", "b")
		b.says(cds, "+a@1", "+b@1")
		c.leave()
		return b
	}
	t.Run("a lower count evicts at once", func(t *testing.T) {
		b := warm(t)
		b.cache.SetLimits(cache.Limits{MaxResources: 1})
		if len(b.demand(0)) != 1 || b.cache.Resources() != 1 {
			t.Errorf("%d resources are left", b.cache.Resources())
		}
	})
	t.Run("a lower size evicts at once, and nothing that is watched", func(t *testing.T) {
		b := warm(t)
		c := b.join()
		c.sub(cds, "a")
		b.cache.SetLimits(cache.Limits{MaxBytes: 1})
		b.expect(b.demand(0), "CDS -b")
		b.check()
	})
	t.Run("a higher one evicts nothing", func(t *testing.T) {
		b := warm(t)
		b.cache.SetLimits(cache.Limits{MaxResources: 2, MaxBytes: 1 << 20, Idle: time.Hour})
		b.expect(b.demand(0))
	})
	t.Run("a shorter idle time counts from when it began", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := warm(t)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { b.cache.Run(ctx) })
			<-time.After(time.Minute)
			b.cache.SetLimits(cache.Limits{Idle: time.Hour})
			<-time.After(time.Minute)
			synctest.Wait()
			b.expect(b.demand(0))
			b.cache.SetLimits(cache.Limits{Idle: 3 * time.Minute})
			<-time.After(59 * time.Second)
			synctest.Wait()
			b.expect(b.demand(0))
			<-time.After(2 * time.Second)
			synctest.Wait()
			b.expectAll(b.demand(0), "CDS -a -b")
			b.cache.SetLimits(cache.Limits{})
			cancel()
			wg.Wait()
		})
	})
}

func TestSetTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: absentAfter, State: true, FullState: map[string]bool{lds: true, cds: true}})
		c := b.join()
		c.sub(eds, "a")
		b.connect(0)
		begin := time.Now()
		if at := b.store.Session().Settle(begin.Add(time.Second)); !at.Equal(begin.Add(absentAfter)) {
			t.Fatalf("RES-7: the clock runs until %v", at.Sub(begin))
		}
		select { // what the session has looked at before
		case <-b.store.Session().DemandChanged():
		default:
		}
		b.store.Session().SetTimes(&cache.Source{Quiet: 2 * quiet, Absent: absentAfter / 2})
		select {
		case <-b.store.Session().DemandChanged():
		default:
			t.Error("the session is not told to look again")
		}
		if at := b.store.Session().Settle(begin.Add(time.Second)); !at.Equal(begin.Add(absentAfter / 2)) {
			t.Errorf("RES-7: the clock runs until %v", at.Sub(begin))
		}
		b.store.Session().SetTimes(&cache.Source{})
		if at := b.store.Session().Settle(begin.Add(time.Second)); !at.Equal(begin.Add(absentAfter / 2)) {
			t.Error("a clock that runs was taken away")
		}
		b.check()
	})
}
