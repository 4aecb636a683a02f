package report

import (
	"math"
	"math/bits"
	"time"
)

// Histogram counts durations with an error below one percent, in memory that does
// not grow with their number. The zero value is ready. It is not safe for use by
// several goroutines.
type Histogram struct {
	counts [buckets]uint64
	total  uint64
	max    time.Duration
}

// Durations below steps nanoseconds are counted exactly, those of each power of two
// above it in steps/2 buckets of equal width.
const (
	stepBits = 8
	steps    = 1 << stepBits
	buckets  = (64 - stepBits + 2) * steps / 2
)

// Add counts a duration n times. A negative one counts as zero: a client may have
// something before it was due.
func (h *Histogram) Add(d time.Duration, n uint64) {
	d = max(0, d)
	h.counts[bucketOf(uint64(d))] += n
	h.total += n
	h.max = max(h.max, d)
}

func bucketOf(v uint64) int {
	if v < steps {
		return int(v)
	}
	shift := bits.Len64(v) - stepBits
	return shift*steps/2 + int(v>>shift)
}

// upper is the largest value of a bucket.
func upper(bucket int) uint64 {
	if bucket < steps {
		return uint64(bucket)
	}
	shift := (bucket - steps/2) / (steps / 2)
	return uint64(bucket-shift*steps/2+1)<<shift - 1
}

// Merge adds what another histogram counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range &o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.max = max(h.max, o.max)
}

// Count is the number of durations.
func (h *Histogram) Count() uint64 { return h.total }

// Max is the largest duration, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile gives the duration that a share q of all, 0 to 1, do not exceed. It is 0
// without any.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := max(1, uint64(math.Ceil(q*float64(h.total))))
	seen := uint64(0)
	for i, n := range &h.counts {
		if seen += n; seen >= rank {
			return min(h.max, time.Duration(upper(i)))
		}
	}
	return h.max
}
