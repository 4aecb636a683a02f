package resolve

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// as is what the settings of the tests are.
func as() Settings { return Settings{AlternativeAfter: after} }

// Names whose authority moves to another upstream are had from there, as soon as that
// has said what there is; what it has not is gone then, and not before.
func TestRenew_LOC3(t *testing.T) {
	for _, kind := range []string{"names", "a glob"} {
		t.Run(kind, func(t *testing.T) {
			run(t, func(w *world) {
				const directive = "#alt=xdstp://z/envoy.config.listener.v3.Listener/"
				old, next := w.planes["a"], w.planes["b"]
				old.has(a(at("a", "d/x"), "1"), a(at("a", "d/y"), "1"))
				next.mu.Lock()
				next.silent = true
				next.truth[at("a", "d/x")] = a(at("a", "d/x"), "2")
				next.mu.Unlock()
				x, y := at("a", "d/x")+directive+"d/x", at("a", "d/y")+directive+"d/y"
				c := w.join(delivery.Form{})
				if kind == "names" {
					c.wants(x, y)
				} else {
					x, y = at("a", "d/x"), at("a", "d/y")
					c.wants(at("a", "d/*") + directive + "d/*")
				}
				c.gets("+"+x+"@1", "+"+y+"@1")
				w.renew(as(), nil)
				c.gets()
				w.renew(as(), map[string]Upstream{"a": {Name: "b"}})
				w.wait(time.Minute)
				c.gets()
				if old.open != 0 || next.open == 0 {
					t.Errorf("LOC-3: %d sources of the old upstream are open, %d of the new one", old.open, next.open)
				}
				next.mu.Lock()
				next.silent = false
				next.store.Session().Lost(wire.StreamID{})
				next.answer(next.store.Session().Restart(wire.StreamID{}, 0))
				next.mu.Unlock()
				w.settle()
				c.gets("+"+x+"@2", "-"+y)
				w.renew(as(), nil)
				c.gets("+"+x+"@1", "+"+y+"@1")
				w.sees()
			})
		})
	}
}

// An upstream that takes the place of another one of the same name has other stores.
func TestRenew_successor(t *testing.T) {
	run(t, func(w *world) {
		name := at("a", "x") + "#alt=" + at("z", "x")
		w.planes["a"].has(a(at("a", "x"), "1"))
		successor := w.planes["c"]
		successor.mu.Lock()
		successor.truth[at("a", "x")] = a(at("a", "x"), "2")
		successor.mu.Unlock()
		c := w.join(delivery.Form{})
		c.wants(name)
		c.gets("+" + name + "@1")
		w.renew(as(), map[string]Upstream{"a": {Name: "a", Of: successor}})
		c.gets("+" + name + "@2")
		if n := w.planes["a"].open; n != 0 {
			t.Errorf("%d sources of what it took the place of are open", n)
		}
	})
}

// A place that comes, and one that goes.
func TestRenew_places_LOC5(t *testing.T) {
	for _, glob := range []bool{false, true} {
		run(t, func(w *world) {
			w.claims = map[string]Upstream{"a": {}}
			w.planes["a"].has(a(at("a", "d/x"), "1"))
			w.planes["b"].has(a(at("b", "d/x"), "2"))
			member := at("a", "d/x") + "#alt=" + at("b", "d/x")
			wanted := member
			if glob {
				wanted = at("a", "d/*") + "#alt=" + at("b", "d/*")
				member = at("a", "d/x")
			}
			c := w.join(delivery.Form{})
			c.wants(wanted)
			c.gets("+" + member + "@2")
			w.renew(as(), nil)
			c.gets("+" + member + "@1")
			w.planes["a"].goes()
			w.wait(2 * after)
			c.gets("+" + member + "@2")
			w.renew(as(), nil) // where it is served from stays
			c.gets()
			w.sees("switched a true 1")
			w.renew(as(), map[string]Upstream{"a": {}}) // what served second is the only one
			c.gets()
			w.renew(as(), map[string]Upstream{"a": {}, "b": {}})
			w.wait(time.Minute)
			if n := w.planes["a"].open + w.planes["b"].open; n != 0 {
				t.Errorf("%d sources of upstreams without the authority are open", n)
			}
		})
	}
}

// How long an upstream has to be away is counted from when it went.
func TestRenew_LOC5_alternativeAfter(t *testing.T) {
	run(t, func(w *world) {
		name := at("a", "x") + "#alt=" + at("b", "x")
		w.planes["a"].has(a(at("a", "x"), "1"))
		w.planes["b"].has(a(at("b", "x"), "2"))
		c := w.join(delivery.Form{})
		c.wants(name)
		c.gets("+" + name + "@1")
		w.planes["a"].goes()
		w.wait(after / 2)
		c.gets()
		w.renew(Settings{AlternativeAfter: after / 2}, nil)
		c.gets("+" + name + "@2")
	})
}
