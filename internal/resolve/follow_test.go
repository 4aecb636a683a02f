package resolve

import (
	"strconv"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"google.golang.org/grpc/codes"
)

// Redirects of an upstream that is followed are followed to the end, and what is there
// is served under the asked name, whatever changes on the way (LOC-1).
func TestFollow_LOC1_NAME4(t *testing.T) {
	run(t, func(w *world) {
		f, g, b := w.planes["f"], w.planes["g"], w.planes["b"]
		f.has(redirect(at("f", "x"), at("g", "x")))
		g.has(redirect(at("g", "x"), at("b", "x")))
		b.has(a(at("b", "x"), "1"))
		c := w.join(delivery.Form{})
		c.wants(at("f", "x"))
		c.gets("+" + at("f", "x") + "@1")
		b.has(a(at("b", "x"), "2"))
		c.gets("+" + at("f", "x") + "@2")
		b.lacks(at("b", "x"))
		c.gets("-" + at("f", "x"))
		f.has(redirect(at("f", "x"), at("b", "y")))
		c.gets()
		b.has(a(at("b", "y"), "3"))
		c.gets("+" + at("f", "x") + "@3")
		if g.open != 0 {
			t.Error("what nothing leads to any more is still read")
		}
		f.has(a(at("f", "x"), "4"))
		c.gets("+" + at("f", "x") + "@4")
		f.lacks(at("f", "x"))
		c.gets("-" + at("f", "x"))
		w.sees("followed f 3")
	})
}

// What clients are told of redirects is short, however long the names are.
func TestFollow_LOC1_ERR1_LongNames(t *testing.T) {
	run(t, func(w *world) {
		long := at("f", strings.Repeat("x", 10_000))
		w.planes["f"].has(redirect(at("f", "x"), long), redirect(long, at("f", "x")))
		c := w.join(delivery.Form{})
		c.wants(at("f", "x"))
		shown := long[:256] + "…"
		c.gets("!" + at("f", "x") + " FailedPrecondition: the redirects lead back: " + at("f", "x") + " → " + shown + " → " + at("f", "x"))
	})
}

// What is remembered of alternatives is that of the redirects as they are now.
func TestFollow_LOC1_LOC5_Forgets(t *testing.T) {
	run(t, func(w *world) {
		f := w.planes["f"]
		w.planes["a"].goes()
		c := w.join(delivery.Form{})
		c.wants(at("f", "x"))
		for i := range 10 {
			id := strconv.Itoa(i)
			w.planes["b"].has(a(at("b", id), id))
			f.has(redirect(at("f", "x"), at("a", id)+"#alt="+at("b", id)))
			w.wait(after)
		}
		c.gets("+" + at("f", "x") + "@9")
		if n := w.resolver.nodes.all[leadKey{lds, at("f", "x")}]; len(n.serving) != 1 {
			t.Errorf("remembered: %v", n.serving)
		}
	})
}

// Redirects of others are passed on as they are, also where a redirect led there.
func TestFollow_LOC1_Passed(t *testing.T) {
	run(t, func(w *world) {
		w.planes["f"].has(redirect(at("f", "x"), at("b", "x")))
		w.planes["b"].has(redirect(at("b", "x"), at("c", "x")))
		c := w.join(delivery.Form{})
		c.wants(at("f", "x"), at("b", "x")+"#alt="+at("c", "x"))
		c.gets("+"+at("b", "x")+"#alt="+at("c", "x")+"@to "+at("c", "x"), "+"+at("f", "x")+"@to "+at("c", "x"))
	})
}

// Where redirects lead nowhere, clients are told why (LOC-1, ERR-1).
func TestFollow_LOC1_ERR1(t *testing.T) {
	for _, tc := range []struct {
		name      string
		redirects []string // from f/1 on
		want      string
		sees      string
	}{
		{
			"a loop", []string{at("f", "2"), at("g", "3"), at("f", "1")},
			"FailedPrecondition: more than 2 redirects: " + at("f", "1") + " → " + at("f", "2") + " → " + at("g", "3") + " → " + at("f", "1"),
			"failed too_many 1",
		},
		{
			"a short loop", []string{at("f", "2"), at("f", "1")},
			"FailedPrecondition: the redirects lead back: " + at("f", "1") + " → " + at("f", "2") + " → " + at("f", "1"),
			"failed loop 1",
		},
		{
			"itself", []string{at("f", "1")},
			"FailedPrecondition: the redirects lead back: " + at("f", "1") + " → " + at("f", "1"),
			"failed loop 1",
		},
		{
			"another type", []string{list("f", "1")},
			"FailedPrecondition: the redirect " + at("f", "1") + " leads to " + list("f", "1") + `, which is not of type "` + lds + `"`,
			"failed target 1",
		},
		{
			"a glob", []string{at("f", "*")},
			"FailedPrecondition: the redirect " + at("f", "1") + " leads to " + at("f", "*") + `, which is not of type "` + lds + `"`,
			"failed target 1",
		},
		{
			"LOC-4 to nobody", []string{at("nowhere", "x")},
			`NotFound: no upstream is configured for the authority "nowhere"`,
			"failed unclaimed 1",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run(t, func(w *world) {
				from := at("f", "1")
				for _, to := range tc.redirects {
					p := w.planes[string(from[len("xdstp://")])]
					p.has(redirect(from, to))
					from = to
				}
				c := w.join(delivery.Form{})
				c.wants(at("f", "1"))
				got := c.collect()
				if len(got) == 0 || got[0] != "!"+at("f", "1")+" "+tc.want {
					t.Errorf("got %q, want %q", got, tc.want)
				}
				w.sees(tc.sees)
				w.planes["f"].has(a(at("f", "1"), "1"))
				c.gets("+" + at("f", "1") + "@1")
			})
		})
	}
}

// An error behind a redirect is the name's, and keeps what is held if it is one of those.
func TestFollow_ERR1(t *testing.T) {
	run(t, func(w *world) {
		w.planes["f"].has(redirect(at("f", "x"), at("b", "x")))
		w.planes["b"].fails(at("b", "x"), codes.Unavailable) // nobody asked
		c := w.join(delivery.Form{})
		c.wants(at("f", "x"))
		c.gets("-" + at("f", "x"))
		w.planes["b"].fails(at("b", "x"), codes.Unavailable)
		c.gets("!" + at("f", "x") + " Unavailable: because")
		w.planes["b"].has(a(at("b", "x"), "1"))
		c.gets("+" + at("f", "x") + "@1")
		w.planes["f"].has(redirect(at("f", "x"), at("f", "x")))
		c.gets("!" + at("f", "x") + " FailedPrecondition: the redirects lead back: " + at("f", "x") + " → " + at("f", "x"))
		w.planes["f"].has(redirect(at("f", "x"), at("b", "x")))
		c.gets("+" + at("f", "x") + "@1") // which was there all the time, and ends the error
	})
}

// A redirect that is not to be kept is followed all the same (TTL-5).
func TestFollow_TTL5(t *testing.T) {
	run(t, func(w *world) {
		r := redirect(at("f", "x"), at("b", "x"))
		r.DoNotCache = true
		w.planes["f"].has(r)
		w.planes["b"].has(a(at("b", "x"), "1"))
		c := w.join(delivery.Form{})
		c.wants(at("f", "x"))
		c.gets("+" + at("f", "x") + "@1")
		w.planes["b"].has(a(at("b", "x"), "2"))
		c.gets("+" + at("f", "x") + "@2")
	})
}
