package delivery

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

func nothing(string) bool { return false }

// restart is the store in another process, which has what a disk kept of this one.
func (b *bed) restart() *bed {
	b.Helper()
	next := newBedOf(b, b.limits, b.source)
	next.restore(b.store.Snapshots().Image(nothing))
	return next
}

// restore sorts the image: the members have their order.
func (b *bed) restore(image *cache.Image) {
	b.Helper()
	for i := range image.Tables {
		slices.SortFunc(image.Tables[i].Resources, func(x, y cache.ResourceImage) int {
			return strings.Compare(x.Resource.Name, y.Resource.Name)
		})
		for n := range image.Tables[i].Resources {
			r := &image.Tables[i].Resources[n]
			restored, err := wire.Restore(r.Resource.Raw(), r.Resource.TTL())
			if err != nil {
				b.Fatal(err)
			}
			r.Resource = restored
		}
	}
	b.store.Snapshots().Restore(image, time.Now())
	b.check()
}

func (b *bed) restored(want int) {
	b.Helper()
	if n, _ := b.store.Snapshots().Restored(); n != want {
		b.Fatalf("%d resources are restored, want %d", n, want)
	}
}

func TestSUR1RestoredGoesToNewClients(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.join()
	c.sub(cds, "*", globG)
	c.sub(eds, "e", "f")
	b.connect(0)
	b.connect(1)
	b.says(cds, "+a@1", "+b@2")
	b.saysOn(1, cds, "+"+nameG1+"@1")
	b.says(eds, "+e@1", "-f")
	b.settle()

	b = b.restart()
	b.restored(4)
	fresh, same := b.join(), b.join()
	fresh.sub(cds, "*", globG)
	fresh.sub(eds, "e", "f")
	b.expectAll(fresh.collect(), "CDS +"+nameG1+"@1", "CDS +a@1 +b@2", "EDS +e@1")
	same.resume(cds, []string{"a@1", "b@2", nameG1 + "@1"}, "*", globG)
	same.resume(eds, []string{"e@1", "f@1"}, "e", "f")
	b.expect(same.collect())

	t.Log("the server is asked for all of it, in versions that no content has")
	b.expect(b.connect(0), "CDS +* =a@"+asked+" =b@"+asked, "EDS +e +f =e@"+asked)
	b.expect(b.connect(1), "CDS +"+globG+" ="+nameG1+"@"+asked)
	b.says(cds, "+a@1", "+b@2")
	b.saysOn(1, cds, "+"+nameG1+"@1")
	b.says(eds, "+e@1", "-f")
	b.settle()
	b.restored(0)
	b.expect(fresh.collect(), "EDS -f")
	b.expect(same.collect(), "EDS -f")
	b.says(cds, "+a@3")
	b.expect(fresh.collect(), "CDS +a@3")
	b.expect(same.collect(), "CDS +a@3")
}

