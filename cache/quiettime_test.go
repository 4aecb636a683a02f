package cache

import "testing"

// A member that is not confirmed on one stream is not confirmed on the next one either (RES-14).
func TestQuietTimeDistrust_RES14(t *testing.T) {
	var q quietTime
	e := new(Entry)
	q.enter(e)
	q.distrust(e)
	q.distrust(e)
	if !q.isStale(e) || q.stale != 1 {
		t.Fatalf("it is stale: %t, of %d", q.isStale(e), q.stale)
	}
	q.doubt(e, func(*Entry) bool { return true })
	if !q.isStale(e) || q.stale != 1 {
		t.Errorf("on the next stream it is stale: %t, of %d", q.isStale(e), q.stale)
	}
}
