package upstream

import (
	"testing"
	"testing/synctest"
	"time"
)

// A server may take one stream of a node only, and end the older one for a query. What ends for another reason counts for
// nothing, nor does a stream of a session that sent no query.
func TestQueriesThatCostStreams_SUR2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		query := func(by any) {
			t.Helper()
			if !a.begin(by, time.Now(), false) {
				t.Fatal("no query may be sent")
			}
			if a.begin(by, time.Now(), false) {
				t.Fatal("two queries at a time")
			}
			a.done()
		}
		lost := func(by any, refused, want bool) {
			t.Helper()
			if got := a.lose(by, refused); got != want {
				t.Errorf("found: %t", got)
			}
		}
		query("x")
		lost("x", true, false)
		lost("x", true, false) // it is the same query
		query("x")             // by chance it costs none
		time.Sleep(2 * endsApart)
		query("x")
		lost("x", false, false)
		lost("y", true, false)
		time.Sleep(2 * endsWithin)
		lost("x", true, false)
		query("x")
		lost("x", true, false)
		query("x")
		lost("x", true, true)
		if !a.due().IsZero() || a.begin("x", time.Now(), false) {
			t.Error("it is still asked")
		}
	})
}

// An answer, or a query, puts the next query off for a minute.
func TestQueriesAreRare_SUR2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		a.begin("x", time.Now(), false)
		a.done()
		if got := time.Until(a.due()); got != quietTime {
			t.Errorf("due in %v after a query", got)
		}
		time.Sleep(time.Second)
		a.hear(time.Now())
		if got := time.Until(a.due()); got != quietTime {
			t.Errorf("due in %v after an answer", got)
		}
	})
}
