package hold

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var begin = time.Unix(1_000_000, 0)

func TestGuard_SUR3(t *testing.T) {
	g := Guard{Share: 0.5, AtLeast: 20, Hold: time.Minute}
	for _, c := range []struct {
		guard       Guard
		lost, of    int
		trips, most bool
	}{
		{g, 20, 20, true, true},
		{g, 20, 40, true, true},
		{g, 20, 41, false, false},
		{g, 19, 19, false, true},
		{g, 10, 1000, false, false},
		{g, 1, 1, false, true},
		{g, 0, 0, false, false},
		{g, -5, 20, false, false},
		{Guard{}, 20, 20, false, false},
		{Guard{AtLeast: 1, Hold: time.Minute}, 20, 20, false, false},
		{Guard{Share: 0.5, AtLeast: 1}, 20, 20, false, false},
	} {
		if is := c.guard.Trips(c.lost, c.of); is != c.trips {
			t.Errorf("%+v: %d of %d trips: %t", c.guard, c.lost, c.of, is)
		}
		if is := c.guard.Most(c.lost, c.of); is != c.most {
			t.Errorf("%+v: %d of %d are most: %t", c.guard, c.lost, c.of, is)
		}
	}
}

func TestWindow_SUR3(t *testing.T) {
	var w Window
	add := func(lost, gained, of int, at time.Duration, wantLost, wantOf int) {
		t.Helper()
		if l, o := w.Add(lost, gained, of, begin.Add(at), time.Time{}); l != wantLost || o != wantOf {
			t.Errorf("%d of %d are lost, want %d of %d", l, o, wantLost, wantOf)
		}
	}
	if w.Open(begin) {
		t.Error("a window is open before anything was lost")
	}
	add(5, 0, 100, 0, 5, 100)
	add(5, 2, 95, Burst/2, 8, 100)
	add(0, 8, 92, Burst-1, 0, 100)
	add(1, 0, 100, Burst, 1, 100)
	w = Window{}
	w.Add(5, 0, 100, begin, begin.Add(3*Burst))
	add(5, 0, 95, 2*Burst, 10, 100)
}

func TestClock_SUR3(t *testing.T) {
	var c Clock
	at := func(d time.Duration) time.Time { return begin.Add(d) }
	if c.Runs() || c.Lately(begin) || !c.Until().IsZero() {
		t.Error("a clock runs that was not started")
	}
	c.Hold(begin, time.Minute)
	if !c.Runs() || !c.Until().Equal(at(time.Minute)) || !c.Lately(at(Burst)) || c.Lately(at(Burst+1)) {
		t.Errorf("%+v", c)
	}
	c.Hold(at(50*time.Second), time.Minute)
	if !c.Until().Equal(at(110*time.Second)) || !c.Lately(at(time.Minute)) {
		t.Errorf("%+v", c)
	}
	if c.Hold(at(100*time.Second), time.Minute); !c.Until().Equal(at(2 * time.Minute)) {
		t.Errorf("losses that go on are held until %v", c.Until())
	}
}

// A loss that waits for others is held with them, and alone no longer than it waits.
func TestClockWaits_SUR3(t *testing.T) {
	var c Clock
	at := func(d time.Duration) time.Time { return begin.Add(d) }
	if c.Waits() {
		t.Error("a clock waits that was not started")
	}
	c.Wait(begin, at(time.Second))
	c.Wait(at(time.Millisecond), at(time.Hour))
	if !c.Runs() || !c.Waits() || c.Lately(begin) || !c.Until().Equal(at(time.Second)) {
		t.Errorf("%+v", c)
	}
	c.Hold(at(time.Millisecond), time.Minute)
	if c.Waits() || !c.Lately(at(time.Second)) || !c.Until().Equal(at(time.Minute+time.Millisecond)) {
		t.Errorf("%+v", c)
	}
	if c.Wait(at(time.Second), at(time.Hour)); !c.Until().Equal(at(time.Minute + time.Millisecond)) {
		t.Errorf("what waits is held until %v", c.Until())
	}
}

func TestGuardWaits_SUR3(t *testing.T) {
	g := Guard{Share: 0.5, AtLeast: 20, Hold: time.Minute}
	for _, c := range []struct {
		guard    Guard
		lost, of int
		waits    bool
	}{
		{g, 1, 1, true},
		{g, 10, 19, true},
		{g, 9, 19, false},
		{g, 19, 20, false},
		{g, 0, 1, false},
		{Guard{AtLeast: 20}, 1, 1, false},
	} {
		if is := c.guard.Waits(c.lost, c.of); is != c.waits {
			t.Errorf("%+v: %d of %d waits: %t", c.guard, c.lost, c.of, is)
		}
	}
}

func TestNames_SUR3(t *testing.T) {
	var n Names
	content := words.Resource("type.googleapis.com/x.Y", "b@1")
	n.Drop("a")
	n.Put("c", Fate{Name: "c", Loss: true})
	n.Put("b", Fate{Resource: content})
	n.Put("a", Fate{Name: "a", Loss: true})
	n.Put("b", Fate{Resource: content, Loss: true})
	if n.Len() != 3 || n.Losses() != 3 {
		t.Errorf("%d names, %d losses", n.Len(), n.Losses())
	}
	if f, held := n.Get("b"); !held || f.Removes() || f.Resource != content {
		t.Errorf("b is held: %t, %+v", held, f)
	}
	n.Put("b", Fate{Resource: content})
	if n.Losses() != 2 {
		t.Errorf("%d losses", n.Losses())
	}
	taken := n.Take()
	if n.Len() != 0 || n.Losses() != 0 {
		t.Error("what was taken is held")
	}
	var order []string
	for key := range taken {
		order = append(order, key)
	}
	if !slices.Equal(order, []string{"b", "a", "c"}) {
		t.Errorf("released in the order %q", order)
	}
	for range taken {
		break
	}
}