// A relay restarts from its disk under a thousand clients: none is told that anything is gone, and none is sent again
// what it presented, neither from the disk nor when the server has sent all of it anew.
func TestSUR1RestartUnderThousandClients_RES11(t *testing.T) {
	const clients = 1000
	b := newBed(t, cache.Limits{})
	first := b.join()
	first.sub(cds, "*", globG)
	first.sub(eds, "e", "f")
	b.connect(0)
	b.connect(1)
	sends := func() {
		b.says(cds, "+a@1", "+b@2")
		b.saysOn(1, cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
		b.says(eds, "+e@1", "+f@1")
		b.settle()
	}
	sends()
	b = b.restart()
	all := make([]*peer, clients)
	for i := range all {
		all[i] = b.join()
		all[i].c.Update(&Change{TypeURL: cds, Subscribe: names([]string{"*", globG}), Versions: wire.NewVersions(map[string]string{
			"a": "1", "b": "2", nameG1: "1", nameG2: "1",
		})})
		all[i].c.Update(&Change{TypeURL: eds, Subscribe: names([]string{"e", "f"}), Versions: wire.NewVersions(map[string]string{"e": "1", "f": "1"})})
	}
	expectAll := func(want ...string) {
		for _, c := range all { // peer.collect would check the whole store for each
			batches, left, err := c.s.Collect(paceOf(func(string) bool { return false }, c.size, 8))
			if err != nil || left.More {
				t.Fatalf("more is left: %t, %v", left.More, err)
			}
			var said []string
			for _, batch := range batches {
				said = append(said, c.render(batch))
			}
			b.expect(said, want...)
		}
	}
	expectAll()
	b.connect(0)
	b.connect(1)
	expectAll()
	sends()
	b.restored(0)
	expectAll()
	b.says(eds, "+e@2")
	expectAll("EDS +e@2")
}

// A client that holds something else keeps it until the server has spoken.
func TestSUR1RestoredReplacesNothing(t *testing.T) {
	begin := func(t *testing.T) (b *bed, c *peer) {
		t.Helper()
		b = newBed(t, cache.Limits{})
		first := b.join()
		first.sub(lds, "*")
		first.sub(eds, "e", "w")
		b.connect(0)
		b.says(lds, "+a@1", "+b@1")
		b.says(eds, "+e@1", "+w@1")
		b.settle()
		b = b.restart()
		c = b.join()
		c.resume(lds, []string{"a@2", "gone@1"}, "*")
		c.resume(eds, []string{"e@2"}, "e")
		b.expect(c.collect(), "LDS +b@1")
		b.expect(c.collect())
		if c.rang() {
			b.expect(c.collect())
		}
		return b, c
	}
	t.Run("confirmed by the server's word", func(t *testing.T) {
		b, c := begin(t)
		b.connect(0)
		b.says(eds, "+e@1", "+w@1")
		b.expect(c.collect(), "EDS +e@1")
		b.says(lds, "+a@1", "+b@1")
		b.settle()
		if !c.rang() {
			t.Error("not woken")
		}
		b.expect(c.collect(), "LDS +a@1 -gone")
		b.expect(c.collect())
		b.restored(0)
	})
	t.Run("silence confirms no name", func(t *testing.T) {
		b, c := begin(t)
		b.expect(b.connect(0), "EDS +e +w =e@"+asked+" =w@"+asked, "LDS +* =a@"+asked+" =b@"+asked)
		b.settle()
		b.expect(c.collect())
		b.restored(4)
		b.says(eds, "+w@1")
		b.settle()
		b.expect(c.collect())
		b.restored(3)
	})
	t.Run("replaced by what the client holds", func(t *testing.T) {
		b, c := begin(t)
		b.connect(0)
		b.says(lds, "+a@2")
		b.says(eds, "+e@2")
		b.settle()
		b.expect(c.collect(), "LDS -gone")
	})
	t.Run("replaced by something newer", func(t *testing.T) {
		b, c := begin(t)
		b.connect(0)
		b.says(lds, "+a@3")
		b.says(eds, "+e@3")
		b.expectAll(c.collect(), "LDS +a@3", "EDS +e@3")
		b.settle()
		b.expect(c.collect(), "LDS -gone")
	})
	t.Run("removed", func(t *testing.T) {
		b, c := begin(t)
		b.connect(0)
		b.says(lds, "-a")
		b.says(eds, "-e")
		b.settle()
		b.expectAll(append(c.collect(), c.collect()...), "LDS -a -gone", "EDS -e")
	})
	t.Run("asked for anew it is sent", func(t *testing.T) {
		b, c := begin(t)
		c.sub(eds, "e")
		b.expect(c.collect(), "EDS +e@1")
	})
}

// Clients may be there before the disk was read.
func TestSUR1RestoredUnderClients(t *testing.T) {
	b := newBed(t, cache.Limits{})
	first := b.join()
	first.sub(lds, "*")
	first.sub(eds, "e")
	b.connect(0)
	b.says(lds, "+a@1")
	b.says(eds, "+e@1")
	image := b.store.Snapshots().Image(nothing)

	b = newBedOf(t, b.limits, b.source)
	fresh, other := b.join(), b.join()
	fresh.sub(lds, "*")
	fresh.sub(eds, "e")
	other.resume(lds, []string{"a@2"}, "*")
	other.resume(eds, []string{"e@2"}, "e")
	b.expect(fresh.collect())
	b.expect(other.collect())
	b.restore(image)
	if !fresh.rang() {
		t.Error("not woken")
	}
	b.expect(fresh.collect(), "EDS +e@1", "LDS +a@1")
	for _, batch := range fresh.took {
		if !batch.Received.IsZero() {
			t.Error("restored content counts as propagated")
		}
	}
	b.expect(other.collect())
}

// So may clients that wait for a whole list: the disk has it.
func TestSUR1RestoredListUnderClients(t *testing.T) {
	b := newBed(t, cache.Limits{})
	first := b.join()
	first.sub(cds, "*")
	b.connect(0)
	b.says(cds, "+a@1", "+b@1")
	b.settle()
	image := b.store.Snapshots().Image(nothing)

	b = newBedOf(t, b.limits, b.source)
	fresh := b.joinAs(Form{State: true})
	fresh.sub(cds, "*")
	b.expect(fresh.lists())
	b.restore(image)
	if c := b.store.FindTable(cds, cache.WholeType).Collection(cache.Wildcard); !c.Restored() {
		t.Error("the collection does not count as restored")
	}
	if !fresh.rang() {
		t.Error("not woken")
	}
	b.expect(fresh.lists(), "CDS a1 b1")
}

// A client of the state of the world that shows a version keeps its list, however long the server
// is away.
func TestSUR1RestoredLists(t *testing.T) {
	b := newBed(t, cache.Limits{})
	first := b.joinAs(Form{State: true})
	first.sub(cds, "*")
	first.sub(lds, "l")
	first.sub(eds, "e")
	b.connect(0)
	b.says(cds, "+a@1", "+b@1")
	b.says(lds, "+l@1")
	b.says(eds, "+e@1")
	b.settle()
	first.lists()
	shown := map[string]string{}
	for _, batch := range first.took {
		shown[batch.TypeURL] = batch.SystemVersion
	}

	b = b.restart()
	fresh, other, same := b.joinAs(Form{State: true}), b.joinAs(Form{State: true}), b.joinAs(Form{State: true})
	fresh.sub(cds, "*")
	fresh.sub(lds, "l")
	fresh.sub(eds, "e")
	b.expect(fresh.lists(), "CDS a1 b1", "EDS e1", "LDS l1")
	other.show(cds, "another", "*")
	other.show(lds, "another", "l")
	other.show(eds, "another", "e")
	b.expect(other.lists())
	same.show(cds, shown[cds], "*")
	same.show(eds, shown[eds], "e")
	b.expect(same.lists(), "EDS e1") // WARM-2

	t.Log("the time for which a list waits does not end it (ABS-3)")
	batches, _, err := other.s.Collect(&Pace{
		Acks: func(string) Acks { return Acknowledged }, Size: 1 << 20, Parts: 8,
	})
	if len(batches) > 0 || err != nil {
		t.Errorf("%d batches, error %v", len(batches), err)
	}

	b.connect(0)
	b.says(cds, "+a@1")
	b.says(lds, "+l@1")
	b.says(eds, "+e@1")
	b.settle()
	if !other.rang() {
		t.Error("not woken")
	}
	b.expect(other.lists(), "CDS a1 b1", "EDS e1", "LDS l1")
	b.expect(same.lists())
	b.expect(fresh.lists())
}

// Where the server speaks the state of the world, only what it sends is confirmed.
func TestSUR1RestoredState(t *testing.T) {
	b := newStateBed(t)
	first := b.join()
	first.sub(cds, "*")
	first.sub(eds, "e", "f")
	b.connect(0)
	b.state(cds, "v1", "+a@1", "+b@1")
	b.state(eds, "v1", "+e@1", "+f@1")

	b = b.restart()
	b.restored(4)
	fresh := b.join()
	fresh.sub(cds, "*")
	fresh.sub(eds, "e", "f")
	fresh.told()
	b.expectAll(b.connect(0), "CDS +* held", "EDS +e +f held")
	other := b.join()
	other.resume(eds, []string{"e@old", "f@old"}, "e", "f")
	b.expect(other.told())
	b.state(eds, "v7", "+e@1")
	b.settle()
	b.restored(3)
	b.expect(other.told(), "EDS +e")
	b.expect(fresh.told())
	b.state(cds, "v7", "+a@1")
	b.expect(fresh.told(), "CDS -b")
	b.restored(1)
}

// A server of the state of the world that cannot tell what became of a name has spoken: its list
// would wait for ever. The content stays, as it would without a restart (ERR-1).
func TestSUR1_ERR1_ABS3RestoredStateExcused(t *testing.T) {
	for _, names := range [][]string{{"a", "b", "c"}, {"*"}} {
		b := newStateBed(t)
		first := b.joinAs(Form{State: true})
		first.sub(cds, names...)
		first.sub(eds, "e", "f")
		b.connect(0)
		b.state(cds, "v1", "+a@1", "+b@1")
		b.state(eds, "v1", "+e@1", "+f@1")

		b = b.restart()
		other := b.joinAs(Form{State: true})
		other.show(cds, "another", names...)
		other.show(eds, "another", "e", "f")
		b.connect(0)
		b.expect(other.lists())
		b.state(eds, "v2", "+e@1", "!f")
		b.expect(other.lists(), "EDS e1 !f")
		b.restored(3)
		b.state(cds, "v2", "+a@1", "+c@1", "!b")
		b.restored(1)
		b.expect(other.lists(), "CDS a1 b1 c1 !b")
	}
}

// A list waits for a restored name that the server does not answer for as long as for any other, and
// only while a stream answers (ABS-3). Before the server says anything, nothing ends the wait (SUR-1).
func TestSUR1_ABS3RestoredNotAnswered(t *testing.T) {
	for _, state := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			source := cache.Source{Quiet: quiet, ResumeQuiet: quiet, Absent: quiet, State: state, FullState: map[string]bool{cds: true}}
			b := newBedOf(t, cache.Limits{}, source)
			answer, want := []string{"+a@2"}, "CDS a2 b1 c1"
			typeURL := cds
			if state { // a server that knows none of the names, and answers for another type
				answer, want, typeURL = []string{"+e@1"}, "CDS a1 b1 c1", eds
			}
			first := b.joinAs(Form{State: true})
			first.sub(cds, "a", "b", "c")
			first.sub(eds, "e")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1", "+c@1")

			b = b.restart()
			c, poll := b.joinAs(Form{State: true}), b.joinAs(bareForm)
			c.show(cds, "another", "a", "b", "c")
			poll.sub(cds, "a", "b", "c")
			poll.sub(eds, "e")
			waits := func(when string) {
				t.Helper()
				if _, s := poll.snap(cds); !s.Awaited || !s.Restored {
					t.Errorf("%s: a poll has a list of which %d are restored", when, len(s.Resources))
				}
				b.expect(c.lists())
			}
			waits("before a stream")
			b.connect(0)
			b.elapses(2 * quiet)
			waits("on a stream without an answer")
			b.store.Session().Lost(streamOf(0))
			b.connect(0)
			b.says(typeURL, answer...)
			waits("after the first answer")
			b.store.Session().Lost(streamOf(0))
			b.elapses(2 * quiet)
			waits("without a stream")
			b.connect(0)
			b.elapses(2 * quiet)
			waits("without an answer on the next stream")
			b.says(typeURL, answer...)
			b.elapses(2 * quiet)
			if _, s := poll.snap(cds); s.Awaited {
				t.Error("a poll waits for a name that nobody answers")
			}
			c.woken()
			b.expect(c.lists(), want)
		})
	}
}

