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

// An entry that is a redirect is passed on as it is. The entries of a directory that is one are
// those of its target, to which clients go themselves.
func TestEntry_LIST4_LOC1(t *testing.T) {
	run(t, func(w *world) {
		passes := &listenerv3.ListenerCollection{}
		passes.Entries = append(passes.Entries, inline("r", "1", packed(locator(at("b", "x")))))
		w.planes["a"].has(redirect(list("a", "d"), list("b", "d")), collection(list("a", "r"), "1", passes))
		c := w.join(delivery.Form{})
		c.wants(list("a", "d")+"#entry=x", list("a", "r")+"#entry=r")
		c.gets("!"+list("a", "d")+"#entry=x FailedPrecondition: the list collection "+list("a", "d")+
			" is a redirect, which clients follow: ask for the entry under the redirect's target",
			"+"+list("a", "r")+"#entry=r@1")
		w.sees("failed directory 1")
		if w.planes["b"].open != 0 {
			t.Error("the target of a redirect is read")
		}
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
