package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// answersOf is the image of another store. An image has no order: this one is by name.
func (b *bed) answersOf(other *bed) *cache.Image {
	b.Helper()
	wanted := other.store.Session().Wanted()
	image := other.store.Snapshots().Image(nothing)
	for i := range image.Tables {
		slices.SortFunc(image.Tables[i].Resources, func(a, b cache.ResourceImage) int { return strings.Compare(a.Resource.Name, b.Resource.Name) })
		for n := range image.Tables[i].Resources {
			r := &image.Tables[i].Resources[n]
			r.Resource = r.Resource.AsRestored()
		}
	}
	if got := other.store.Session().Wanted(); got != wanted {
		b.Fatalf("a peer that was asked wants %d names of its control plane, and wanted %d", got, wanted)
	}
	other.check()
	return image
}

func (b *bed) takes(want int, image *cache.Image) {
	b.Helper()
	if n, _ := b.store.Peers().Take(image, time.Now()); n != want {
		b.Fatalf("took %d resources, want %d", n, want)
	}
	b.check()
}

// lacks looks whether peers are to be asked.
func (b *bed) lacks(want bool) {
	b.Helper()
	if got := b.store.Peers().Lacks(); got != want {
		b.Errorf("lacks something: %t", got)
	}
}

// A store takes from another one what its clients want, and nobody is asked for what that lacks.
func TestSUR1PeersFillWhatIsMissing(t *testing.T) {
	other := newBed(t, cache.Limits{})
	c := other.join()
	c.sub(cds, "*", globG)
	c.sub(lds, "*")
	c.sub(eds, "e", "f", "x")
	other.connect(0)
	other.connect(1)
	other.says(cds, "+a@1", "+b@2")
	other.saysOn(1, cds, "+"+nameG1+"@1")
	other.says(lds, "+l@1")
	other.says(eds, "+e@1", "-f")
	other.settle()

	b := newBed(t, cache.Limits{})
	fresh, list, same := b.join(), b.joinAs(bareForm), b.join()
	fresh.sub(cds, "*", globG)
	fresh.sub(eds, "e", "f", "unknown", "l")
	list.sub(cds, "*")
	same.resume(cds, []string{"a@1", "b@9", "gone@1"}, "*")
	b.expect(append(fresh.collect(), append(list.lists(), same.collect()...)...))
	b.lacks(true)
	b.takes(5, b.answersOf(other)) // l, too, which nobody wants yet
	b.restored(5)
	b.expectAll(fresh.collect(), "CDS +"+nameG1+"@1", "CDS +a@1 +b@2", "EDS +e@1")
	b.expect(list.lists(), "CDS a1 b2")
	b.expect(same.collect()) // b is withheld, and nothing is removed
	b.lacks(true)            // f, l and unknown
	b.takes(0, b.answersOf(other))

	t.Log("the server confirms, replaces and removes what the peer gave")
	b.connect(0)
	b.connect(1)
	b.says(cds, "+a@1", "+b@3")
	b.saysOn(1, cds, "+"+nameG1+"@1")
	b.says(eds, "-e", "-f", "-l", "+unknown@1")
	b.says(lds, "+l@1")
	b.settle()
	b.restored(0)
	b.expectAll(fresh.collect(), "CDS +b@3", "EDS +unknown@1 -f -l -e")
	b.expectAll(same.collect(), "CDS +b@3 -gone")
}

// A peer that holds single resources by their names gives them to clients that want a glob of them, and
// they are not taken for all that there are.
func TestSUR1PeersKnowNamesOfGlobs(t *testing.T) {
	other := newBed(t, cache.Limits{})
	other.join().sub(cds, nameG1)
	other.connect(0)
	other.says(cds, "+"+nameG1+"@1")

	b := newBed(t, cache.Limits{})
	fresh, same := b.join(), b.joinAs(bareForm)
	fresh.sub(cds, globG)
	same.show(cds, "1", globG)
	b.takes(1, b.answersOf(other))
	b.expect(fresh.collect(), "CDS +"+nameG1+"@1")
	b.expect(same.lists())
	b.lacks(true)
}

