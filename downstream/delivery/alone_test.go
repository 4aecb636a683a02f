package delivery

import (
	"testing"
	"testing/synctest"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A client is alone with a store if nobody else has a place there. What the relay reads for clients of other
// stores stands for any number of them, also where no client of its own is there.
func TestSharedStore_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		shared := func(want bool, who string) {
			t.Helper()
			if got := b.store.Session().Shared(); got != want {
				t.Errorf("LIM-2: with %s the store is shared: %v", who, got)
			}
		}
		first := b.join()
		shared(false, "one client")
		second := b.join()
		shared(true, "two clients")
		second.leave()
		shared(false, "one of them gone")
		reader := Read(b.store, func() {})
		shared(true, "a client and the relay")
		first.leave()
		shared(true, "the relay alone")
		reader.Leave()
	})
}
