package upstream

import (
	"fmt"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// BenchmarkChangeOverLimit is a client that wants one more name and drops it again, where requests to a server of the
// state of the world have room for half of 60,000 names (RES-17).
func BenchmarkChangeOverLimit(b *testing.B) {
	const (
		names = 60_000
		limit = names / 2 * 100
	)
	store := cache.New(cache.Limits{}, nil).Open(cache.Source{State: true})
	bed := &bed{Store: store, Session: store.Session()}
	bed.client = delivery.NewSubscriber(func() {}, delivery.Form{}).Join(store)
	d := newStateDialect(false)
	id := wire.StreamID{}
	d.shed = func(typeURL string, bytes int) bool { return bed.Shed(id, typeURL, bytes) }
	d.leftOut = func(typeURL string, out, in []string) { bed.LeaveOut(id, typeURL, out, in) }
	d.large = func(string, int, int, int, int) {}
	write := func(subs []wire.Subscription) {
		d.begin()
		for _, sub := range subs {
			d.subscribe(sub, 0, limit)
		}
		d.flush()
	}
	all := make([]string, names)
	for i := range all {
		all[i] = fmt.Sprintf("%098d", i)
	}
	bed.want(endpoints, all...)
	write(bed.Restart(id, 0))
	i := 0
	for b.Loop() {
		name := fmt.Sprintf("one-%090d", i)
		i++
		bed.want(endpoints, name)
		subs, _ := bed.TakeDemand(id)
		write(subs)
		bed.unwant(endpoints, name)
		subs, _ = bed.TakeDemand(id)
		write(subs)
	}
}
