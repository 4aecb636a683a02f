package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// many is n words "+p0@v", "+p1@v" … or "-p0", "-p1" … of members.
func many(sign, prefix string, from, to int, version string) []string {
	var words []string
	for i := from; i < to; i++ {
		words = append(words, fmt.Sprintf("%s%s%05d%s", sign, prefix, i, version))
	}
	return words
}

func (b *bed) tombstones(typeURL string) int {
	for _, st := range b.store.Stats() {
		if st.TypeURL == typeURL && st.Kind == cache.WholeType.String() {
			return st.Tombstones
		}
	}
	return 0
}

// lines counts the words with a sign in what collect tells.
func count(said []string, sign byte) int {
	n := 0
	for _, line := range said {
		for i := 1; i < len(line); i++ {
			if line[i] == sign && line[i-1] == ' ' {
				n++
			}
		}
	}
	return n
}

func TestTombstones(t *testing.T) {
	// following gives a bed whose server has n members, with one client that has
	// them all.
	following := func(t *testing.T, n int) (*bed, *peer) {
		t.Helper()
		b, c := newBed(t, cache.Limits{}).subscribed(lds, "*")
		b.says(lds, many("+", "m", 0, n, "@1")...)
		if got := count(c.collect(), '+'); got != n {
			t.Fatalf("%d of %d members", got, n)
		}
		return b, c
	}
	t.Run("RES-5 kept until every cursor has passed them", func(t *testing.T) {
		b, fast := following(t, 2000)
		slow := b.join()
		slow.sub(lds, "*")
		slow.collect()
		b.says(lds, many("-", "m", 0, 500, "")...)
		if got := count(fast.collect(), '-'); got != 500 {
			t.Fatalf("fast: %d removals", got)
		}
		if got := b.tombstones(lds); got != 500 {
			t.Fatalf("%d tombstones while one cursor has not passed", got)
		}
		if got := count(slow.collect(), '-'); got != 500 {
			t.Fatalf("slow: %d removals", got)
		}
		// All have passed now; who looks next is the sweep after later removals.
		b.says(lds, many("-", "m", 500, 1100, "")...)
		if got := b.tombstones(lds); got != 600 {
			t.Fatalf("%d tombstones, of which none is passed but 600 are here", got)
		}
	})
	t.Run("RES-5 at most 1024 where there are few members, a client behind must come back", func(t *testing.T) {
		b, fast := following(t, 1500)
		slow := b.join()
		slow.sub(lds, "*")
		slow.collect()
		b.says(lds, many("-", "m", 0, 1024, "")...)
		if got := b.tombstones(lds); got != 1024 {
			t.Fatalf("%d tombstones", got)
		}
		fast.collect()
		b.says(lds, many("-", "m", 1024, 1025, "")...)
		if got := b.tombstones(lds); got != 1024-1024/8 {
			t.Fatalf("%d tombstones", got)
		}
		b.expect(slow.collect(), "behind")
		b.expect(fast.collect(), "LDS -m01024")
	})
	t.Run("RES-5 as many as members where there are more", func(t *testing.T) {
		b, slow := following(t, 5000)
		b.says(lds, many("-", "m", 0, 2500, "")...)
		if got := b.tombstones(lds); got != 2500 {
			t.Fatalf("%d tombstones", got)
		}
		if got := count(slow.collect(), '-'); got != 2500 {
			t.Fatalf("%d removals", got)
		}
	})
	// slow: at 5000 members, no removal taken. The bound is that of the members
	// that are left, not of those that were there when somebody last looked.
	t.Run("RES-5 the bound sinks with the members", func(t *testing.T) {
		b, slow := following(t, 6100)
		b.says(lds, many("-", "m", 0, 2000, "")...)
		for at := 2000; at < 3600; at += 100 {
			b.says(lds, many("-", "m", at, at+100, "")...)
		}
		if got := b.tombstones(lds); got > 2500 {
			t.Fatalf("%d tombstones of 2500 members", got)
		}
		b.expect(slow.collect(), "behind")
	})
	t.Run("RES-11 who is behind comes back with versions and is told the rest", func(t *testing.T) {
		b, slow := following(t, 1100)
		b.settle()
		b.says(lds, many("-", "m", 0, 1090, "")...)
		b.expect(slow.collect(), "behind")
		slow.leave()
		again := b.join()
		again.resume(lds, slices.Collect(func(yield func(string) bool) {
			for _, w := range many("", "m", 0, 1100, "@1") {
				if !yield(w) {
					return
				}
			}
		}), "*")
		said := again.collect()
		if count(said, '-') != 1090 || count(said, '+') != 0 {
			t.Fatalf("told %d removals and %d additions", count(said, '-'), count(said, '+'))
		}
	})
	t.Run("RES-1 a new cursor skips older ones", func(t *testing.T) {
		b, keeper := following(t, 3)
		b.says(lds, "-m00000")
		late := b.join()
		late.sub(lds, "*")
		b.expect(late.collect(), "LDS +m00001@1 +m00002@1")
		b.says(lds, "-m00001")
		b.expect(late.collect(), "LDS -m00001")
		b.expect(keeper.collect(), "LDS -m00000 -m00001")
	})
	t.Run("RES-1 what came and went before a client saw it needs no word", func(t *testing.T) {
		b, c := following(t, 1)
		b.says(lds, "+x@1")
		b.says(lds, "-x")
		b.expect(c.collect())
		b.says(lds, "+x@2")
		b.expect(c.collect(), "LDS +x@2")
	})
	t.Run("RES-1 what came, was sent, went, came and went is told once", func(t *testing.T) {
		b, c := following(t, 1)
		b.says(lds, "+x@1")
		b.expect(c.collect(), "LDS +x@1")
		b.says(lds, "-x")
		b.says(lds, "+x@2")
		b.says(lds, "-x")
		b.expect(c.collect(), "LDS -x")
		b.expect(c.collect())
	})
	t.Run("RES-1 what went and came back is sent as it is now", func(t *testing.T) {
		b, c := following(t, 1)
		b.says(lds, "-m00000")
		b.says(lds, "+m00000@2")
		b.expect(c.collect(), "LDS +m00000@2")
		b.expect(c.collect())
	})
	t.Run("SUB-6 a repeated subscription does not forget what was sent", func(t *testing.T) {
		b, c := following(t, 2)
		b.says(lds, "-m00000")
		c.sub(lds, "*")
		b.expect(c.collect(), "LDS +m00001@1 -m00000")
	})
	t.Run("SUB-11 released when nobody follows", func(t *testing.T) {
		b, c := following(t, 500)
		b.says(lds, many("-", "m", 0, 200, "")...)
		c.leave()
		if got := b.tombstones(lds); got != 0 {
			t.Fatalf("%d tombstones", got)
		}
		b.says(lds, many("-", "m", 200, 300, "")...)
		if got := b.tombstones(lds); got != 0 {
			t.Fatalf("%d tombstones of a collection without followers", got)
		}
	})
	t.Run("ERR-1 an error for a removed member does not remove it once more", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		star, named := b.join(), b.join()
		star.sub(cds, globG)
		named.sub(cds, nameG1)
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
		star.collect()
		b.says(cds, "-"+nameG1)
		b.expect(star.collect(), "CDS -"+nameG1)
		b.fails(cds, nameG1, notFound)
		b.expect(star.collect(), "CDS !"+nameG1)
		b.expect(named.collect(), "CDS -"+nameG1+" !"+nameG1)
	})
}