// The time to live goes on while the relay is away.
func TestSUR1RestoredTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBed(t, cache.Limits{}).subscribed(eds, "short", "long")
		b.says(eds, "+short@1~1m", "+long@1~1h")
		image := b.store.Snapshots().Image(nothing)
		time.Sleep(10 * time.Minute)
		b = newBed(t, cache.Limits{})
		b.restore(image)
		b.restored(1)
		fresh := b.joinAs(Form{TTL: true})
		fresh.sub(eds, "short", "long")
		b.expect(fresh.collect(), "EDS +long@1~50m0s")
		time.Sleep(time.Hour)
		b.store.Session().Settle(time.Now())
		b.check()
		b.restored(0)
	})
}

// Aliases come back as they were.
func TestSUR1RestoredAliases(t *testing.T) {
	b, c := newBed(t, cache.Limits{}).subscribed(cds, "alias", "own")
	b.says(cds, "+own@1", "+real@1|alias")
	c.collect()
	b = b.restart()
	fresh := b.join()
	fresh.sub(cds, "alias", "own")
	b.expectAll(fresh.collect(), "CDS +real@1 +own@1")
	b.connect(0)
	b.says(cds, "+own@1", "+real@1|alias")
	b.restored(0)
	b.expect(fresh.collect())
}

