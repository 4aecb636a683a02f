package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// What a client said that it holds of "*", and that is not there, is told once: by the name that it subscribes to since, or
// by the answer for that, under the name that the client has for it (RES-11, SUB-8, NAME-4).
func TestHeldIsToldOnce_RES11_SUB8(t *testing.T) {
	for name, tc := range map[string]struct {
		play func(b *bed, c *peer)
		want [][]string // before and after the server answers the name
	}{
		"it does not name it":     {func(*bed, *peer) {}, [][]string{{"CDS -" + nameQ}, nil}},
		"it names it":             {func(_ *bed, c *peer) { c.sub(cds, nameQ) }, [][]string{nil, {"CDS -" + nameQ}}},
		"it has named it a while": {func(_ *bed, c *peer) { c.sub(cds, nameQ); c.unsub(cds, nameQ) }, [][]string{{"CDS -" + nameQ}, nil}},
		"it has named it in another spelling": {
			func(_ *bed, c *peer) { c.sub(cds, nameQ2); c.unsub(cds, nameQ2) },
			[][]string{{"CDS -" + nameQ + " -" + nameQ2}, nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			b.join().sub(cds, nameQ)
			b.connect(0)
			c := b.join()
			c.presents(cds, nameQ+"@1 b@1", "*")
			tc.play(b, c)
			b.connect(1)
			b.saysOn(1, cds, "+b@1")
			b.settle()
			b.expect(c.collect(), tc.want[0]...)
			b.says(cds, "-"+nameQ)
			b.expect(c.collect(), tc.want[1]...)
		})
	}
}

// What a client said that it holds waits for its time before it is told that this does not exist (ADS-4).
func TestHeldWaits_ADS4_RES11(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.presents(cds, "gone@1", "*")
		b.connect(0)
		b.says(cds, "+a@1")
		b.settle()
		collect := func(due bool, want ...string) {
			t.Helper()
			pace := paceOf(never, c.size, 8)
			pace.RemovalWait = time.Minute
			s := &schedule{Pace: *pace, store: b.store}
			b.store.View(func() {
				s.survey(c.c)
				s.openGates(c.c)
			})
			if s.of(cds).removes != due {
				t.Errorf("a removal may go: %t, want %t", s.of(cds).removes, due)
			}
			batches, _, err := c.s.Collect(pace)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, batch := range batches {
				got = append(got, c.render(batch))
			}
			b.expect(got, want...)
		}
		collect(false, "CDS +a@1")
		<-time.After(time.Minute - 1)
		collect(false)
		<-time.After(1)
		collect(true, "CDS -gone")
		collect(false)
	})
}

// What a client said that it holds, and "*" loses before the client is told of it, a glob answers for that has it
// (RES-11, GLOB-5).
func TestHeldIsLeftToGlob_RES11_GLOB5(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.join()
	c.presents(cds, nameG1+"@1", "*")
	c.sub(cds, globG)
	b.connect(0)
	b.connect(1)
	b.saysOn(1, cds, "+"+nameG1+"@glob")
	b.expect(c.collect(), "CDS +"+nameG1+"@glob")
	b.says(cds, "+"+nameG1+"@2")
	b.says(cds, "-"+nameG1)
	b.expect(c.collect(), "CDS +"+nameG1+"@glob")
	b.settle()
	b.expect(c.collect())
}
