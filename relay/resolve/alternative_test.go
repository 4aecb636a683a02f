package resolve

import (
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"google.golang.org/grpc/codes"
)

// An alternative takes over once the first place has been unreachable for long enough,
// and gives back as soon as it is there; every client has its own spelling throughout,
// and what it holds is never taken away.
func TestAlternative_LOC5_NAME4(t *testing.T) {
	run(t, func(w *world) {
		name := at("a", "x") + "#alt=" + at("b", "y")
		other := "XDSTP" + name[len("xdstp"):]
		w.planes["a"].has(a(at("a", "x"), "1"))
		w.planes["b"].has(a(at("b", "y"), "7"))
		c, d := w.join(delivery.Form{}), w.join(delivery.Form{State: true, Wrapped: true})
		c.wants(name)
		d.wants(other)
		c.gets("+" + name + "@1")
		d.gets("+" + other + "@1")
		if got := w.planes["b"].wasAsked(); len(got) != 0 {
			t.Errorf("the alternative was asked for %q", got)
		}
		w.planes["a"].goes()
		w.wait(after - time.Second)
		c.gets()
		w.wait(time.Second)
		c.gets("+" + name + "@7")
		d.gets("+" + other + "@7")
		w.planes["b"].has(a(at("b", "y"), "8"))
		c.gets("+" + name + "@8")
		w.planes["a"].has(a(at("a", "x"), "2"))
		c.gets()
		w.planes["a"].comes()
		c.gets("+" + name + "@2")
		d.gets("+" + other + "@2")
		w.planes["b"].has(a(at("b", "y"), "9")) // nobody looks there any more
		c.gets()
		w.sees("switched a true 1", "switched a false 1")
		if b := w.planes["b"]; b.store.Session().Wanted() != 1 || b.store.Clients() != 0 || b.open != 0 {
			t.Errorf("%d wanted of the alternative by %d clients, open %d", b.store.Session().Wanted(), b.store.Clients(), b.open)
		}
	})
}

// A server may have nothing to say to a stream that came back and missed nothing: as long
// as that stands its upstream is not given up. One that takes streams and ends them is.
func TestAlternative_LOC5_RES12_Silent(t *testing.T) {
	run(t, func(w *world) {
		name, p := at("a", "x")+"#alt="+at("b", "x"), w.planes["a"]
		p.has(a(at("a", "x"), "1"))
		w.planes["b"].has(a(at("b", "x"), "7"))
		c := w.join(delivery.Form{})
		c.wants(name)
		c.gets("+" + name + "@1")
		p.goes()
		p.stand(true)
		w.wait(after + time.Second)
		c.gets()
		p.comes()
		p.stand(false)
		w.sees()
		p.goes()
		p.stand(true)
		w.wait(2 * after)
		p.stand(false)
		c.gets("+" + name + "@7")
		p.stand(true) // it was given up: now it has to say something
		w.wait(after)
		c.gets()
		p.stand(false)
		p.comes()
		c.gets("+" + name + "@1")
		w.sees("switched a true 1", "switched a false 1")
	})
}

// Not existing is not unreachable: an alternative is not asked, and one that has nothing
// takes nothing away.
func TestAlternative_LOC5_NotExisting(t *testing.T) {
	run(t, func(w *world) {
		one := at("a", "x") + "#alt=" + at("b", "x")
		two := at("a", "y") + "#alt=" + at("b", "y")
		w.planes["a"].has(a(at("a", "x"), "1"))
		w.planes["b"].has(a(at("b", "y"), "1"))
		c := w.join(delivery.Form{})
		c.wants(one, two)
		c.gets("+"+one+"@1", "-"+two)
		w.planes["a"].goes()
		w.wait(after)
		c.gets("+" + two + "@1")
		late := w.join(delivery.Form{})
		late.wants(at("a", "z") + "#alt=" + at("b", "z"))
		late.gets("!" + at("a", "z") + "#alt=" + at("b", "z") +
			` Unavailable: the upstream of the authority "a" is unreachable, and the alternative ` + at("b", "z") + " has nothing")
		w.planes["b"].lacks(at("b", "y"))
		c.gets()
		w.planes["a"].comes()
		c.gets("-" + two)
		late.gets("-" + at("a", "z") + "#alt=" + at("b", "z"))
	})
}

