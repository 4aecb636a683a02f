package admin_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// The last hundred events are remembered, the last first. A file that cannot be used is read again and again: that is one event.
func TestEventsOfOperators(t *testing.T) {
	var e admin.Events
	if none := e.Since(time.Time{}); none == nil || len(none) != 0 {
		t.Errorf("before the first: %+v, which is null in JSON", none)
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 150 {
		e.Add(admin.Event{At: start.Add(time.Duration(i) * time.Second), Kind: "hold", Text: fmt.Sprint(i)})
	}
	for range 3 {
		e.Add(admin.Event{At: start.Add(time.Hour), Kind: "reload failed", Text: "x.yaml:1: bad"})
	}
	all := e.Since(start)
	if len(all) != 100 || all[0].Kind != "reload failed" || all[1].Text != "149" || all[99].Text != "51" {
		t.Errorf("%d events, from %+v to %+v", len(all), all[0], all[len(all)-1])
	}
	if late := e.Since(start.Add(148 * time.Second)); len(late) != 3 {
		t.Errorf("since a time: %+v", late)
	}
}
