package resolve

import (
	"fmt"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"google.golang.org/grpc/codes"
)

// A glob with an alternative: members go by the first glob's name wherever they come
// from, what both places have is never missed, and what only one has comes and goes
// with it.
func TestGlob_LOC5_GLOB1_GLOB2_NAME4(t *testing.T) {
	run(t, func(w *world) {
		glob := at("a", "d/*") + "#alt=" + at("b", "e/*")
		first, other := w.planes["a"], w.planes["b"]
		first.has(a(at("a", "d/1"), "1"), a(at("a", "d/2"), "1"))
		other.has(a(at("b", "e/2"), "7"), a(at("b", "e/3"), "7"))
		c, d := w.join(delivery.Form{}), w.join(delivery.Form{State: true, Wrapped: true})
		c.wants(glob)
		d.wants(glob)
		c.gets("+"+at("a", "d/1")+"@1", "+"+at("a", "d/2")+"@1")
		d.gets("+"+at("a", "d/1")+"@1", "+"+at("a", "d/2")+"@1")
		first.goes()
		w.wait(after)
		c.gets("+"+at("a", "d/2")+"@7", "+"+at("a", "d/3")+"@7", "-"+at("a", "d/1"))
		d.gets("+"+at("a", "d/2")+"@7", "+"+at("a", "d/3")+"@7")
		other.has(a(at("b", "e/4"), "7"))
		c.gets("+" + at("a", "d/4") + "@7")
		first.lacks(at("a", "d/2"))
		c.gets()
		first.comes()
		c.gets("+"+at("a", "d/1")+"@1", "-"+at("a", "d/2"), "-"+at("a", "d/3"), "-"+at("a", "d/4"))
		other.has(a(at("b", "e/5"), "7"))
		first.has(a(at("a", "d/6"), "1"))
		c.gets("+" + at("a", "d/6") + "@1")
		w.sees("switched a true 1", "switched a false 1")
		if other.open != 0 {
			t.Error("the alternative is still in use")
		}
		c.drops(glob)
		d.drops(glob)
	})
}

// A glob whose first place was never reached, and whose alternative is empty.
func TestGlob_LOC5_GLOB4(t *testing.T) {
	run(t, func(w *world) {
		glob := at("a", "d/*") + "#alt=" + at("b", "e/*")
		w.planes["a"].goes()
		c := w.join(delivery.Form{})
		c.wants(glob)
		c.gets()
		w.wait(after)
		c.gets("-" + glob)
		w.planes["b"].has(a(at("b", "e/1"), "1"))
		c.gets("+" + at("a", "d/1") + "@1")
		w.planes["b"].lacks(at("b", "e/1"))
		c.gets("-" + at("a", "d/1"))
		w.planes["a"].has(a(at("a", "d/1"), "2"))
		w.planes["a"].comes()
		c.gets("+" + at("a", "d/1") + "@2")
		w.planes["a"].lacks(at("a", "d/*"), at("a", "d/1"))
		c.gets("-" + at("a", "d/1"))
	})
}

// A place that cannot be asked at all is passed by.
func TestGlob_LOC5_Barred(t *testing.T) {
	run(t, func(w *world) {
		w.planes["a"].barred = true
		w.planes["b"].has(a(at("b", "x"), "1"), a(at("b", "e/1"), "1"))
		c := w.join(delivery.Form{})
		name, glob := at("a", "x")+"#alt="+at("b", "x"), at("a", "d/*")+"#alt="+at("b", "e/*")
		c.wants(name, glob, at("a", "d/*")+"#alt="+at("a", "e/*"))
		c.gets("+"+at("a", "d/1")+"@1", "+"+name+"@1")
		c.drops(name, glob)
	})
}

// A place that comes back and has said nothing of the glob yet does not serve it.
func TestGlob_LOC5_SlowReturn(t *testing.T) {
	run(t, func(w *world) {
		glob := at("a", "d/*") + "#alt=" + at("b", "e/*")
		first := w.planes["a"]
		w.planes["b"].has(a(at("b", "e/1"), "1"))
		first.goes()
		c := w.join(delivery.Form{})
		c.wants(glob)
		w.wait(after)
		c.gets("+" + at("a", "d/1") + "@1")
		first.silent = true
		first.comes()
		w.planes["b"].has(a(at("b", "e/2"), "1"))
		c.gets("+" + at("a", "d/2") + "@1")
		first.silent = false
		first.goes()
		first.comes()
		c.gets("-"+at("a", "d/1"), "-"+at("a", "d/2"))
	})
}

