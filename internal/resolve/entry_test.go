package resolve

import (
	"bytes"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"google.golang.org/protobuf/types/known/durationpb"
)

// An inline entry is served like a resource of its own: with its payload as it is and
// its version, and only when it changes (LIST-4).
func TestEntry_LIST4_RES1(t *testing.T) {
	run(t, func(w *world) {
		x, y := list("a", "d")+"#entry=x", list("a", "d")+"#entry=y"
		p := w.planes["a"]
		p.has(directoryOf(list("a", "d"), "1", "x@1", "z@"))
		c := w.join(delivery.Form{})
		c.wants(x, y, list("a", "d")+"#entry=z", list("a", "e")+"#entry=x")
		z, err := entriesOf(directoryOf(list("a", "d"), "1", "z@"))
		if err != nil {
			t.Fatal(err)
		}
		digest := a("z", "").Digest()
		if want := a("z", "").Any(); !bytes.Equal(z["z"].Any, want) {
			t.Errorf("the payload is %q, should be %q", z["z"].Any, want)
		}
		c.gets("+"+x+"@1", "+"+list("a", "d")+"#entry=z@"+digest, "-"+y, "-"+list("a", "e")+"#entry=x")
		if got := p.wasAsked(); len(got) != 2 {
			t.Errorf("asked for %q", got) // two directories, each once
		}
		p.has(directoryOf(list("a", "d"), "2", "y@1", "x@1"))
		c.gets("+"+y+"@1", "-"+list("a", "d")+"#entry=z")
		p.lacks(list("a", "d"))
		c.gets("-"+x, "-"+y)
	})
}

// A directory may have an alternative: whatever single resource that names.
func TestEntry_LIST4_LOC5(t *testing.T) {
	run(t, func(w *world) {
		entry := nameOf(list("a", "d") + "#entry=x,alt=" + list("b", "e") + "%23entry=y").Key
		single := nameOf(list("a", "d") + "#entry=x,alt=" + at("c", "x")).Key
		w.planes["a"].has(directoryOf(list("a", "d"), "1", "x@a"))
		w.planes["b"].has(directoryOf(list("b", "e"), "1", "y@b"))
		w.planes["c"].has(a(at("c", "x"), "c"))
		c := w.join(delivery.Form{})
		c.wants(entry, single)
		c.gets("+"+entry+"@a", "+"+single+"@a")
		w.planes["a"].goes()
		w.wait(after)
		c.gets("+"+entry+"@b", "+"+single+"@c")
		w.planes["b"].has(directoryOf(list("b", "e"), "2")) // which takes nothing away
		c.gets()
		w.planes["a"].comes()
		c.gets("+"+entry+"@a", "+"+single+"@a")
	})
}

// A directory that is a redirect only the relay can follow for an entry, whoever follows
// redirects else; an entry that is one is passed on, or followed, like any resource.
func TestEntry_LIST4_LOC1(t *testing.T) {
	run(t, func(w *world) {
		w.planes["a"].has(redirect(list("a", "d"), list("b", "d")),
			collection(list("a", "e"), "1", &listenerv3.ListenerCollection{}))
		w.planes["b"].has(directoryOf(list("b", "d"), "1", "x@1"))
		passes := &listenerv3.ListenerCollection{}
		passes.Entries = append(passes.Entries, inline("r", "1", packed(locator(at("b", "x")))))
		w.planes["a"].has(collection(list("a", "r"), "1", passes))
		w.planes["f"].has(collection(list("f", "r"), "1", passes))
		w.planes["b"].has(a(at("b", "x"), "7"))
		c := w.join(delivery.Form{})
		c.wants(list("a", "d")+"#entry=x", list("a", "r")+"#entry=r", list("f", "r")+"#entry=r")
		c.gets("+"+list("a", "d")+"#entry=x@1", "+"+list("a", "r")+"#entry=r@1", "+"+list("f", "r")+"#entry=r@7")
		w.planes["b"].has(redirect(list("b", "d"), list("a", "d")))
		if got := c.collect(); len(got) != 1 || got[0] != "!"+list("a", "d")+"#entry=x FailedPrecondition: more than 2 redirects: "+
			list("a", "d")+"#entry=x → "+list("b", "d")+" → "+list("a", "d")+" → "+list("b", "d") {
			t.Errorf("got %q", got) // nor is what the client holds taken away
		}
		w.sees("followed a 1", "followed f 1", "failed too_many 1")
	})
}

// Clients are told what is wrong with a directory.
func TestEntry_LIST4_ERR1(t *testing.T) {
	run(t, func(w *world) {
		name := list("a", "d") + "#entry=x"
		wrong := &listenerv3.ListenerCollection{}
		wrong.Entries = append(wrong.Entries, inline("x", "1", packed(durationpb.New(1))))
		w.planes["a"].has(collection(list("a", "d"), "1", wrong))
		c := w.join(delivery.Form{})
		c.wants(name)
		c.gets("!" + name + " FailedPrecondition: the entry " + name +
			` is of type "type.googleapis.com/google.protobuf.Duration", expected "` + lds + `"`)
		w.sees("failed entry_type 1")
	})
}