func TestGlobs(t *testing.T) {
	t.Run("GLOB-1 members directly in the directory, several globs at once, beside names", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, globG, globQ, "name")
		b.expect(b.connect(0), "CDS +name +"+globG+" +"+globQ)
		b.says(cds, "+name@1", "+"+nameG1+"@1", "+"+nameQ+"@1", "+xdstp://x/envoy.config.cluster.v3.Cluster/g/deep/1@1")
		said := c.collect()
		if len(said) != 1 || count(said, '+') != 3 || b.seen.unsolicited != 1 {
			t.Fatalf("got %v and %d unsolicited", said, b.seen.unsolicited)
		}
	})
	t.Run("GLOB-1 GLOB-3 GLOB-4 nested directories and other parameters are globs of their own", func(t *testing.T) {
		const dir = "xdstp://x/envoy.config.cluster.v3.Cluster/d/"
		b, c := newBed(t, cache.Limits{}).subscribed(cds, dir+"*", dir+"e/*", dir+"*?p=1", dir+"none/*", dir+"e/named")
		b.says(cds, "+"+dir+"x@1", "+"+dir+"e/x@1", "+"+dir+"x?p=1@1", "+"+dir+"e/f/x@1", "+"+dir+"x?p=2@1", "-"+dir+"none/*", "-"+dir+"e/named")
		b.expectAll(strings.Fields(strings.Join(c.collect(), " "))[1:],
			"+"+dir+"x@1", "+"+dir+"e/x@1", "+"+dir+"x?p=1@1", "-"+dir+"none/*", "-"+dir+"e/named")
		if b.seen.unsolicited != 2 {
			t.Errorf("%d unsolicited", b.seen.unsolicited)
		}
		b.says(cds, "+"+dir+"e/named@1") // GLOB-5: named, and a member
		b.expect(c.collect(), "CDS +"+dir+"e/named@1")
		b.says(cds, "-"+dir+"*")
		b.expect(c.collect(), "CDS -"+dir+"x")
		c.unsub(cds, dir+"e/*")
		b.says(cds, "+"+dir+"e/x@2", "+"+dir+"e/named@2", "+"+dir+"x?p=1@2")
		b.expectAll(strings.Fields(strings.Join(c.collect(), " "))[1:], "+"+dir+"e/named@2", "+"+dir+"x?p=1@2")
	})
	t.Run("GLOB-2 adding one member to 10,000 sends one resource", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globG)
		b.says(cds, many("+", globG[:len(globG)-1], 0, 10_000, "@1")...)
		c.collect()
		b.says(cds, "+"+globG[:len(globG)-1]+"new@1")
		b.expect(c.collect(), "CDS +"+globG[:len(globG)-1]+"new@1")
	})
	t.Run("GLOB-3 context parameters must match exactly", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "xdstp://x/envoy.config.cluster.v3.Cluster/foo/*?a=b")
		b.says(cds, "+xdstp://x/envoy.config.cluster.v3.Cluster/foo/x@1")
		b.says(cds, "+xdstp://x/envoy.config.cluster.v3.Cluster/foo/x?a=b@1")
		b.expect(c.collect(), "CDS +xdstp://x/envoy.config.cluster.v3.Cluster/foo/x?a=b@1")
		if b.seen.unsolicited != 1 {
			t.Fatalf("%d unsolicited", b.seen.unsolicited)
		}
	})
	t.Run("GLOB-4 an empty collection is answered with the glob itself", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c, late := b.join(), b.join()
		c.sub(cds, globQ2)
		b.connect(0)
		b.expect(c.collect())
		b.says(cds, "-"+globQ)
		if !c.rang() {
			t.Fatal("nobody was woken")
		}
		b.expect(c.collect(), "CDS -"+globQ2)
		b.expect(c.collect())
		late.sub(cds, globQ)
		b.expect(late.collect(), "CDS -"+globQ)
	})
	t.Run("GLOB-4 a glob in removed_resources empties the collection", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globG)
		b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
		c.collect()
		b.says(cds, "-"+globG)
		b.expect(c.collect(), "CDS -"+nameG1+" -"+nameG2)
	})
	t.Run("GLOB-5 a member that was named too stays until both subscriptions are gone", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globG, nameG1)
		b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
		b.expect(c.collect(), "CDS +"+nameG1+"@1 +"+nameG2+"@1")
		c.unsub(cds, nameG1)
		b.expect(c.collect())
		b.says(cds, "+"+nameG1+"@2")
		b.expect(c.collect(), "CDS +"+nameG1+"@2")
		c.sub(cds, nameG1)
		b.expect(c.collect(), "CDS +"+nameG1+"@2")
		c.unsub(cds, globG)
		b.expect(c.collect())
		b.says(cds, "+"+nameG1+"@3", "+"+nameG2+"@3")
		b.expect(c.collect(), "CDS +"+nameG1+"@3")
	})
	// client: name + glob      server: 1@2           client: unsubscribes the name
	// The update that the name had not told is owed by the glob now.
	t.Run("GLOB-5 what the name owed is owed by the glob", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globG, nameG1)
		b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
		c.collect()
		b.says(cds, "+"+nameG1+"@2")
		c.unsub(cds, nameG1)
		b.expect(c.collect(), "CDS +"+nameG1+"@2")
	})
	t.Run("GLOB-5 a removal that the name had not told is told by the glob", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globG, nameG1)
		b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
		c.collect()
		b.says(cds, "-"+nameG1)
		c.unsub(cds, nameG1)
		b.expect(c.collect(), "CDS -"+nameG1)
	})
	t.Run("GLOB-6 one subscription serves every client, a named member of a synced glob is served from it", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		one, other, named := b.join(), b.join(), b.join()
		one.sub(cds, globG)
		other.sub(cds, globG)
		b.expect(b.connect(0), "CDS +"+globG)
		b.says(cds, "+"+nameG1+"@1")
		b.settle()
		named.sub(cds, nameG1, nameG2)
		b.expect(b.demand(0), "CDS +"+nameG2)
		b.expect(named.collect(), "CDS +"+nameG1+"@1")
		b.says(cds, "-"+nameG2)
		b.expect(named.collect(), "CDS -"+nameG2)
		b.expect(other.collect(), "CDS +"+nameG1+"@1")
	})
	t.Run("GLOB-6 a member of a glob that is not synced is subscribed by itself", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globG)
		b.says(cds, "+"+nameG1+"@1")
		c.sub(cds, nameG1)
		b.expect(b.demand(0), "CDS +"+nameG1)
	})
	t.Run("GLOB-6 a named member that its glob lost is asked for by itself", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globG)
		b.says(cds, "+"+nameG1+"@1")
		b.settle()
		c.sub(cds, nameG1)
		b.expect(b.demand(0))
		b.says(cds, "-"+nameG1)
		b.expect(b.demand(0), "CDS +"+nameG1)
		b.expect(c.collect(), "CDS -"+nameG1+" -"+globG)
	})
	t.Run("GLOB-6 what is held by name is a member of a new glob", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c, late := b.join(), b.join()
		c.sub(cds, nameG1)
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1")
		late.sub(cds, globG)
		b.expect(late.collect(), "CDS +"+nameG1+"@1")
	})
}

