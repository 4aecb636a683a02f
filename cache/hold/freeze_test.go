package hold

import "testing"

func TestFreeze_GATE4(t *testing.T) {
	never := Freeze{}
	if never.On(begin) {
		t.Error("nothing was frozen, and it is")
	}
	for _, f := range []Freeze{{Since: begin}, {Since: begin, Until: begin.Add(2)}} {
		if !f.On(begin.Add(1)) || f.On(begin.Add(2)) != f.Until.IsZero() {
			t.Errorf("%+v", f)
		}
	}
}

// The last order that is about a table counts, and orders that are replaced do not pile up.
func TestOrders_GATE4(t *testing.T) {
	scope, xdstp := "s", ""
	frozen := func(o Orders, upstream, scope, typeURL string, endpoints bool) bool {
		f := o.Of(upstream, scope, typeURL, endpoints, begin)
		return f.On(begin)
	}
	freeze := Freeze{Since: begin.Add(-1)}
	var o Orders
	if frozen(o, "a", "s", "cds", false) {
		t.Error("frozen without an order")
	}
	o = o.With(Order{Selector: Selector{Upstream: "a"}, Freeze: freeze, Frozen: true}, begin)
	if !frozen(o, "a", "s", "cds", false) || !frozen(o, "a", "", "eds", true) || frozen(o, "b", "s", "cds", false) {
		t.Errorf("%+v", o)
	}
	released := o.With(Order{Selector: Selector{Upstream: "a", Scope: &scope, Type: "cds"}}, begin)
	if frozen(released, "a", "s", "cds", false) || !frozen(released, "a", "s", "rds", false) || !frozen(released, "a", "", "cds", false) {
		t.Errorf("%+v", released)
	}
	if !frozen(o, "a", "s", "cds", false) {
		t.Error("an order changed the orders of before")
	}
	for range 3 {
		released = released.With(Order{Selector: Selector{Upstream: "a", Scope: &scope, Type: "cds"}}, begin)
	}
	if len(released) != 2 {
		t.Errorf("%d orders", len(released))
	}
	if all := released.With(Order{}, begin); len(all) != 0 {
		t.Errorf("everything is released, and these are left: %+v", all)
	}
	rolled := o.With(Order{Freeze: freeze, Frozen: true, Flows: true}, begin)
	if !frozen(rolled, "b", "", "rds", false) || frozen(rolled, "b", "", "eds", true) || !frozen(rolled, "a", "", "eds", true) {
		t.Errorf("%+v", rolled)
	}
	ended := Freeze{Since: begin.Add(-2), Until: begin.Add(-1)}
	if o := o.With(Order{Selector: Selector{Scope: &xdstp}, Freeze: ended, Frozen: true}, begin); !frozen(o, "a", "", "cds", false) || frozen(o, "b", "", "cds", false) {
		t.Errorf("%+v", o)
	}
	if o := (Orders{{Freeze: ended, Frozen: true}}).With(Order{Selector: Selector{Type: "cds"}}, begin); len(o) != 0 {
		t.Errorf("what has ended is left: %+v", o)
	}
}

// An order replaces another one if it is about all tables of that.
func TestOrdersReplace_GATE4(t *testing.T) {
	s, other := "s", "t"
	all := []Selector{
		{}, {Upstream: "a"}, {Scope: &s}, {Type: "cds"}, {Upstream: "a", Scope: &s}, {Upstream: "a", Type: "cds"},
		{Scope: &s, Type: "cds"}, {Upstream: "a", Scope: &s, Type: "cds"},
		{Upstream: "b", Scope: &s, Type: "cds"}, {Upstream: "a", Scope: &other, Type: "cds"}, {Upstream: "a", Scope: &s, Type: "rds"},
	}
	freeze := Freeze{Since: begin.Add(-1)}
	for before, want := range []map[int]bool{ // by the number of the order before: those that replace it
		{0: true},
		{0: true, 1: true},
		{0: true, 2: true},
		{0: true, 3: true},
		{0: true, 1: true, 2: true, 4: true},
		{0: true, 1: true, 3: true, 5: true},
		{0: true, 2: true, 3: true, 6: true},
		{0: true, 1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true},
		{0: true, 2: true, 3: true, 6: true, 8: true},
		{0: true, 1: true, 3: true, 5: true, 9: true},
		{0: true, 1: true, 2: true, 4: true, 10: true},
	} {
		for by := range all {
			o := Orders{{Selector: all[before], Freeze: freeze, Frozen: true}}.With(Order{Selector: all[by], Freeze: freeze, Frozen: true}, begin)
			if replaced := len(o) == 1; replaced != want[by] {
				t.Errorf("%+v is replaced by %+v: %t", all[before], all[by], replaced)
			}
		}
	}
}