// Globs that share a place are told of it whenever they turn to it, and each keeps what
// it has.
func TestGlob_SharedPlaces_RES4(t *testing.T) {
	run(t, func(w *world) {
		one, two := at("a", "d/*")+"#alt="+at("b", "e/*"), at("c", "d/*")+"#alt="+at("b", "e/*")
		w.planes["b"].has(a(at("b", "e/1"), "1"))
		w.planes["a"].has(a(at("a", "d/1"), "a"))
		w.planes["c"].has(a(at("c", "d/1"), "c"))
		c := w.join(delivery.Form{})
		c.wants(one, two)
		c.gets("+"+at("a", "d/1")+"@a", "+"+at("c", "d/1")+"@c")
		w.planes["a"].goes()
		w.wait(after)
		c.gets("+" + at("a", "d/1") + "@1")
		w.planes["c"].goes()
		w.wait(after)
		c.gets("+" + at("c", "d/1") + "@1")
		w.planes["a"].comes()
		c.gets("+" + at("a", "d/1") + "@a")
		w.planes["b"].has(a(at("b", "e/1"), "2"))
		c.gets("+" + at("c", "d/1") + "@2")
	})
}

// So many members are removed at once that nobody can be told of each.
func TestGlob_OverlookedRemovals(t *testing.T) {
	run(t, func(w *world) {
		glob := at("a", "d/*") + "#alt=" + at("b", "e/*")
		first := w.planes["a"]
		var names []string
		for i := range 1100 {
			names = append(names, at("a", fmt.Sprintf("d/%d", i)))
			first.truth[names[i]] = a(names[i], "1")
		}
		c := w.join(delivery.Form{})
		c.wants(glob)
		if got := len(c.collect()); got != len(names) {
			t.Fatalf("%d members", got)
		}
		first.lacks(names[1:]...)
		if members := w.resolved.Session().Members(lds, nameOf(glob).Key); len(members) != 1 {
			t.Errorf("%d members are left", len(members))
		}
	})
}

// Members that are not to be cached go to a client that comes later, while another subscribes.
func TestGlob_TTL5(t *testing.T) {
	run(t, func(w *world) {
		glob := at("a", "d/*") + "#alt=" + at("b", "e/*")
		w.planes["a"].has(a(at("a", "d/1"), "1", "once"))
		c := w.join(delivery.Form{})
		c.wants(glob)
		c.gets("+" + at("a", "d/1") + "@1")
		<-time.After(time.Minute)
		late := w.join(delivery.Form{})
		late.wants(glob)
		late.gets("+" + at("a", "d/1") + "@1")
		c.gets()
	})
}

// What an unreachable place said and is not to be cached goes with the last client, though an alternative serves (TTL-5).
func TestPassing_TTL5_LOC5(t *testing.T) {
	for name, has := range map[string]string{
		at("a", "x") + "#alt=" + at("b", "x"):     at("b", "x"),
		at("a", "d/*") + "#alt=" + at("b", "e/*"): at("b", "e/1"),
		at("a", "d/*") + "#alt=" + at("b", "f/*"): "", // an empty glob
	} {
		for _, pinned := range []bool{false, true} {
			run(t, func(w *world) {
				p := w.planes["a"]
				p.has(a(at("a", "x"), "1", "once"), a(at("a", "d/1"), "1", "once"))
				if has != "" {
					w.planes["b"].has(a(has, "7"))
				}
				c := w.join(delivery.Form{})
				c.wants(name)
				p.goes()
				w.wait(after)
				if pinned {
					w.resolved.Pin(lds, nameOf(name))
				}
				c.drops(name)
				w.wait(time.Second)
				for _, i := range p.store.Resources(lds, "") {
					if i.State == "present" {
						t.Errorf("%s, pinned %t: %s is kept", name, pinned, i.Name)
					}
				}
			})
		}
	}
}

// Errors of a glob, and of its members, are those of the place that serves (ERR-1).
func TestGlob_ERR1(t *testing.T) {
	run(t, func(w *world) {
		glob := at("a", "d/*") + "#alt=" + at("b", "e/*")
		p := w.planes["a"]
		p.has(a(at("a", "d/1"), "1"))
		c := w.join(delivery.Form{})
		c.wants(glob)
		c.gets("+" + at("a", "d/1") + "@1")
		p.fails(at("a", "d/1"), codes.Internal)
		c.gets("!" + at("a", "d/1") + " Internal: because")
		p.fails(at("a", "d/*"), codes.Unavailable)
		c.gets("!" + glob + " Unavailable: because")
		p.fails(at("a", "d/1"), codes.PermissionDenied)
		c.gets("!"+at("a", "d/1")+" PermissionDenied: because", "-"+at("a", "d/1"))
	})
}
