// Package wait lets tests of real processes wait, up to a limit: for a condition that
// nobody announces, which it asks again and again, or for what ends a context.
//
// Limits count the time in which the test itself could run. A machine that stops, or that
// has no processor for the test, stops what is waited for as well.
package wait

import (
	"context"
	"sync"
	"time"
)

const (
	// Interval is the shortest time between two looks at a condition.
	Interval = 10 * time.Millisecond
	// longest is the most of a look that counts, and the longest pause after one.
	longest = time.Second
	// step is the time between two looks at the clock of a context.
	step = 50 * time.Millisecond
)

// counted is how much of a pause counts that ended later than it should have.
func counted(pause, took time.Duration) time.Duration { return min(took, 2*pause) }

// Until asks cond until it holds, for at most limit. It returns how long that took
// and whether cond held in the end. cond is asked at least once. A look that takes
// long makes the next one wait, so that looking leaves most of the machine to what is
// looked at.
func Until(limit time.Duration, cond func() bool) (took time.Duration, held bool) {
	begin, spent := time.Now(), time.Duration(0)
	for {
		look := time.Now()
		if cond() {
			return time.Since(begin), true
		}
		looked := min(time.Since(look), longest)
		if spent += looked; spent >= limit {
			return time.Since(begin), false
		}
		pause, from := min(max(Interval, 2*looked), longest), time.Now()
		<-time.After(pause)
		spent += counted(pause, time.Since(from))
	}
}

// Holds asks cond for the whole of span. It returns when cond first failed, and
// whether it held all the time.
func Holds(span time.Duration, cond func() bool) (after time.Duration, held bool) {
	after, failed := Until(span, func() bool { return !cond() })
	return after, !failed
}

// Context gives a context that ends after limit with [context.DeadlineExceeded]. The
// caller has to call cancel.
func Context(parent context.Context, limit time.Duration) (ctx context.Context, cancel func()) {
	ctx, end := context.WithCancelCause(parent)
	var counting sync.WaitGroup
	counting.Go(func() {
		for spent := time.Duration(0); spent < limit; {
			pause, from := min(step, limit-spent), time.Now()
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
				spent += counted(pause, time.Since(from))
			}
		}
		end(context.DeadlineExceeded)
	})
	return ctx, func() {
		end(nil)
		counting.Wait()
	}
}