// Alternatives are chained, and what cannot be reached either is passed over; if nothing
// can be reached what is held stays.
func TestAlternative_LOC5_Chain(t *testing.T) {
	run(t, func(w *world) {
		name := nameOf(at("a", "x") + "#alt=" + at("b", "x") + "%23alt=" + at("c", "x")).Key
		for _, p := range []string{"a", "b", "c"} {
			w.planes[p].has(a(at(p, "x"), p))
		}
		w.planes["a"].goes()
		w.planes["b"].goes()
		c := w.join(delivery.Form{})
		c.wants(name)
		c.gets()
		w.wait(after)
		c.gets("+" + name + "@c") // b has been away for as long
		w.planes["c"].goes()
		w.wait(2 * after)
		c.gets()
		w.planes["b"].comes()
		c.gets("+" + name + "@b")
		w.planes["c"].comes()
		c.gets()
		w.planes["a"].comes()
		c.gets("+" + name + "@a")
		for _, p := range []string{"b", "c"} {
			if w.planes[p].open != 0 {
				t.Errorf("%s is still in use", p)
			}
		}
	})
}

// A better place that is back and does not answer leaves a gap if it is turned to
// before it does.
func TestAlternative_LOC5_SlowReturn(t *testing.T) {
	run(t, func(w *world) {
		name := at("a", "x") + "#alt=" + at("b", "x")
		first := w.planes["a"]
		first.has(a(at("a", "x"), "1"))
		w.planes["b"].has(a(at("b", "x"), "7"))
		first.goes()
		c := w.join(delivery.Form{})
		c.wants(name)
		w.wait(after)
		c.gets("+" + name + "@7")
		first.silent = true
		first.comes()
		c.gets()
		w.planes["b"].has(a(at("b", "x"), "8"))
		c.gets("+" + name + "@8")
		first.silent = false
		first.has(a(at("a", "x"), "2"))
		c.gets("+" + name + "@2")
	})
}

// Authorities that nobody claims are passed over; an error is passed on.
func TestAlternative_LOC4_ERR1(t *testing.T) {
	run(t, func(w *world) {
		name := at("nowhere", "x") + "#alt=" + at("b", "x")
		w.planes["b"].has(a(at("b", "x"), "1"))
		c := w.join(delivery.Form{})
		c.wants(name, at("nowhere", "y")+"#alt="+at("neither", "y"))
		c.gets("!"+at("nowhere", "y")+"#alt="+at("neither", "y")+` NotFound: no upstream is configured for the authority "nowhere"`,
			"+"+name+"@1", "-"+at("nowhere", "y")+"#alt="+at("neither", "y"))
		w.planes["b"].fails(at("b", "x"), codes.Internal)
		c.gets("!" + name + " Internal: because") // and what is held stays
		w.planes["b"].has(a(at("b", "x"), "1"))
		c.gets("+" + name + "@1") // which ends the error
		w.planes["b"].fails(at("b", "x"), codes.PermissionDenied)
		c.gets("!"+name+" PermissionDenied: because", "-"+name)
		w.sees("failed unclaimed 1")
	})
}

// What the server says of time is its store's to know: the resolved store has content
// as long as that has.
func TestAlternative_TTL2_TTL5(t *testing.T) {
	run(t, func(w *world) {
		short, once := at("a", "x")+"#alt="+at("b", "x"), at("a", "y")+"#alt="+at("b", "y")
		p := w.planes["a"]
		p.has(a(at("a", "x"), "1", time.Minute), a(at("a", "y"), "1", "once"))
		c := w.join(delivery.Form{TTL: true})
		c.wants(short, once)
		c.gets("+"+short+"@1", "+"+once+"@1")
		<-time.After(time.Minute)
		p.store.Session().Settle(time.Now())
		w.settle()
		c.gets("-" + short)
		p.wasAsked()
		late := w.join(delivery.Form{})
		late.wants(once)
		late.gets("+" + once + "@1")
		c.gets()
		if got := p.wasAsked(); len(got) != 0 {
			t.Errorf("asked for %q", got)
		}
	})
}

// A rejection finds its way to who brought what was rejected.
func TestReject_ACK7(t *testing.T) {
	run(t, func(w *world) {
		name := at("a", "x") + "#alt=" + at("b", "x")
		w.planes["a"].has(a(at("a", "x"), "1"))
		c := w.join(delivery.Form{})
		c.wants(name)
		word := func(kind ack.Kind, change uint64, reason string) {
			w.resolver.Tell(ack.Outcome{Kind: kind, TypeURL: lds, Of: ack.Span{First: change, Last: change}, Reason: reason})
		}
		last := w.resolved.Session().Sequence()
		word(ack.Sent, last, "")
		word(ack.Accepted, last, "")
		word(ack.Rejected, last, "bad")
		word(ack.Rejected, last+1, "of the future")
		want := []string{"sent lds 1-1", "accepted lds 1-1", "rejected lds 1-1 bad"}
		if got := w.planes["a"].told; !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		c.gets("+" + name + "@1")
	})
}
