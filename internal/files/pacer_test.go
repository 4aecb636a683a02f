package files

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPacer(t *testing.T) {
	start := time.Now()
	p := NewPacer(time.Second)
	defer p.Stop()
	for i := range 60 {
		now := start.Add(time.Duration(i) * time.Second / 2)
		p.Trigger(now)
		if want := i >= 2*patience; p.Overdue(now) != want {
			t.Errorf("overdue %t after %s", !want, now.Sub(start))
		}
	}
	p.Done()
	now := start.Add(time.Hour)
	if p.Trigger(now); p.Overdue(now) {
		t.Error("overdue at once")
	}
}

// TestPollsPutNothingOff: files are looked at after the quiet time also where they are
// polled more often than that.
func TestPollsPutNothingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := NewPacer(time.Second)
		defer p.Stop()
		poll := time.NewTicker(time.Second / 4)
		defer poll.Stop()
		for {
			select {
			case <-poll.C:
				p.Tick(time.Now())
				continue
			case <-p.C():
			}
			if after := time.Since(start); after != time.Second*5/4 {
				t.Errorf("looked at after %s", after)
			}
			return
		}
	})
}
