package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// What is held serves new parameters at once. While the server may not have read that
// they are asked for, its word about the variant that serves them is for others.
func TestDYN1Borrowed(t *testing.T) {
	const absence = 15 * time.Second
	begin := func(t *testing.T, state bool) (b *bed, late *peer) {
		t.Helper()
		b = newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, State: state, Absent: absence, FullState: map[string]bool{cds: true}})
		first := b.join()
		first.wants(cds, "x{env=prod version=v1}")
		b.connect(0)
		apply(b, state, "+x[env=prod]@1")
		b.expect(first.gets(), "+x[env=prod]@1")
		late = b.join()
		late.wants(cds, "x{env=prod version=v2}")
		b.expect(late.gets(), "+x[env=prod]@1")
		b.store.Session().TakeDemand(streamOf(0))
		apply(b, state, "+x[env=prod,version=v1]@2", "-x[env=prod]")
		b.expect(late.gets())
		return b, late
	}
	for name, state := range map[string]bool{"incremental": false, "the state of the world": true} {
		t.Run("DYN-1 SUB-10 what was sent before the server read of them takes nothing, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, late := begin(t, state)
				apply(b, state, "+x[env=prod,version=v1]@2", "+x[env=prod,version=v2]@2")
				b.expect(late.gets(), "+x[and(env=prod,version=v2)]@2 -x[env=prod]")
			})
		})
		t.Run("DYN-1 RES-7 it goes if the server does not answer in time, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, late := begin(t, state)
				<-time.After(absence)
				b.store.Session().Settle(time.Now())
				b.check()
				b.expect(late.gets(), "-x[env=prod]")
			})
		})
		t.Run("DYN-1 a name that is gone is gone for them too, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, late := begin(t, state)
				if state {
					apply(b, state)
				} else {
					apply(b, state, "-x")
				}
				b.expect(late.gets(), "-x[env=prod]")
			})
		})
	}
}

// apply applies a response in either form. A list has no word for what goes.
func apply(b *bed, state bool, words ...string) {
	b.Helper()
	r := variantResponse(cds, words...)
	if !state {
		b.sends(cds, words...)
		return
	}
	if err := b.store.Session().Apply(streamOf(0), &wire.Response{State: true, TypeURL: cds, Version: "1", Resources: r.Resources}, time.Now()); err != nil {
		b.Fatal(err)
	}
	b.check()
}
