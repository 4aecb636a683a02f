package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// There is nothing to send in place of a late heartbeat, if the content is not kept, not even for lists (TTL-3, TTL-5).
func TestLapses_TTL3_TTL5(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.joinAs(bareForm)
	c.sub(cds, "*")
	c.sub(eds, "*")
	b.connect(0)
	b.says(cds, "+kept@1")
	b.once(cds, "listed@1")
	b.once(eds, "handed@1")
	entry := func(typeURL, name string) *cache.Entry { return b.store.FindTable(typeURL, cache.WholeType).Find(name) }
	for _, tc := range []struct {
		entry *cache.Entry
		lists bool
		want  bool
	}{
		{entry(cds, "kept"), false, false},
		{entry(cds, "kept"), true, false},
		{entry(cds, "listed"), true, false},
		{entry(cds, "listed"), false, true},
		{entry(eds, "handed"), true, true},
		{entry(eds, "handed"), false, true},
	} {
		var r renewals
		if got := r.lapses(lapsed{entry: tc.entry}, tc.lists); got != tc.want || (len(r.lapsed) == 1) != tc.want {
			t.Errorf("%s, to a client with lists %t: it lapses: %t, %d are remembered", tc.entry.Key(), tc.lists, got, len(r.lapsed))
		}
	}
}
