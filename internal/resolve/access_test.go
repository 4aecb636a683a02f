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

// A redirect, of a name or of a directory, does not lead a client into a directory that it may not
// have, although the entry there has a name of its own.
func TestEntry_LIST4_ACC3(t *testing.T) {
	run(t, func(w *world) {
		secret := list("b", "d")
		w.planes["b"].has(directoryOf(secret, "1", "x@1"))
		w.planes["f"].has(redirect(at("f", "x"), secret+"#entry=x"))
		w.planes["a"].has(redirect(list("a", "d"), secret))
		name, entry := at("f", "x"), list("a", "d")+"#entry=x"

		may := w.join(delivery.Form{})
		may.c.JudgedBy(denying("none"), false)
		may.wants(name, entry)
		may.gets("+"+entry+"@1", "+"+name+"@1")

		mayNot := w.join(delivery.Form{})
		mayNot.c.JudgedBy(denying(secret), false)
		mayNot.wants(name, entry)
		mayNot.gets("-"+entry, "-"+name)
	})
}
