package delivery

import "testing"

// Subscriptions that ended leave the queue once there are enough of them, and they are the most (LIM-1).
func TestNameQueueEnds_LIM1(t *testing.T) {
	for _, tc := range []struct{ names, at int }{ // at: with so many ended they leave; 0: never
		{minClean - 1, 0},
		{minClean, minClean},
		{minClean + 8, minClean},
		{2*minClean - 2, minClean},
		{2 * minClean, minClean + 1},
		{4 * minClean, 2*minClean + 1},
	} {
		var q nameQueue
		all := make([]nameSub, tc.names)
		for i := range all {
			q.add(&all[i])
		}
		for i := range all {
			all[i].ended = true
			q.end()
			want := tc.names
			if i+1 == tc.at {
				want = tc.names - tc.at
			}
			if len(q.names) != want {
				t.Errorf("of %d names %d ended: %d are in the queue, want %d", tc.names, i+1, len(q.names), want)
			}
			if want < tc.names || len(q.names) < tc.names {
				break
			}
		}
	}
}
