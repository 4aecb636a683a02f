package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// listsWithin collects lists with another pace.
func (p *peer) listsWithin(change func(*Pace)) (said []string) {
	p.Helper()
	pace := paceOf(never, p.size, 8)
	change(pace)
	batches, _, err := p.s.Collect(pace)
	if err != nil {
		p.Fatal(err)
	}
	for _, b := range batches {
		said = append(said, renderState(p, b))
	}
	p.check()
	return said
}

// A list that a client must be sent goes out though it has what the last one had: what changed is not in the version
// that the client may see (ACC-3).
func TestListMustGo_ACC3(t *testing.T) {
	rules := denying{names: map[string]bool{"a": true}, off: everyUse}
	for _, tc := range []struct {
		name string
		play func(b *bed, c *peer)
		want []string
	}{
		{"nothing happened", func(*bed, *peer) {}, nil},
		{"what it may not have changed", func(b *bed, _ *peer) { b.says(cds, "+a@2") }, nil},
		{"what it may not have went", func(b *bed, _ *peer) { b.says(cds, "-a") }, nil},
		{"it asked for the list again", func(_ *bed, c *peer) { c.c.Update(&Change{TypeURL: cds, Relist: true}) }, []string{"CDS b1"}},
		{"what it may have changed", func(b *bed, _ *peer) { b.says(cds, "+b@2") }, []string{"CDS b2"}},
		{"ERR-1 an error came", func(b *bed, _ *peer) { b.fails(cds, "b", unavailable) }, []string{"CDS b1 !b"}},
		{"ERR-1 an error came of what it may not have", func(b *bed, _ *peer) { b.fails(cds, "a", unavailable) }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c := b.joinAs(bareForm)
			c.s.JudgedBy(rules, false)
			c.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			b.settle()
			b.expect(c.lists(), "CDS b1")
			tc.play(b, c)
			b.expect(c.lists(), tc.want...)
			b.expect(c.lists())
		})
	}
}

// An error of a name is in no version: a list that has it goes out (ERR-1, ACC-3).
func TestErrorListGoes_ERR1_ACC3(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.joinAs(bareForm)
	c.s.JudgedBy(denying{off: everyUse}, false)
	c.sub(cds, "a", "b")
	b.connect(0)
	b.says(cds, "+b@1")
	b.expect(c.lists(), "CDS b1")
	b.fails(cds, "a", unavailable)
	b.expect(c.lists(), "CDS b1 !a")
	b.says(cds, "-a") // of which the error said nothing
	b.expect(c.lists(), "CDS b1 !a")
	b.expect(c.lists())
}

// While a removal waits, lists hold on to what the client had, and to nothing that it never had (ADS-1, ADS-4).
func TestRetainedInLists_ADS4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.joinAs(bareForm)
		c.sub(cds, "*", "n")
		b.connect(0)
		b.connect(1)
		b.says(cds, "+a@1", "+b@1", "+n@all")
		b.saysOn(1, cds, "+n@1")
		b.settle()
		b.expect(c.lists(), "CDS a1 b1 n1")
		waits := func(p *Pace) { p.RemovalWait = time.Minute }
		b.says(cds, "-a")
		b.says(cds, "+x@1")
		b.says(cds, "-x")
		b.says(cds, "-n")
		b.says(cds, "+b@2")
		b.expect(c.listsWithin(waits), "CDS a1 b2 n1")
		<-time.After(time.Minute)
		b.expect(c.listsWithin(waits), "CDS b2 n1")
		b.expect(c.listsWithin(waits))
	})
}

// An error that comes after a removal does not take away what the removal leaves in lists for a while (ADS-4, ERR-1).
func TestRetainedThenFailed_ADS4_ERR1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.joinAs(bareForm)
		c.sub(cds, "a", "b")
		b.connect(0)
		b.says(cds, "+a@1", "+b@1")
		b.expect(c.lists(), "CDS a1 b1")
		waits := func(p *Pace) { p.RemovalWait = time.Minute }
		b.says(cds, "-a")
		b.fails(cds, "a", notFound)
		b.says(cds, "+b@2")
		b.expect(c.listsWithin(waits), "CDS a1 b2")
		<-time.After(time.Minute)
		b.expect(c.listsWithin(waits), "CDS b2 !a")
	})
}

