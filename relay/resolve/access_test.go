package resolve

import (
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
)

// denying is a judge that denies all names that begin with a text.
type denying string

func (denying) ByName(string) bool { return true }
func (d denying) Allows(_ delivery.Use, _, name string) bool {
	return !strings.HasPrefix(name, string(d))
}

// An alternative does not lead a client into a directory that it may not have, although the entry
// there has a name of its own.
func TestEntry_LIST4_LOC5_ACC3(t *testing.T) {
	run(t, func(w *world) {
		secret := list("b", "d")
		w.planes["b"].has(directoryOf(secret, "1", "x@1"))
		name := nameOf(at("a", "x") + "#alt=" + secret + "%23entry=x").Key
		entry := nameOf(list("a", "d") + "#entry=x,alt=" + secret + "%23entry=x").Key

		may := w.join(delivery.Form{})
		may.c.JudgedBy(denying("none"), false)
		may.wants(name, entry)
		mayNot := w.join(delivery.Form{})
		mayNot.c.JudgedBy(denying(secret), false)
		mayNot.wants(name, entry)
		w.planes["a"].goes()
		w.wait(after)
		may.gets("+"+name+"@1", "+"+entry+"@1")
		mayNot.gets("-"+name, "-"+entry)
	})
}