func TestSpelling(t *testing.T) {
	t.Run("NAME-4 members are spelled like the client's glob, whichever was first", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		one, other := b.join(), b.join()
		one.sub(cds, globQ2)
		other.sub(cds, globQ)
		b.expect(b.connect(0), "CDS +"+globQ) // NAME-3
		b.says(cds, "+"+nameQ2+"@1")
		b.expect(one.collect(), "CDS +"+nameQ2+"@1")
		b.expect(other.collect(), "CDS +"+nameQ+"@1")
		b.says(cds, "-"+nameQ2)
		b.expect(one.collect(), "CDS -"+nameQ2)
		b.expect(other.collect(), "CDS -"+nameQ)
	})
	t.Run("NAME-4 also where the server spells in its own way", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		one, other := b.join(), b.join()
		one.sub(cds, globQ)
		other.sub(cds, globQ2)
		b.connect(0)
		b.says(cds, "+"+nameQ2+"@1")
		b.expect(one.collect(), "CDS +"+nameQ+"@1")
		b.expect(other.collect(), "CDS +"+nameQ2+"@1")
		b.says(cds, "+"+nameQ+"@2")
		b.expect(one.collect(), "CDS +"+nameQ+"@2")
		b.expect(other.collect(), "CDS +"+nameQ2+"@2")
	})
	t.Run("NAME-3 two spellings of one name by the same client", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, nameQ, nameQ2)
		b.expect(b.connect(0), "CDS +"+nameQ)
		b.says(cds, "+"+nameQ+"@1")
		b.expect(c.collect(), "CDS +"+nameQ+"@1 +"+nameQ2+"@1")
		c.unsub(cds, nameQ)
		b.says(cds, "+"+nameQ+"@2")
		b.expect(c.collect(), "CDS +"+nameQ2+"@2")
		c.unsub(cds, nameQ2)
		b.says(cds, "+"+nameQ+"@3")
		b.expect(c.collect())
	})
	t.Run("NAME-3 two spellings of one glob by the same client", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.sub(cds, globQ, globQ2)
		b.expect(b.connect(0), "CDS +"+globQ)
		b.says(cds, "+"+nameQ+"@1")
		if got := c.collect(); len(got) != 1 || count(got, '+') != 2 {
			t.Fatalf("got %v", got)
		}
		c.unsub(cds, globQ)
		b.says(cds, "-"+nameQ)
		b.expect(c.collect(), "CDS -"+nameQ2)
	})
	t.Run("RES-4 two globs that differ in directives only give a member one name", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globG, globG+"#alt=xdstp://y/envoy.config.cluster.v3.Cluster/g/*")
		b.says(cds, "+"+nameG1+"@1")
		b.expect(c.collect(), "CDS +"+nameG1+"@1")
		b.says(cds, "-"+nameG1)
		b.expect(c.collect(), "CDS -"+nameG1)
	})
	// client: glob spelled ?b&a, and a member by name. The glob's cursor has
	// passed the member when the name, which owes an update, ends.
	t.Run("NAME-4 what a glob owes for a name that ended is spelled like the glob", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globQ2, nameQ)
		b.says(cds, "+"+nameQ+"@1")
		b.expect(c.collect(), "CDS +"+nameQ+"@1")
		c.sub(cds, nameQ)
		c.unsub(cds, nameQ)
		b.expect(c.collect(), "CDS +"+nameQ2+"@1")
	})
	// A spelling of the glob ends before the other one's cursor has caught up:
	// what the client holds because of the one is the other's to remove.
	t.Run("RES-11 a glob inherits what the client holds from its other spelling", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.join()
		c.resume(cds, []string{nameG1 + "@1"}, globG, globG+"#alt=xdstp://y/envoy.config.cluster.v3.Cluster/g/*")
		b.connect(0)
		c.unsub(cds, globG)
		b.says(cds, "+"+nameG2+"@1")
		b.settle()
		b.expect(c.collect(), "CDS +"+nameG2+"@1 -"+nameG1)
	})
	t.Run("RES-5 a glob inherits what the client was sent by its other spelling", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, globQ)
		b.says(cds, "+"+nameQ+"@1")
		c.collect()
		c.sub(cds, globQ2)
		c.unsub(cds, globQ)
		b.says(cds, "-"+nameQ)
		b.expect(c.collect(), "CDS -"+nameQ2)
	})
}

// A relay that answers that a name does not exist may have no answer to the name's glob yet (RES-2, RES-14).
func TestNameGoneAtRelay_RES2_RES14(t *testing.T) {
	for name, tc := range map[string]struct {
		controlPlane string
		removes      string
		want         []string // what a client is told that holds a member
	}{
		"a relay, a name that is asked for": {wire.RelayIdentifier + "first", nameG1, nil},
		"a relay, a member":                 {wire.RelayIdentifier + "first", "xdstp://x/envoy.config.cluster.v3.Cluster/g/3", []string{"CDS -" + nameG2}},
		"a control plane":                   {"", nameG1, []string{"CDS -" + nameG2}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c, other := b.join(), b.join()
			c.sub(cds, globG)
			c.resume(cds, []string{nameG2 + "@v"})
			other.sub(cds, nameG1)
			b.connect(0)
			if err := b.apply(0, &wire.Response{TypeURL: cds, Removed: []string{tc.removes}, ControlPlane: tc.controlPlane}); err != nil {
				t.Fatal(err)
			}
			c.told()
			b.settle()
			b.expect(c.told(), tc.want...)
		})
	}
}
