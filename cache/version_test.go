package cache

import "testing"

// What a name had before is remembered when it is forgotten without content, and nothing else is: no names that never had
// any, and none whose content goes with them (ACK-4).
func TestDepart_ACK4(t *testing.T) {
	for said, want := range map[string]int{"": 0, "-a": 0, "+a@1": 0, "+a@2": 1} {
		k := newKept(t)
		l := k.listener(NeedsStream)
		l.watch("a")
		k.demand(WholeType)
		if want > 0 {
			k.says(WholeType, "+a@1")
			k.says(WholeType, said)
			k.says(WholeType, "-a")
		} else if said != "" {
			k.says(WholeType, said)
		}
		l.unwatch("a")
		k.store.Session().Shed(stream(WholeType), cds, 1)
		k.demand(WholeType)
		k.check()
		table := k.store.FindTable(cds, ByName)
		if n := table.serverVersions.departed.Len(); n != want || table.Find("a") != nil {
			t.Errorf("after %q the histories of %d names are kept, want %d", said, n, want)
		}
	}
	k := newKept(t)
	l := k.listener(NeedsStream)
	l.watch("a")
	k.demand(WholeType)
	k.says(WholeType, "+a@1")
	k.says(WholeType, "+a@2")
	l.unwatch("a")
	k.store.Session().Shed(stream(WholeType), cds, 1)
	k.demand(WholeType)
	if n := k.store.FindTable(cds, ByName).serverVersions.departed.Len(); n != 0 {
		t.Errorf("the histories of %d names are kept beside their content", n)
	}
}
