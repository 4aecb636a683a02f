package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A relay with a new process has the content of a disk. An operator goes back, before the server has
// confirmed it, and releases. Clients get it when the server has confirmed it (GATE-4, SUR-1). The stream to the server
// begins before the operator goes back, or after: what is held back is restored content too, so that the server is asked
// for it, and its silence is no word.
func TestRollbackOfRestored_GATE4_SUR1(t *testing.T) {
	for name, f := range map[string]func(b *bed, confirm func()){
		"the server confirms what is held": func(b *bed, confirm func()) {
			confirm()
			b.releases()
			b.elapses(0)
		},
		"the server confirms what was released": func(b *bed, confirm func()) {
			b.releases()
			confirm()
		},
		"the stream begins anew": func(b *bed, confirm func()) {
			b.releases()
			b.store.Session().Lost(streamOf(0))
			b.connect(0)
			confirm()
		},
	} {
		for _, first := range []string{"the stream", "the operator"} {
			t.Run(name+", first "+first, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBedOf(t, cache.Limits{Generations: 3}, cache.Source{
						Quiet: quiet, ResumeQuiet: quiet, Absent: absentAfter, FullState: map[string]bool{cds: true, lds: true},
					})
					c := b.join()
					c.sub(rds, "r", "s")
					c.sub(cds, "*")
					b.connect(0)
					b.says(rds, "+r@1", "+s@1")
					b.says(cds, "+a@1", "+b@1")
					b.elapses(time.Minute)
					c.collect()
					b.says(rds, "+r@2", "+s@2")
					b.says(cds, "+a@2", "+b@2")
					b.elapses(time.Minute)

					b = b.restart()
					c = b.join()
					c.resume(rds, []string{"r@2", "s@2"}, "r", "s")
					c.resume(cds, []string{"a@2", "b@2"}, "*")
					connect := func() {
						b.expect(b.connect(0), "CDS +* =a@"+asked+" =b@"+asked, "RDS +r +s =r@"+asked+" =s@"+asked)
					}
					if first == "the stream" {
						connect()
					}
					b.expect(c.collect())
					b.rolls(0, 4)
					b.expectAll(c.collect(), "CDS +a@1 +b@1", "RDS +r@1 +s@1")
					if first == "the operator" {
						connect()
					}
					f(b, func() {
						b.says(rds, "+r@2", "+s@2")
						b.says(cds, "+a@2", "+b@2")
						b.elapses(time.Minute)
					})
					b.expectAll(c.collect(), "CDS +a@2 +b@2", "RDS +r@2 +s@2")
					b.restored(0)
				})
			})
		}
	}
}