// A snapshot has a resource once, if clients name it, its alias or both.
func TestSUR1_RES10_ImageOfAliases(t *testing.T) {
	b, c := newBed(t, cache.Limits{}).subscribed(cds, "alias", "own", "both", "second")
	b.says(cds, "+own@1", "+real@1|alias", "+both@1|second")
	c.collect()
	var held []string
	for _, table := range b.store.Snapshots().Image(nothing).Tables {
		for _, r := range table.Resources {
			held = append(held, r.Resource.Name)
		}
	}
	b.expectAll(held, "both", "own", "real")
}

// Readers of the relay's own pass the mark on, and take it off.
func TestSUR1RestoredReaders(t *testing.T) {
	b, _ := newBed(t, cache.Limits{}).subscribed(cds, "n")
	b.says(cds, "+n@1")
	b = b.restart()
	r := Read(b.store, func() {})
	r.Update(&Change{TypeURL: cds, Subscribe: names([]string{"n"})})
	taken, _, err := Take([]*Place{r}, 1<<20, 8)
	if err != nil || len(taken) != 1 || !taken[0].Found[0].Resource.Restored() {
		t.Fatalf("took %v, %v", taken, err)
	}
	b.connect(0)
	b.says(cds, "+n@1")
	taken, _, err = Take([]*Place{r}, 1<<20, 8)
	if err != nil || len(taken) != 1 || taken[0].Found[0].Resource.Restored() {
		t.Fatalf("took %v, %v", taken, err)
	}
}