// A collection for which the server had not answered when the disk was written is not known to have all its
// members: peers are asked for it, and are not told that there are no others.
func TestSUR1PeersFillUnfinishedSnapshots(t *testing.T) {
	other := newBed(t, cache.Limits{})
	other.join().sub(cds, "*")
	other.connect(0)
	other.says(cds, "+a@1") // more may come
	other = other.restart()

	b := newBed(t, cache.Limits{})
	c := b.join()
	c.sub(cds, "*")
	b.takes(1, b.answersOf(other))
	b.expect(c.collect(), "CDS +a@1")
	for range 2 {
		b.lacks(true)
		b = b.restart()
		b.join().sub(cds, "*")
	}

	b.connect(0)
	b.says(cds, "+a@1")
	mark := b.store.Snapshots().Mark()
	b.settle()
	if b.store.Snapshots().Mark() == mark {
		t.Error("that there are no other members is not worth a snapshot")
	}
	b = b.restart()
	b.join().sub(cds, "*")
	b.lacks(false)
}

// What a peer gives takes the place of nothing that the store knows, and comes to nothing where the
// server was asked meanwhile.
func TestSUR1PeersReplaceNothing(t *testing.T) {
	other := newBed(t, cache.Limits{})
	c := other.join()
	c.sub(eds, "has", "gone", "waits")
	c.sub(cds, "*")
	other.connect(0)
	other.says(eds, "+has@2", "+gone@2", "+waits@2")
	other.says(cds, "+c@2", "+d@2")
	other.settle()

	b := newBed(t, cache.Limits{})
	own := b.join()
	own.sub(eds, "has", "gone", "waits")
	own.sub(cds, "*")
	answers := b.answersOf(other) // asked before the server was there
	b.connect(0)
	b.says(eds, "+has@1", "-gone")
	b.says(cds, "+c@1")
	b.expectAll(own.collect(), "CDS +c@1", "EDS +has@1 -gone")
	if n, whole := b.store.Peers().Take(answers, time.Now()); n != 0 || whole {
		t.Errorf("took %d resources while the server is being asked, all of them: %t", n, whole)
	}
	b.expect(own.collect())
	b.store.Session().Lost(streamOf(0))
	b.takes(2, answers)
	b.expectAll(own.collect(), "CDS +d@2", "EDS +waits@2")
	b.restored(2)
}

// Clients are told of an outage after the peers were asked.
func TestPeersBeforeOutage_ABS2(t *testing.T) {
	b := newBedOf(t, cache.Limits{}, cache.Source{Peers: true})
	p := b.store.Peers()
	c := b.join()
	before := p.Wants()
	c.sub(eds, "a", "b")
	if p.Wants() == before {
		t.Error("wanted names are not counted")
	}
	told := func(want string, awaited bool) {
		t.Helper()
		b.check()
		if got, v := Outage([]*Place{c.c}); got != want || (v == Unserved) != (want != "") || (v == Open) != awaited || p.Awaited() != awaited {
			t.Fatalf("told %q, verdict %d; awaited %t", got, v, p.Awaited())
		}
	}
	told("", false)
	b.store.Session().SetOutage("it is away")
	told("", true)
	b.store.Session().TellOutage()
	told("", true)
	b.expect(c.told())
	c.rang()
	p.Asked(before) // more was wanted before the outage, and nobody has asked for it
	told("", true)
	p.Asked(p.Wants())
	told("it is away", false)
	if !c.rang() {
		t.Error("not woken")
	}
	b.expectAll(strings.Fields(strings.Join(c.told(), " ")), "EDS", "!a", "!b")

	t.Log("what is wanted later waits for the peers again")
	c.sub(eds, "c")
	told("", true)
	b.expect(c.told())
	p.Asked(p.Wants())
	b.expect(c.told(), "EDS !c")
	c.sub(cds, "*")
	told("", true)

	t.Log("the outage ends meanwhile")
	b.store.Session().SetOutage("")
	told("", false)
	p.Asked(p.Wants())
	b.expect(c.told())
	b.connect(0)
	b.says(eds, "+a@1")
	b.expect(c.told(), "EDS +a")
}

