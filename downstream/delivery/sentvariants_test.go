package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A variant is gone with the last of the subscriptions that had it, and nothing is kept of a client that has none.
func TestSentVariants_DYN1(t *testing.T) {
	a, b := wire.Variant{Name: "x", Constraints: "a"}, wire.Variant{Name: "x", Constraints: "b"}
	var none wire.Variant
	s := (*sentVariants)(nil).begin()
	for i, step := range []struct {
		who       string
		now, gone wire.Variant
		a, b      int // how many hold them
	}{
		{"1", a, none, 1, 0},
		{"1", a, none, 1, 0},
		{"2", a, none, 2, 0},
		{"2", b, none, 1, 1},
		{"1", b, a, 0, 2},
		{"1", none, none, 0, 1},
		{"3", none, none, 0, 1},
		{"2", none, b, 0, 0},
	} {
		if gone := s.swap(step.who, step.now); gone != step.gone || s.holders[a] != step.a || s.holders[b] != step.b {
			t.Errorf("step %d: %v is gone, held: %v", i, gone, s.holders)
		}
	}
	if len(s.holders) != 0 || s.end() != nil {
		t.Errorf("%v is kept of what nobody holds", s)
	}
	if s.swap("1", a); s.end() != s {
		t.Error("what the client has is forgotten")
	}
	if left := s.forget("1"); left != nil || len(s.left) != 1 || s.left[0] != a {
		t.Errorf("%v is left behind, want %v", s.left, a)
	}
	if s.aware = true; s.end() != s {
		t.Error("it is forgotten that the client uses parameters")
	}
	if s.surplusDue() || (*sentVariants)(nil).surplusDue() {
		t.Error("a variant is due to be removed that is not there")
	}
	if s.surplus = []wire.Variant{a}; !s.surplusDue() {
		t.Error("a surplus variant is not due to be removed")
	}
}

// With a collection the variants of its members are forgotten, and no other ones.
func TestSentVariantsOfMembers_DYN1(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.join()
	c.wants(cds, "*", "y{v=1}")
	c.sub(cds, globG)
	b.connect(0)
	b.connect(1)
	b.sends(cds, "+m[!v]@1")
	if err := b.apply(1, variantResponse(cds, "+y[v=1]@1", "+"+nameG1+"[!v]@1")); err != nil {
		t.Fatal(err)
	}
	b.expectAll(c.gets(), "+m[not(v)]@1", "+"+nameG1+"[not(v)]@1 +y[v=1]@1")
	held := func(want ...string) {
		t.Helper()
		var got []string
		for _, v := range c.c.find(cds).variants.by {
			got = append(got, v.Name)
		}
		b.expectAll(got, want...)
	}
	held("m", "y", nameG1)
	c.unsub(cds, globG)
	held("m", "y")
	c.unsub(cds, "*")
	held("y")
}