// A server is asked for all members that are restored, and sends them, or says that they are gone.
func TestSUR1_RES2_RES14UnchangedCollection(t *testing.T) {
	const long = 4 * quiet
	members := []string{"a@1", "b@1", "c@1"}
	// begin restarts a relay, and has it ask the server.
	begin := func(t *testing.T) (b *bed, other *peer) {
		t.Helper()
		b = newBedOf(t, cache.Limits{}, cache.Source{
			Quiet: quiet, ResumeQuiet: long, Absent: quiet, FullState: map[string]bool{cds: true, lds: true},
		})
		first := b.join()
		first.sub(lds, "*")
		b.connect(0)
		for _, m := range members {
			b.says(lds, "+"+m)
		}
		b.settle()
		b = b.restart()
		other = b.joinAs(Form{State: true})
		other.show(lds, "another", "*")
		b.expect(other.lists())
		b.expect(b.connect(0), "LDS +* =a@"+asked+" =b@"+asked+" =c@"+asked)
		return b, other
	}
	t.Run("the server sends them", func(t *testing.T) {
		b, other := begin(t)
		same := b.join()
		same.resume(lds, members, "*")
		b.says(lds, "+a@1", "+b@1", "+c@1")
		b.store.Session().Settle(time.Now().Add(quiet))
		b.restored(0)
		b.expect(other.lists(), "LDS a1 b1 c1")
		b.expect(same.collect())
		b.store.Session().Lost(streamOf(0))
		b.expect(b.connect(0), "LDS +* =a@1 =b@1 =c@1")
	})
	t.Run("one has changed", func(t *testing.T) {
		b, other := begin(t)
		b.says(lds, "+a@2", "+b@1", "+c@1")
		b.settle()
		b.restored(0)
		b.expect(other.lists(), "LDS a2 b1 c1")
	})
	t.Run("they come late", func(t *testing.T) {
		b, other := begin(t)
		for _, m := range members {
			b.says(lds)
			b.store.Session().Settle(time.Now().Add(long - quiet))
			b.expect(other.lists())
			b.says(lds, "+"+m)
		}
		b.store.Session().Settle(time.Now().Add(quiet))
		b.restored(0)
		b.expect(other.lists(), "LDS a1 b1 c1")
	})
	t.Run("one is gone", func(t *testing.T) {
		b, other := begin(t)
		b.says(lds, "+a@1", "-b", "+c@1", "+d@1")
		b.settle()
		b.restored(0)
		b.expect(other.lists(), "LDS a1 c1 d1")
	})
	t.Run("the stream breaks meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, other := begin(t)
			b.says(lds, "+a@1")
			b.store.Session().Lost(streamOf(0))
			b.expect(b.connect(0), "LDS +* =a@1 =b@"+asked+" =c@"+asked)
			b.says(lds, "+b@1", "-c")
			b.runClocks()
			b.restored(0)
			b.expect(other.lists(), "LDS a1 b1")
		})
	})
	// As a relay whose own control plane was away, and that has nothing else to say when it is back.
	t.Run("the server is silent for long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, other := begin(t)
			b.runClocks()
			b.expect(b.demand(0))
			b.expect(other.lists())
			b.restored(3)
			b.says(lds, "-a", "-b", "-c")
			b.runClocks()
			b.restored(0)
			b.expect(other.lists(), "LDS")
		})
	})
	t.Run("a server that takes presented versions for names only", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, other := begin(t)
			b.says(lds, "-a")
			b.runClocks()
			b.restored(0)
			b.expect(other.lists(), "LDS b1 c1")
		})
	})
	t.Run("versions that are too many are left out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, other := begin(t)
			b.store.Session().Lost(streamOf(0))
			b.expect(b.connectWithin(0, 1), "LDS +*")
			b.says(lds, "+a@1")
			b.runClocks()
			b.restored(0)
			b.expect(other.lists(), "LDS a1")
		})
	})
}

// restoredTier is a relay that begins with names, or members, of its disk.
func restoredTier(t *testing.T, typeURL string, members []string, names ...string) *bed {
	t.Helper()
	b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, ResumeQuiet: quiet, Absent: quiet, FullState: map[string]bool{lds: true}})
	b.join().sub(typeURL, names...)
	b.connect(0)
	for _, m := range members {
		b.says(typeURL, "+"+m)
	}
	b.settle()
	return b.restart()
}

// asRelay has the second tier's stream begin at the first tier.
func (b *bed) asRelay(second *bed, typeURL string) *peer {
	b.Helper()
	sub := second.store.Session().Restart(streamOf(0), 0)[0]
	var held []string
	for name, version := range sub.Versions {
		held = append(held, name+"@"+version)
	}
	relay := b.joinAs(Form{Relay: true})
	relay.resume(typeURL, held, sub.Subscribe...)
	return relay
}

// hears has the second tier apply what the first tier has sent it.
func (b *bed) hears(relay *peer, typeURL string) {
	b.Helper()
	for _, said := range relay.collect() {
		r := words.Response(typeURL, strings.Fields(said)[1:]...)
		r.ControlPlane = wire.RelayIdentifier + "first"
		if err := b.apply(0, r); err != nil {
			b.Fatal(err)
		}
	}
}