// A client is told as soon as peers were asked for what it wants, though others want more all the time: before
// it has looked, peers are to be asked again. Names and collections that others want too are not put off either.
func TestPeersAskedForOthers_ABS2(t *testing.T) {
	const cause = "it is away"
	verdict := func(c *peer) Verdict {
		_, v := Outage([]*Place{c.c})
		return v
	}
	for name, sub := range map[string]func(*peer){
		"a name":                      func(c *peer) { c.sub(eds, "a") },
		"a glob":                      func(c *peer) { c.sub(eds, "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/dir/*") },
		"everything":                  func(c *peer) { c.sub(cds, "*") },
		"a name, and all of its type": func(c *peer) { c.sub(cds, "*"); c.sub(eds, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBedOf(t, cache.Limits{}, cache.Source{Peers: true})
			p := b.store.Peers()
			first := b.join()
			sub(first)
			b.store.Session().SetOutage(cause)
			b.store.Session().TellOutage()
			round, n := p.Wants(), 0
			more := func() { // a client wants something of its own, and another one what the first client wants
				n++
				b.join().sub(eds, fmt.Sprint("other", n))
				sub(b.join())
				b.check()
			}
			for _, c := range []*peer{first, b.join()} {
				if c != first {
					sub(c)
				}
				if verdict(c) == Served {
					t.Fatal("served")
				}
				more()
				c.rang()
				p.Asked(round) // what began before
				round = p.Wants()
				more()
				if v := verdict(c); v == Open {
					p.Asked(round)
					round = p.Wants()
					more()
				}
				if v := verdict(c); v != Unserved {
					t.Fatalf("verdict %d after peers were asked for what the client wants", v)
				}
				if !p.Awaited() {
					t.Error("nobody waits for what others want")
				}
			}
			p.Asked(p.Wants())
			if p.Awaited() {
				t.Error("peers were asked for everything, and are to be asked")
			}
			b.store.Session().SetOutage("")
			b.check()
			if v := verdict(first); v != Served {
				t.Errorf("verdict %d after the outage", v)
			}
		})
	}
}

// A client that was rung and had to wait on is rung again.
func TestPeersRingAgain_ABS2(t *testing.T) {
	b := newBedOf(t, cache.Limits{}, cache.Source{Peers: true})
	p := b.store.Peers()
	b.store.Session().SetOutage("it is away")
	c := b.join()
	c.sub(eds, "a")
	b.store.Session().TellOutage()
	for range 3 { // others' polls have all clients look
		p.Helped(true)
		p.Due(0)
		p.Asked(0)
		c.woken()
		if _, v := Outage([]*Place{c.c}); v != Open {
			t.Fatalf("verdict %d", v)
		}
	}
	p.Asked(p.Wants())
	c.woken()
	if _, v := Outage([]*Place{c.c}); v != Unserved {
		t.Errorf("verdict %d", v)
	}
}

// The ttl of what a peer gave runs out while the control plane is away: the session is told that there is something
// to settle (TTL-2).
func TestPeersGiveTTL_SUR1_TTL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, c := newBed(t, cache.Limits{}).subscribed(cds, "*", "a")
		other.says(cds, "+a@1~1m")
		c.collect()

		b := newBed(t, cache.Limits{})
		client := b.join()
		client.sub(cds, "a")
		<-b.store.Session().DemandChanged()
		b.store.Session().Settle(time.Now())
		b.takes(2, b.answersOf(other)) // a, and a of all
		select {
		case <-b.store.Session().DemandChanged():
		default:
			t.Error("nobody has the store settle")
		}
		at := b.store.Session().Settle(time.Now())
		if left := time.Until(at); left <= 0 || left > time.Minute {
			t.Fatalf("it settles after %v", left)
		}
		b.expect(client.collect(), "CDS +a@1")
		<-time.After(time.Until(at))
		b.store.Session().Settle(time.Now())
		b.expect(client.collect(), "CDS -a")
		b.check()
	})
}

// A peer's resource takes no alias from what the store knows, and serves those of which it knows nothing.
func TestSUR1PeersReplaceNoAlias(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.join()
	c.sub(eds, "alias", "gone", "own", "free", "last")
	if b.store.Peers().Holds() > 0 {
		t.Error("it holds something")
	}
	b.connect(0)
	b.says(eds, "+r@1|alias", "-gone", "+own@1")
	c.collect()
	b.store.Session().Lost(streamOf(0))
	if b.store.Peers().Holds() == 0 {
		t.Error("it holds nothing")
	}
	takes := func(want int, text string) {
		t.Helper()
		b.takes(want, &cache.Image{Tables: []cache.TableImage{{
			TypeURL: eds, Kind: cache.ByName, Resources: []cache.ResourceImage{{Resource: resource(eds, text).AsRestored()}},
		}}})
	}
	takes(0, "x@2|alias,free")
	takes(0, "x@2|gone,free")
	b.expect(c.collect())
	takes(1, "x@2|xdstp://%,own,free")
	b.expect(c.collect(), "EDS +x@2")
	takes(0, "y@3|free,last")
	b.expect(c.collect())
}
