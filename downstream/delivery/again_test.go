package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// rejects has the client reject a response of the last collect, and tells whether something goes once more.
func (p *peer) rejects(response int) bool {
	p.Helper()
	defer p.check()
	return p.s.Rejected(p.c, p.took[response])
}

// A response that a client rejects goes once more in halves, until what it rejects stands alone. That is tried again when
// something else is gone that may have stood in its way, and only once.
func TestRejectedInHalves_ACK3(t *testing.T) {
	for name, subs := range map[string][]string{"*": {"*"}, "names": {"a", "b", "c", "d"}} {
		t.Run(name, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(eds, subs...)
			b.says(eds, "+a@1", "+b@1", "+c@1", "+d@1")
			b.expect(c.collect(), "EDS +a@1 +b@1 +c@1 +d@1")
			again := func(response int, goes bool, want ...string) {
				t.Helper()
				if got := c.rejects(response); got != goes {
					t.Errorf("something goes once more: %t, want %t", got, goes)
				}
				if len(want) > 0 && !c.s.Rejects(eds) {
					t.Error("nothing is left of what was rejected")
				}
				b.expect(c.collect(), want...)
			}
			again(0, true, "EDS +a@1 +b@1", "EDS +c@1 +d@1")
			if c.s.Rejects(eds) {
				t.Error("something is left of what was sent")
			}
			again(1, true, "EDS +c@1", "EDS +d@1")
			rejected, accepted := c.took[0], c.took[1]
			if c.s.Rejected(c.c, rejected) || c.s.Accepted(c.c, accepted) || !c.s.Rejects(eds) {
				t.Error("what the client rejected alone goes once more, or is not known")
			}
			b.expect(c.collect())

			b.says(eds, "-d")
			b.expect(c.collect(), "EDS -d")
			if !c.s.Accepted(c.c, c.took[0]) {
				t.Error("what was rejected is not tried once more")
			}
			b.expect(c.collect(), "EDS +c@1")
			if c.rejects(0) {
				t.Error("it goes once more")
			}
			b.says(eds, "-b")
			b.expect(c.collect(), "EDS -b")
			if c.s.Accepted(c.c, c.took[0]) {
				t.Error("it is tried twice")
			}
			b.says(eds, "+c@2")
			b.expect(c.collect(), "EDS +c@2")
			if c.s.Rejects(eds) {
				t.Error("something is left of content that is no more")
			}
		})
	}
}

// What is not current any more does not go once more.
func TestRejectedIsCurrent_ACK3(t *testing.T) {
	for name, tc := range map[string]struct {
		subs           []string
		before, behind func(b *bed, c *peer) // the rejection
		goes           bool
		want           []string
	}{
		"it is":         {subs: []string{globG}, goes: true, want: []string{"CDS +" + nameG1 + "@1", "CDS +" + nameG2 + "@1"}},
		"one is newer":  {subs: []string{globG}, before: func(b *bed, _ *peer) { b.says(cds, "+"+nameG1+"@2") }, want: []string{"CDS +" + nameG1 + "@2"}},
		"one is gone":   {subs: []string{nameG1, nameG2}, before: func(b *bed, _ *peer) { b.says(cds, "-"+nameG1) }, want: []string{"CDS -" + nameG1}},
		"the glob ends": {subs: []string{globG}, before: func(_ *bed, c *peer) { c.unsub(cds, globG) }},
		"the glob ends afterwards": {
			subs: []string{globG, "*"}, goes: true,
			behind: func(_ *bed, c *peer) { c.unsub(cds, globG) },
		},
		"a name ends afterwards": {
			subs: []string{nameG1, nameG2}, goes: true, want: []string{"CDS +" + nameG2 + "@1"},
			behind: func(_ *bed, c *peer) { c.unsub(cds, nameG1) },
		},
		"one is newer afterwards": {
			subs: []string{nameG1, nameG2}, goes: true, want: []string{"CDS +" + nameG1 + "@2", "CDS +" + nameG2 + "@1"},
			behind: func(b *bed, _ *peer) { b.says(cds, "+"+nameG1+"@2") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(cds, tc.subs...)
			b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
			b.expect(c.collect(), "CDS +"+nameG1+"@1 +"+nameG2+"@1")
			batch := c.took[0]
			if tc.before != nil {
				tc.before(b, c)
			}
			if got := c.s.Rejected(c.c, batch); got != tc.goes {
				t.Errorf("something goes once more: %t, want %t", got, tc.goes)
			}
			if w := c.c.find(cds); w != nil && !tc.goes && w.again.due() {
				t.Error("something is due once more")
			}
			if tc.behind != nil {
				tc.behind(b, c)
			}
			b.expect(c.collect(), tc.want...)
			b.expect(c.collect())
		})
	}
}

// A removal that was rejected with something else is told alone, and then not again.
func TestRejectedRemovals_ACK3(t *testing.T) {
	b, c := newBed(t, cache.Limits{}).subscribed(vhds, "a", "b")
	b.says(vhds, "+a@1", "+b@1")
	c.collect()
	b.says(vhds, "-a")
	b.expect(c.collect(), "VHDS -a")
	if c.rejects(0) {
		t.Error("resources go once more")
	}
	b.expect(c.collect(), "VHDS -a")
	if c.rejects(0) {
		t.Error("resources go once more")
	}
	b.expect(c.collect())
}

// A list goes as a whole: nothing of it goes once more (RES-2).
func TestRejectedList_ACK3_RES2(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.joinAs(Form{State: true})
	c.sub(cds, "a", "b")
	b.connect(0)
	b.says(cds, "+a@1", "+b@1")
	b.expect(c.lists(), "CDS a1 b1")
	if c.rejects(0) || c.s.Rejects(cds) {
		t.Error("something of a list goes once more")
	}
	b.expect(c.lists())
	if list := c.took; len(list) > 0 {
		t.Error("the list goes once more")
	}
	other := b.joinAs(Form{State: true})
	if other.s.Rejected(other.c, &Batch{TypeURL: cds}) || other.s.Accepted(other.c, &Batch{TypeURL: cds}) {
		t.Error("something goes once more that nobody subscribes to")
	}
}

// Where a member stood in for a name of the client, the name goes once more, unless it was sent by itself since.
func TestRejectedStandIn_ACK3_GLOB5(t *testing.T) {
	for name, tc := range map[string]struct {
		says []string // of the name, in the other table
		want string   // what the client is sent of it before it rejects
		goes []string
	}{
		"the same":         {says: []string{"+a@1"}, goes: []string{"EDS +a@1", "EDS +b@1"}},
		"another content":  {says: []string{"+a@2"}, want: "EDS +a@2", goes: nil},
		"not answered yet": {goes: []string{"EDS +a@1", "EDS +b@1"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(eds, "*", "a")
			b.connect(1)
			b.says(eds, "+a@1", "+b@1")
			b.expect(c.collect(), "EDS +a@1 +b@1")
			batch := c.took[0]
			if tc.says != nil {
				b.saysOn(1, eds, tc.says...)
			}
			if tc.want == "" {
				b.expect(c.collect())
			} else {
				b.expect(c.collect(), tc.want)
			}
			if got := c.s.Rejected(c.c, batch); got != (tc.goes != nil) {
				t.Errorf("something goes once more: %t", got)
			}
			b.expect(c.collect(), tc.goes...)
		})
	}
}
