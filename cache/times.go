package cache

import "time"

// sooner is the earlier of two times, where zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
