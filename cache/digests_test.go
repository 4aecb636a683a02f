package cache

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache/digest"
)

// A client that polls joins and leaves each time: that must not cost a digest of every
// resource, taken under the store's lock.
func TestOPS1_pollsDoNotHashTheTable(t *testing.T) {
	for key, kind := range map[string]Kind{Wildcard: WholeType, glob: ByName} {
		k := newKept(t)
		k.listener(NeedsStream).follow(key) // the table stays
		k.store.Session().Restart(stream(WholeType), 0)
		k.says(WholeType, "+"+name+"@1") // on the first stream, whatever it carries
		poll := func() {
			l := k.listener(NeedsStream | NeedsDigests)
			l.follow(key)
			l.cursor.Unfollow()
		}
		poll()
		e := k.store.FindTable(cds, kind).Find(name)
		planted := e.extra.sum.Plus(digest.Of("planted")) // a digest taken anew would not have it
		e.extra.setSum(planted)
		poll()
		if e.extra.sum != planted {
			t.Errorf("%s: hashed again for the next client", key)
		}
	}
}