// A client that shows the version of what is there has that, if nothing can be missing (ACK-5, ABS-3).
func TestCurrentList_ACK5_ABS3(t *testing.T) {
	for _, tc := range []struct {
		name   string
		synced bool
		once   bool // a member is not kept
		shows  string
		want   []string
	}{
		{"it has all", true, false, "", nil},
		{"it has another version", true, false, "old", []string{"CDS a1"}},
		{"more may come", false, false, "", []string{"CDS a1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				first := b.joinAs(bareForm)
				first.sub(cds, "*")
				b.connect(0)
				b.says(cds, "+a@1")
				if tc.synced {
					b.settle()
				}
				b.expect(first.lists(), "CDS a1")
				shows := tc.shows
				if shows == "" {
					shows = first.took[0].SystemVersion
				}
				c := b.joinAs(bareForm)
				c.show(cds, shows, "*")
				hold := func(p *Pace) { p.ListHold = time.Minute }
				got := c.listsWithin(hold)
				if !tc.synced && len(got) > 0 {
					t.Errorf("RES-2: it is sent %q", got)
				}
				<-time.After(time.Minute)
				b.expect(append(got, c.listsWithin(hold)...), tc.want...)
			})
		})
	}
}

// Routes wait longer for a list that the server has begun to send: its quiet time is as long as the wait, and begins later
// (RES-2, WARM-4).
func TestWaitsForListThatSettles_RES2_WARM4(t *testing.T) {
	for name, settles := range map[string]bool{"RES-2 the list is complete": true, "RES-2 the list is never complete": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				c := b.joinAs(bareForm)
				c.show(cds, "before", "*")
				c.show(rds, "before", "r")
				b.connect(0)
				b.says(cds, "+a@1")
				b.says(rds, "+r@2")
				wait := func(p *Pace) { p.ListWait = time.Second }
				<-time.After(time.Second)
				b.expect(c.listsWithin(wait))
				if settles {
					b.settle()
					b.expect(c.listsWithin(wait), "CDS a1", "RDS r2")
					return
				}
				<-time.After(time.Second)
				b.expect(c.listsWithin(wait), "RDS r2")
			})
		})
	}
}

// A cluster that a client may not have holds up nothing: the client could tell by the time (ACC-3, WARM-4).
func TestHiddenClustersHoldUpNothing_ACC3_WARM4(t *testing.T) {
	for _, form := range []Form{bareForm, {}} {
		for name, waits := range map[string]bool{"a": false, "other": true} {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				c := b.joinAs(form)
				c.s.JudgedBy(denying{names: map[string]bool{name: true}, off: everyUse}, false)
				c.sub(cds, "*")
				c.sub(lds, "*")
				b.connect(0)
				b.says(lds, "+l@1")
				warm := func(p *Pace) { p.WarmWait = time.Minute }
				collect := func() (n int) {
					for more := true; more; {
						pace := paceOf(never, c.size, 8)
						warm(pace)
						batches, left, err := c.s.Collect(pace)
						if err != nil {
							t.Fatal(err)
						}
						for _, batch := range batches {
							if batch.TypeURL == lds {
								n++
							}
						}
						more = left.More
					}
					return n
				}
				if collect() != 1 {
					t.Fatal("the listener is not sent")
				}
				r := response(cds)
				r.Resources = append(r.Resources, clusterResource(t, "a", "1"))
				if err := b.apply(0, r); err != nil {
					t.Fatal(err)
				}
				b.says(lds, "+l@2")
				if held := collect() == 0; held != waits {
					t.Errorf("%+v: the listener waits for endpoints of a cluster: %t, want %t", form, held, waits)
				}
			})
		}
	}
}
