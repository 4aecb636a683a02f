// Package wait lets tests of real processes wait for a condition that nobody
// announces: it asks again and again, up to a limit.
package wait

import "time"

// Interval is the shortest time between two looks at a condition.
const Interval = 10 * time.Millisecond

// Until asks cond until it holds, for at most limit. It returns how long that took
// and whether cond held in the end. cond is asked at least once. A look that takes
// long makes the next one wait, so that looking leaves most of the machine to what is
// looked at.
func Until(limit time.Duration, cond func() bool) (took time.Duration, held bool) {
	begin := time.Now()
	for {
		look := time.Now()
		if cond() {
			return time.Since(begin), true
		}
		if took := time.Since(begin); took >= limit {
			return took, false
		}
		<-time.After(max(Interval, 2*time.Since(look)))
	}
}

// Holds asks cond for the whole of span. It returns when cond first failed, and
// whether it held all the time.
func Holds(span time.Duration, cond func() bool) (after time.Duration, held bool) {
	after, failed := Until(span, func() bool { return !cond() })
	return after, !failed
}
