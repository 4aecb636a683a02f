package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramQuantilesAreWithinOnePercent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h, other Histogram
	var all []time.Duration
	for i := range 10_000 {
		d := time.Duration(math.Exp(random.Float64() * 25)) // 1 ns to a minute
		all = append(all, d)
		if i%2 == 0 {
			h.Add(d, 1)
		} else {
			other.Add(d, 1)
		}
	}
	h.Merge(&other)
	slices.Sort(all)
	if h.Count() != 10_000 || h.Max() != all[len(all)-1] {
		t.Errorf("%d durations up to %v, expected 10,000 up to %v", h.Count(), h.Max(), all[len(all)-1])
	}
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(0, int(math.Ceil(q*10_000))-1)]
		got := h.Quantile(q)
		if got < want || float64(got) > 1.01*float64(want)+1 {
			t.Errorf("quantile %v is %v, expected %v", q, got, want)
		}
	}
}

func TestHistogramBucketsHaveNoGaps(t *testing.T) {
	for b := range buckets - 1 {
		if at := bucketOf(upper(b)); at != b {
			t.Fatalf("the largest value of bucket %d is in bucket %d", b, at)
		}
		if at := bucketOf(upper(b) + 1); at != b+1 {
			t.Fatalf("the value after bucket %d is in bucket %d", b, at)
		}
	}
	if at := bucketOf(math.MaxUint64); at != buckets-1 {
		t.Errorf("the largest number is in bucket %d of %d", at, buckets)
	}
}

func TestHistogramWithoutDurationsAndWithNegativeOnes(t *testing.T) {
	var h Histogram
	if q := h.Quantile(0.99); q != 0 {
		t.Errorf("the quantile of nothing is %v", q)
	}
	h.Add(-time.Second, 3)
	if q := h.Quantile(0.99); q != 0 || h.Count() != 3 {
		t.Errorf("three negative durations count as %d of %v, expected three of 0", h.Count(), q)
	}
}
