package cache

import "testing"

// Results with anything in them are not empty, whatever else there is.
func TestResolvedEmpty(t *testing.T) {
	if r := new(Resolved); !r.Empty() {
		t.Error("nothing is something")
	}
	parts := []func(*Resolved){
		func(r *Resolved) { r.Found = make([]Found, 1) },
		func(r *Resolved) { r.Removed = make([]string, 1) },
		func(r *Resolved) { r.Failed = make([]Failure, 1) },
		func(r *Resolved) { r.Synced = make([]string, 1) },
		func(r *Resolved) { r.Late = make([]string, 1) },
	}
	for i, one := range parts {
		for n, other := range parts {
			r := new(Resolved)
			one(r)
			other(r)
			if r.Empty() {
				t.Errorf("results of kinds %d and %d count as nothing", i, n)
			}
		}
	}
}