// Both tiers begin with what their disks had, and the control plane is away. The second tier has newer content, as its
// clients have: nothing that the first tier restored takes the place of that, and nothing is removed. When the control
// plane is back, its word reaches the clients (SUR-1).
func TestSUR1TwoTiers_RES11_RES12(t *testing.T) {
	for what, says := range map[string]struct {
		plane  []string // of the control plane, when it is back
		client string   // what the client is told then
	}{
		"the control plane has what the clients present": {[]string{"+a@2", "+b@2", "+d@1"}, "LDS -z"},
		"the control plane has what the first disk had":  {[]string{"+a@1", "+b@1", "+d@1"}, "LDS +a@1 +b@1 -z"},
		"the control plane has something newer":          {[]string{"+a@3", "+b@2", "+d@1"}, "LDS +a@3 -z"},
		"one is gone":                                    {[]string{"+a@2", "-b", "+d@1"}, "LDS -b -z"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := restoredTier(t, lds, []string{"a@1", "b@1", "d@1"}, "*")
				second := restoredTier(t, lds, []string{"a@2", "b@2"}, "*")
				client, list := second.join(), second.joinAs(Form{State: true})
				client.resume(lds, []string{"a@2", "b@2", "d@1", "z@1"}, "*")
				list.show(lds, "another", "*")
				relay := first.asRelay(second, lds)
				second.hears(relay, lds)
				second.runClocks()
				second.restored(2)
				second.expect(client.collect())
				second.expect(list.lists())

				first.connect(0)
				first.says(lds, says.plane...)
				first.runClocks()
				second.hears(relay, lds)
				second.runClocks()
				second.hears(relay, lds)
				second.runClocks()
				second.restored(0)
				var told []string
				for _, said := range append(client.collect(), client.collect()...) {
					told = append(told, strings.Fields(said)[1:]...)
				}
				second.expectAll(told, strings.Fields(says.client)[1:]...)
			})
		})
	}
}

// A relay of the second tier restarts while the first tier, which has no disk, has no control plane. What is gone when
// that is back, the first tier must say.
func TestSUR1RelayBehindSilentRelay_RES11_RES12(t *testing.T) {
	for _, gone := range []string{"a@1", "b@1"} {
		synctest.Test(t, func(t *testing.T) {
			second := restoredTier(t, lds, []string{"a@1", "b@1"}, "*")
			client := second.join()
			client.resume(lds, []string{"a@1", "b@1"}, "*")
			first := newBedOf(t, cache.Limits{}, second.source)
			relay := first.asRelay(second, lds)
			second.runClocks()
			second.expect(client.collect())

			first.connect(0)
			for _, m := range []string{"a@1", "b@1"} {
				if m != gone {
					first.says(lds, "+"+m)
				}
			}
			first.runClocks()
			second.hears(relay, lds)
			second.runClocks()
			second.restored(0)
			name, _, _ := strings.Cut(gone, "@")
			second.expect(client.collect(), "LDS -"+name)
		})
	}
}

// A relay of the second tier asks for a name that it restored. While the first tier says nothing of that, since it has
// no more than a disk had either, its answer for another name confirms nothing: clients keep what they presented.
func TestSUR1NamesBehindSilentRelay_RES12(t *testing.T) {
	for what, says := range map[string]struct {
		plane  []string // of the control plane, when it is back
		client []string // what the client is told then
	}{
		"the control plane has what the client presented": {[]string{"+e@2", "+g@1"}, nil},
		"the control plane has what the disks had":        {[]string{"+e@1", "+g@1"}, []string{"EDS +e@1"}},
		"the control plane has something newer":           {[]string{"+e@3", "+g@1"}, []string{"EDS +e@3"}},
		"it is gone":                                      {[]string{"-e", "+g@1"}, []string{"EDS -e"}},
	} {
		t.Run(what, func(t *testing.T) {
			begin := func(names ...string) *bed {
				b, _ := newBed(t, cache.Limits{}).subscribed(eds, names...)
				for _, name := range names {
					b.says(eds, "+"+name+"@1")
				}
				return b.restart()
			}
			first, second := begin("e", "g"), begin("e")
			client := second.join()
			client.resume(eds, []string{"e@2"}, "e")
			client.sub(eds, "g")
			second.expect(second.connect(0), "EDS +e +g =e@"+asked)
			relay := first.joinAs(Form{Relay: true})
			relay.resume(eds, []string{"e@" + asked}, "e", "g")
			first.expect(relay.collect(), "EDS +g@1")
			second.says(eds, "+g@1")
			second.settle()
			second.expect(client.collect(), "EDS +g@1")
			second.restored(1)

			first.connect(0)
			first.says(eds, says.plane...)
			for _, said := range relay.collect() {
				second.says(eds, strings.Fields(said)[1:]...)
			}
			second.restored(0)
			second.expect(client.collect(), says.client...)
		})
	}
}

