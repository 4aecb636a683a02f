package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// BenchmarkLocatorsEnd lets go of a name with many sets of parameters, each with a
// variant of its own (DYN-1). Others wait for the lock meanwhile.
func BenchmarkLocatorsEnd(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprintf("parameters=%d", n), func(b *testing.B) {
			var texts, words []string
			for i := range n {
				texts = append(texts, fmt.Sprintf("a{n=%d}", i))
				words = append(words, fmt.Sprintf("+a[n=%d]@1", i))
			}
			response := variantResponse(eds, words...)
			for b.Loop() {
				b.StopTimer()
				bed := newBed(b, cache.Limits{})
				c := bed.join()
				c.c.Update(&Change{TypeURL: eds, Subscribe: locators(texts)})
				bed.store.Session().Restart(wire.StreamID{}, 0)
				if err := bed.store.Session().Apply(wire.StreamID{}, response, time.Now()); err != nil {
					b.Fatal(err)
				}
				c.c.Leave()
				bed.letGo()
				b.StartTimer()
				bed.store.Session().TakeDemand(wire.StreamID{})
				if got := bed.cache.Resources(); got != 0 {
					b.Fatalf("%d resources are held, want none", got)
				}
			}
		})
	}
}
