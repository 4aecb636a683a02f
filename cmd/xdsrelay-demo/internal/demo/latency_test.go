package demo

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h histogram
	for i := 1; i <= 1000; i++ {
		h.record(time.Duration(i) * time.Millisecond)
	}
	before := h.now()
	for q, want := range map[float64]time.Duration{0: time.Millisecond, 0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond, 1: time.Second} {
		if got := before.quantile(q); (got - want).Abs() > want*4/100 {
			t.Errorf("quantile %v is %s, expected about %s", q, got, want)
		}
	}
	if before.total != 1000 || before.max != time.Second {
		t.Errorf("%d durations, the longest of %s", before.total, before.max)
	}
	h.record(-time.Second)
	h.record(1000 * time.Hour)
	later := h.now().since(before)
	if later.total != 2 || later.quantile(0) != 0 || later.quantile(0.9) < time.Hour {
		t.Errorf("%d later, from %s to %s", later.total, later.quantile(0), later.quantile(0.9))
	}
	if q := new(distribution).quantile(0.5); q != 0 {
		t.Errorf("a quantile of nothing is %s", q)
	}
}

// Buckets follow each other without a gap, and hold what is in their middle.
func TestBuckets(t *testing.T) {
	last := 0
	for us := range 1 << 20 {
		b := bucket(time.Duration(us) * time.Microsecond)
		if b < last || b > last+1 {
			t.Fatalf("%d µs is in bucket %d, one less in %d", us, b, last)
		}
		last = b
	}
	for b := range 400 {
		if got := bucket(middle(b)); got != b {
			t.Errorf("the middle of bucket %d is in bucket %d", b, got)
		}
	}
}

func TestMeter(t *testing.T) {
	var m meter
	var h histogram
	at := func(p Phase, seconds, updates, delivered int) (float64, float64, uint64) {
		u, d, recent := m.add(sample{
			phase: p, at: time.Duration(seconds) * time.Second, updates: updates, delivered: delivered, propagation: h.now(),
		})
		return u, d, recent.total
	}
	check := func(what string, u, d float64, n uint64, wantU, wantD float64, wantN uint64) {
		t.Helper()
		if u != wantU || d != wantD || n != wantN {
			t.Errorf("%s: %v updates/s, %v delivered/s, %d times; expected %v, %v, %d", what, u, d, n, wantU, wantD, wantN)
		}
	}
	u, d, n := at(Updates, 0, 0, 100)
	check("the first sample", u, d, n, 0, 0, 0)
	h.record(time.Second)
	u, d, n = at(Updates, 5, 50, 600)
	check("after five seconds", u, d, n, 10, 100, 1)
	u, d, n = at(Updates, 10, 50, 600)
	check("after five more, in which nothing happened", u, d, n, 0, 0, 0)
	h.record(time.Second)
	u, d, n = at(Away, 11, 60, 700)
	check("a new phase", u, d, n, 0, 0, 0)
}
