package delivery

import (
	"fmt"
	"testing"
	"testing/synctest"
)

// A name that the server removed, whose removal is held, is evicted: the disk is to lose it too, or a relay that
// starts from it would have what the server removed (SUR-1, SUR-3).
func TestHeldEviction_SUR1_SUR3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, false)
		c := b.join()
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprintf("r%05d", i))
		}
		c.sub(rds, names...)
		b.connect(0)
		b.says(rds, many("+", "r", 0, 20, "@1")...)
		c.collect()
		for i, name := range names {
			names[i] = "-" + name
		}
		b.says(rds, names...)
		b.expect(c.collect())
		mark := b.store.Snapshots().Mark()
		c.unsub(rds, "r00000")
		b.letGo()
		b.demand(0)
		if len(b.store.Resources(rds, "r00000")) > 0 {
			t.Fatal("the name is still there")
		}
		if b.store.Snapshots().Mark() == mark {
			t.Error("the disk keeps what is gone")
		}
	})
}
