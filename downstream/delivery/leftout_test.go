package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// What clients are told of names for which the request to a server of the state of the world has
// no room (RES-17, ABS-2).
func TestRES17LeftOut(t *testing.T) {
	for name, run := range map[string]func(b *bed, c *peer){
		"ABS-2 its clients are told so, and late ones": func(b *bed, c *peer) {
			c.sub(eds, "a", "b")
			b.connect(0)
			b.store.Session().LeaveOut(streamOf(0), eds, []string{"b"}, nil)
			b.check()
			b.expect(c.lists(), "EDS !b")
			late := b.joinAs(bareForm)
			late.sub(eds, "b")
			b.expect(late.lists(), "EDS !b")
			b.state(eds, "1", "+a@1")
			b.expect(c.lists(), "EDS a1")
		},
		"it is answered when there is room": func(b *bed, c *peer) {
			c.sub(eds, "a", "b")
			b.connect(0)
			b.store.Session().LeaveOut(streamOf(0), eds, []string{"b"}, nil)
			b.expect(c.lists(), "EDS !b")
			b.store.Session().LeaveOut(streamOf(0), eds, nil, []string{"b"})
			b.check()
			b.state(eds, "1", "+a@1", "+b@1")
			b.expect(c.lists(), "EDS a1 b1")
		},
		"RES-8 a complete list says nothing of it": func(b *bed, c *peer) {
			c.sub(cds, "a", "b")
			b.connect(0)
			b.store.Session().LeaveOut(streamOf(0), cds, []string{"b"}, nil)
			b.state(cds, "1", "+a@1")
			b.check()
			b.expect(c.lists(), "CDS a1 !b")
			b.state(cds, "2", "+a@2")
			b.expect(c.lists(), "CDS a2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newStateBed(t)
			run(b, b.joinAs(bareForm))
			b.check()
		})
	}
}

// While names have no room, a name that no client subscribes to any more makes room at once: otherwise it would be kept
// for as long as idle names are.
func TestRES17LeftOutRoom(t *testing.T) {
	b, c := newStateBed(t).subscribed(eds, "a", "b", "c")
	b.state(eds, "1", "+a@1")
	c.unsub(eds, "c")
	b.expect(b.demand(0)) // it is kept
	c.sub(eds, "c")
	b.store.Session().LeaveOut(streamOf(0), eds, []string{"b"}, nil)
	leftOut := func() (n int) {
		for _, t := range b.store.Stats() {
			n += t.LeftOut
		}
		return n
	}
	if leftOut() != 1 {
		t.Errorf("%d names are left out", leftOut())
	}
	c.unsub(eds, "c")
	c.unsub(eds, "a")
	b.expect(b.demand(0), "EDS -a -c")
	if b.seen.evicted[cache.ReasonLimit] != 2 {
		t.Errorf("evicted %v", b.seen.evicted)
	}
	b.store.Session().LeaveOut(streamOf(0), eds, nil, []string{"b"})
	c.unsub(eds, "b")
	b.expect(b.demand(0)) // it is kept
	c.sub(eds, "b")
	b.store.Session().LeaveOut(streamOf(0), eds, []string{"b"}, nil)
	b.store.Session().Lost(streamOf(0))
	b.check()
	if leftOut() != 0 {
		t.Errorf("%d names are left out of the requests of no stream", leftOut())
	}
}
