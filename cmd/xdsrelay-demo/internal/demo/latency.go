package demo

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// histogram counts durations in buckets that are a sixteenth of their own size
// wide, from a microsecond to over an hour. It may be used from any goroutine.
type histogram struct {
	buckets [buckets]atomic.Uint64
	longest atomic.Int64
}

const (
	fine    = 16 // buckets between a power of two and the next
	buckets = 32 * fine
)

// record counts one duration.
func (h *histogram) record(d time.Duration) {
	h.buckets[bucket(d)].Add(1)
	for {
		old := h.longest.Load()
		if int64(d) <= old || h.longest.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// bucket gives the number of a duration's bucket.
func bucket(d time.Duration) int {
	us := uint64(max(0, d.Microseconds()))
	if us < fine {
		return int(us)
	}
	shift := bits.Len64(us) - bits.Len64(fine)
	return min(shift*fine+int(us>>shift), buckets-1)
}

// middle gives the duration in the middle of a bucket.
func middle(bucket int) time.Duration {
	if bucket < 2*fine {
		return time.Duration(bucket) * time.Microsecond
	}
	shift := bucket/fine - 1
	us := uint64(bucket%fine+fine)<<shift + 1<<shift/2
	return time.Duration(us) * time.Microsecond
}

// distribution is a histogram at one time.
type distribution struct {
	counts [buckets]uint64
	total  uint64
	max    time.Duration // of all time
}

func (h *histogram) now() *distribution {
	d := &distribution{max: time.Duration(h.longest.Load())}
	for i := range h.buckets {
		d.counts[i] = h.buckets[i].Load()
		d.total += d.counts[i]
	}
	return d
}

// since gives what came after an earlier distribution of the same histogram.
func (d *distribution) since(earlier *distribution) *distribution {
	later := *d
	for i := range later.counts {
		later.counts[i] -= earlier.counts[i]
	}
	later.total -= earlier.total
	return &later
}

// quantile gives the duration that a share q of all does not pass, within 3 %;
// 0 if there are none.
func (d *distribution) quantile(q float64) time.Duration {
	if d.total == 0 {
		return 0
	}
	rank := uint64(q * float64(d.total))
	for i, n := range &d.counts {
		if rank < n {
			return min(middle(i), d.max)
		}
		rank -= n
	}
	return d.max
}
