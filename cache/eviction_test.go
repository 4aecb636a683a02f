package cache

import "testing"

// Eviction takes something out of the LRU and then comes to its store. Meanwhile others may
// have come there.
func TestSUB11_eviction(t *testing.T) {
	for _, tc := range []struct {
		name      string
		meanwhile func(k *kept, l *listener)
		waits     int  // what waits to be evicted then
		gone      bool // and the server was told so
	}{
		{"what was wanted while it was chosen has its full time again", func(_ *kept, l *listener) {
			l.watch("a")
			l.unwatch("a")
		}, 1, false},
		{"what is wanted when eviction comes to it stays", func(_ *kept, l *listener) { l.watch("a") }, 0, false},
		{"what was dropped when eviction comes to it is left alone", func(k *kept, _ *listener) {
			k.says(WholeType, "-a")
			if _, gone := k.demand(WholeType); len(gone) != 1 {
				k.Fatalf("unsubscribed %q", gone)
			}
		}, 0, true},
		{"what nobody wanted meanwhile is let go", func(*kept, *listener) {}, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKept(t)
			l := k.listener(NeedsStream)
			l.watch("a")
			k.store.Session().Restart(stream(WholeType), 0)
			k.says(WholeType, "+a@1")
			l.unwatch("a")
			i, _, _ := k.store.cache.idle.RemoveOldest()
			tc.meanwhile(k, l)
			i.evictIdle(ReasonIdle)
			k.check()
			k.demand(WholeType)
			if n := k.store.cache.Unwatched(); n != tc.waits {
				t.Errorf("%d wait to be evicted, want %d", n, tc.waits)
			}
			if gone := k.store.Session().Wanted() == 0; gone != tc.gone {
				t.Errorf("gone: %t, want %t", gone, tc.gone)
			}
		})
	}
}
