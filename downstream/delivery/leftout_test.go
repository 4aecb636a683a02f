package delivery

import "testing"

// What clients are told of names for which the request to a server of the state of the world has
// no room (RES-17, ABS-2).
func TestRES17LeftOut(t *testing.T) {
	for name, run := range map[string]func(b *bed, c *peer){
		"ABS-2 its clients are told so, and late ones": func(b *bed, c *peer) {
			c.sub(eds, "a", "b")
			b.connect(0)
			b.store.Session().LeaveOut(streamOf(0), eds, []string{"b"})
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
			b.store.Session().LeaveOut(streamOf(0), eds, []string{"b"})
			b.expect(c.lists(), "EDS !b")
			b.store.Session().LeaveOut(streamOf(0), eds, nil)
			b.check()
			b.state(eds, "1", "+a@1", "+b@1")
			b.expect(c.lists(), "EDS a1 b1")
		},
		"RES-8 a complete list says nothing of it": func(b *bed, c *peer) {
			c.sub(cds, "a", "b")
			b.connect(0)
			b.store.Session().LeaveOut(streamOf(0), cds, []string{"b"})
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