// A server that cannot tell what became of a name says nothing of the others, and confirms nothing.
func TestSUR1RestoredFails_ERR1(t *testing.T) {
	b, _ := newBed(t, cache.Limits{}).subscribed(eds, "e", "f")
	b.says(eds, "+e@1", "+f@1")
	b = b.restart()
	client := b.join()
	client.resume(eds, []string{"e@2", "f@2"}, "e", "f")
	b.expect(b.connect(0), "EDS +e +f =e@"+asked+" =f@"+asked)
	r := &wire.Response{TypeURL: eds, Errors: []wire.ResourceError{{Name: "e", Code: unavailable, Message: "why"}}}
	if err := b.apply(0, r); err != nil {
		t.Fatal(err)
	}
	b.expect(client.collect(), "EDS !e")
	b.settle()
	b.restored(2)
	b.expect(client.collect())
	b.says(eds, "+e@3", "+f@1")
	b.restored(0)
	b.expect(client.collect(), "EDS +e@3 +f@1")
}

// A server that was not shown the versions says by silence nothing of a name, only that it is slow.
func TestSUR1SilenceWithoutVersions_RES14(t *testing.T) {
	b, _ := newBed(t, cache.Limits{}).subscribed(eds, "e", "f")
	b.says(eds, "+e@1", "+f@1")
	b = b.restart()
	client := b.join()
	client.resume(eds, []string{"e@2", "f@2"}, "e", "f")
	b.expect(b.connectWithin(0, 1), "EDS +e +f")
	b.says(eds, "+e@1")
	b.settle()
	b.restored(1)
	b.expect(client.collect(), "EDS +e@1")
	b.says(eds, "-f")
	b.expect(client.collect(), "EDS -f")
	b.restored(0)
}

// A server that says what has become of the versions that it is shown, and nothing of other names that it does
// not have, as go-control-plane does, tells the clients of a relay that was down what is gone, as it tells its own.
func TestSUR1NamesGoneMeanwhile_RES12(t *testing.T) {
	for _, names := range [][]string{{"e"}, {"e", "f"}, {"e", "f", "g"}} {
		b := newBed(t, cache.Limits{})
		first := b.join()
		first.sub(eds, names...)
		b.connect(0)
		for _, name := range names {
			b.says(eds, "+"+name+"@1")
		}
		b = b.restart()
		client := b.join()
		var holds, gone []string
		for _, name := range names {
			holds = append(holds, name+"@1")
		}
		client.resume(eds, holds, names...)
		for name := range b.store.Session().Restart(streamOf(0), 0)[0].Versions {
			gone = append(gone, "-"+name)
		}
		slices.Sort(gone)
		b.says(eds, gone...)
		b.settle()
		b.restored(0)
		b.expect(client.collect(), "EDS -"+strings.Join(names, " -"))
	}
}

// The server is asked for the members of globs, and for names beside them.
func TestSUR1UnchangedGlobs(t *testing.T) {
	b, _ := newBed(t, cache.Limits{}).subscribed(cds, globG, globQ, "n", nameG1)
	b.says(cds, "+"+nameG1+"@1", "+"+nameQ+"@1", "+n@1")
	b.settle()
	b = b.restart()
	other := b.joinAs(Form{State: true})
	other.show(cds, "another", globG, nameG1)
	b.expect(other.lists())
	b.expect(b.connect(0), "CDS +n +"+globG+" +"+nameG1+" +"+globQ+" =n@"+asked+" ="+nameG1+"@"+asked+" ="+nameQ+"@"+asked)
	b.says(cds, "+"+nameG1+"@1", "+"+nameQ+"@1", "+n@1")
	b.settle()
	b.restored(0)
	b.expect(other.lists(), "CDS "+nameG1+"1")
}

// A name that is held from an earlier process becomes a member of a glob that is new. The server
// was asked for it by its name.
func TestSUR1RestoredNamesOfNewGlobs(t *testing.T) {
	begin := func(t *testing.T) (b *bed, other *peer) {
		t.Helper()
		b = newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: quiet, FullState: map[string]bool{cds: true}})
		first := b.join()
		first.sub(cds, nameG1, "n")
		b.connect(0)
		b.says(cds, "+n@1", "+"+nameG1+"@1")
		b = b.restart()
		b.expect(b.connect(0), "CDS +n +"+nameG1+" =n@"+asked+" ="+nameG1+"@"+asked)
		other = b.joinAs(Form{State: true})
		other.show(cds, "another", globG, nameG1)
		b.expect(b.demand(0), "CDS +"+globG)
		return b, other
	}
	t.Run("the server sends another member", func(t *testing.T) {
		b, other := begin(t)
		b.says(cds, "+n@1", "+"+nameG2+"@1")
		b.settle()
		b.restored(0)
		b.expect(other.lists(), "CDS "+nameG1+"1 "+nameG2+"1")
	})
	t.Run("the server has nothing else to send", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, other := begin(t)
			b.says(cds, "+n@1", "+"+nameG1+"@1")
			b.runClocks()
			b.restored(0)
			b.expect(other.lists(), "CDS "+nameG1+"1")
		})
	})
}

