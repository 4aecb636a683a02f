package delivery

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Each type has a stream of its own where the source wants that, and a second one
// where it is wanted both ways (SUB-12); nothing is left of a type when its stream ends.
func TestSUB12StreamsPerType(t *testing.T) {
	b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, PerType: true})
	c := b.join()
	c.sub(eds, "a")
	c.sub(cds, "x")
	c.sub(cds, "*")
	first, second := wire.StreamID{TypeURL: cds}, wire.StreamID{TypeURL: cds, Second: true}
	endpoints := wire.StreamID{TypeURL: eds}
	want := []wire.StreamID{second, first, endpoints} // "*" before names, which came first
	if got := b.store.Session().Streams(); !slices.Equal(got, want) {
		t.Fatalf("streams %v, want %v", got, want)
	}
	if subs := b.store.Session().Restart(first, 0); len(subs) != 1 || renderSub(subs[0]) != "CDS +x" {
		t.Errorf("first stream: %v", subs)
	}
	if subs := b.store.Session().Restart(second, 0); len(subs) != 1 || renderSub(subs[0]) != "CDS +*" {
		t.Errorf("second stream: %v", subs)
	}
	if b.store.Session().StreamWanted(wire.StreamID{}) {
		t.Error("the aggregated stream is wanted")
	}
	if err := b.store.Session().Apply(first, response(cds, "+x@1", "+y@1"), time.Now()); err != nil {
		t.Fatal(err)
	}
	b.expect(c.told(), "CDS +x")
	c.unsub(cds, "x")
	b.letGo()
	if subs, ok := b.store.Session().TakeDemand(first); !ok || len(subs) != 1 || renderSub(subs[0]) != "CDS -x" {
		t.Errorf("demand %v", subs)
	}
	if b.store.Session().StreamWanted(first) || !b.store.Session().StreamWanted(second) {
		t.Error("the wrong stream is wanted")
	}
	b.store.Session().Lost(first)
	b.check()
	if b.store.FindTable(cds, cache.ByName) != nil {
		t.Error("a table that nobody wants is left")
	}
	// The wildcard keeps its stream, and names get the other one again.
	c.sub(cds, "z")
	if got := b.store.Session().Streams(); !slices.Equal(got, want) {
		t.Errorf("streams %v, want %v", got, want)
	}
}

// Idle names are evicted until a request is smaller by so many bytes: each name takes two more than its length (RES-17).
func TestRES17ShedNoMore(t *testing.T) {
	for bytes, want := range map[int]int{1: 1, 6: 1, 7: 2, 12: 2, 13: 3, 100: 3} {
		b, c := newStateBed(t).subscribed(eds, "aaaa", "bbbb", "cccc")
		c.unsub(eds, "aaaa", "bbbb", "cccc")
		if !b.store.Session().Shed(streamOf(0), eds, bytes) || b.seen.evicted[cache.ReasonLimit] != want {
			t.Errorf("for %d bytes %d names are evicted, want %d", bytes, b.seen.evicted[cache.ReasonLimit], want)
		}
	}
}

// Names that nobody watches are let go of before a request that lists all of them
// grows too large; watched ones stay (RES-17).
func TestRES17Shed(t *testing.T) {
	b, c := newStateBed(t).subscribed(eds, "aaaa", "bbbb", "cccc", "kept")
	if b.store.Session().Shed(streamOf(0), eds, 1) {
		t.Error("let go of what is watched")
	}
	c.unsub(eds, "aaaa", "bbbb", "cccc")
	if b.store.Session().Shed(streamOf(0), cds, 1) || b.store.Session().Shed(streamOf(1), eds, 1) {
		t.Error("let go of another table's")
	}
	if !b.store.Session().Shed(streamOf(0), eds, 12) {
		t.Fatal("nothing was let go")
	}
	b.check()
	said := b.demand(0)
	if len(said) != 1 || strings.Count(said[0], "-") != 2 || strings.Contains(said[0], "kept") {
		t.Errorf("said %v, want two names unsubscribed", said)
	}
	if b.seen.evicted[cache.ReasonLimit] != 2 {
		t.Errorf("evicted %v", b.seen.evicted)
	}
}
