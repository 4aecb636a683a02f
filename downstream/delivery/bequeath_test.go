package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A variant that a subscription left goes to those that match it and have nothing. If all have something else it is
// removed, and if none matches it nobody is told (DYN-1).
func TestInheritedVariant_DYN1(t *testing.T) {
	left, other := wire.Variant{Name: "x", Constraints: "left"}, wire.Variant{Name: "x", Constraints: "else"}
	for _, tc := range []struct {
		name    string
		have    []bool // the subscriptions that match: whether they have something else
		surplus int
		holders int
	}{
		{"nobody matches", nil, 0, 0},
		{"one has nothing", []bool{false}, 0, 1},
		{"two have nothing", []bool{false, false}, 0, 2},
		{"one of two has something else", []bool{true, false}, 0, 1},
		{"all have something else", []bool{true, true}, 1, 0},
	} {
		c := newBed(t, cache.Limits{}).join()
		c.sub(cds, "a", "b")
		w := c.c.find(cds)
		s := w.variants.begin()
		var heirs []*nameSub
		for i, has := range tc.have {
			heirs = append(heirs, w.subs.names.get(string(rune('a'+i))))
			if has {
				s.swap(heirs[i], other)
			}
		}
		s.inherit(left, heirs)
		if len(s.surplus) != tc.surplus || s.holders[left] != tc.holders {
			t.Errorf("%s: %d are to be removed, %d have it", tc.name, len(s.surplus), s.holders[left])
		}
		for i, n := range heirs {
			if n.holds != !tc.have[i] {
				t.Errorf("%s: heir %d may hold it: %t", tc.name, i, n.holds)
			}
		}
	}
}

// What is to be removed stays to be removed as long as the client names anything.
func TestSurplusOfNames_DYN1(t *testing.T) {
	c := newBed(t, cache.Limits{}).join()
	c.sub(cds, "a")
	s := (*sentVariants)(nil).begin()
	s.surplus = []wire.Variant{{Name: "x", Constraints: "c"}}
	if s.bequeath(&c.c.find(cds).subs.names); !s.surplusDue() {
		t.Error("a variant is not removed that the client may have")
	}
	if s.bequeath(new(nameIndex)); s.surplusDue() {
		t.Error("a variant is removed of a client that names nothing")
	}
}

// The state of the world cannot tell variants apart: nothing is remembered of what such a client was sent.
func TestParametersInState_DYN1(t *testing.T) {
	for _, form := range []Form{{}, bareForm, wrappedForm} {
		b := newBed(t, cache.Limits{})
		c := b.joinAs(form)
		c.wants(eds, "x{v=1}")
		if aware := c.c.find(eds).variants != nil; c.c.located == form.State || aware == form.State {
			t.Errorf("%+v: it tells variants apart: %t, and they are remembered: %t", form, c.c.located, aware)
		}
	}
}