// asked is a version that no content of any server has (cache).
const asked = "xdsrelay/asked"

// runClocks ends all quiet times and clocks when their time has come, as the session does.
func (b *bed) runClocks() {
	b.Helper()
	for {
		at := b.store.Session().Settle(time.Now())
		b.check()
		if at.IsZero() {
			return
		}
		time.Sleep(time.Until(at))
	}
}

// TestSUR1SnapshotConfirmed: the digest without restored resources is that of a server that has
// not got them.
func TestSUR1SnapshotConfirmed(t *testing.T) {
	for _, names := range [][]string{{"a", "b"}, {"a", "b", "*"}, {"a", "*"}, {"*"}, {nameG1, nameG2, globG}, {globG}} {
		a, b := "a", "b"
		if slices.Contains(names, globG) {
			a, b = nameG1, nameG2
		}
		bed := newBed(t, cache.Limits{})
		p := bed.joinAs(bareForm)
		p.sub(eds, names...)
		bed.connect(0)
		bed.connect(1)
		says := func(what ...string) {
			for i := range 2 {
				bed.saysOn(i, eds, what...)
			}
		}
		says("+" + a + "@1")
		_, one := p.snap(eds)
		says("+" + b + "@1")
		_, two := p.snap(eds)

		bed = bed.restart()
		p = bed.joinAs(bareForm)
		p.sub(eds, names...)
		_, all := p.snap(eds)
		if none := all.Confirmed(); !all.Restored || all.Content != two.Content || len(none.Resources) != 0 || none.Content != cache.EmptyVersion() {
			t.Errorf("%q: restored %t with content %q, without %q of %d resources", names, all.Restored, all.Content, none.Content, len(none.Resources))
		}
		bed.connect(0)
		bed.connect(1)
		says("+" + a + "@1")
		_, all = p.snap(eds)
		if some := all.Confirmed(); some.Content != one.Content || some.Version != one.Content || len(some.Resources) != 1 || all.Content != two.Content {
			t.Errorf("%q: content %q of %d resources is confirmed, want %q", names, some.Content, len(some.Resources), one.Content)
		}
	}
}

// A glob of which an earlier process knew that it is empty restores nothing. A server that says nothing of
// empty globs keeps lists waiting for its time to answer, and no longer (ABS-3).
func TestSUR1RestoredEmptyGlob_ABS3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := cache.Source{Quiet: quiet, ResumeQuiet: quiet, Absent: quiet, FullState: map[string]bool{cds: true}}
		b := newBedOf(t, cache.Limits{}, source)
		first := b.joinAs(Form{State: true})
		first.sub(cds, "*", globG)
		b.connect(0)
		b.connect(1)
		b.says(cds, "+a@1")
		b.saysOn(1, cds, "-"+globG)
		b.elapses(3 * quiet)
		b.expect(first.lists(), "CDS a1")

		b = b.restart()
		c := b.joinAs(Form{State: true})
		c.show(cds, "another", "*", globG)
		b.connect(0)
		b.connect(1)
		b.says(cds, "+a@2")
		b.expect(c.lists())
		for range 3 {
			b.elapses(2 * quiet)
		}
		b.expect(c.lists(), "CDS a2")
	})
}

// A member that is withheld is due once the server has confirmed it, not while it is restored, and not if the client is told
// anyway that it changed or went.
func TestWithheldIsDue_SUR1(t *testing.T) {
	for _, tc := range []struct {
		name string
		says []string
		due  bool
		want []string
	}{
		{"the server is silent", nil, false, nil},
		{"it confirms the member", []string{"+a@1", "+b@1"}, true, []string{"LDS +a@1"}},
		{"it has something else", []string{"+a@3", "+b@1"}, false, []string{"LDS +a@3"}},
		{"it has nothing", []string{"-a"}, false, []string{"LDS -a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			b.join().sub(lds, "*")
			b.connect(0)
			b.says(lds, "+a@1", "+b@1")
			b.settle()
			b = b.restart()
			c := b.join()
			c.resume(lds, []string{"a@2", "b@1"}, "*")
			b.expect(c.collect())
			b.connect(0)
			if tc.says != nil {
				b.says(lds, tc.says...)
			}
			f := c.c.find(lds).subs.wildcard
			var due bool
			b.store.View(func() { due = f.withheld.due(f) })
			if due != tc.due || len(f.withheld) != 1 {
				t.Errorf("it is due: %t; %d are withheld", due, len(f.withheld))
			}
			b.expect(c.collect(), tc.want...)
		})
	}
}
