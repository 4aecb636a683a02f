package integration

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// faults are what the relay is known to do wrong: the requirement and what happens
// instead, by the name of the case that shows it. Such a case is expected to fail.
// It fails the test when it passes: then it has to come off the list, which must
// only become shorter.
type faults map[string]string

// among fails the test for each fault whose case does not exist: nothing would
// tell when it is mended.
func (f faults) among(t testing.TB, cases []string) {
	t.Helper()
	for name := range f {
		if !slices.Contains(cases, name) {
			t.Errorf("there is no case %q among %q", name, cases)
		}
	}
}

// run runs a case.
func (f faults) run(t testing.TB, r *report, name string, play func(testing.TB)) {
	t.Helper()
	fault, known := f[name]
	if !known {
		play(t)
		return
	}
	failures := attempt(t, play)
	if len(failures) == 0 {
		t.Errorf("%s is mended: take it off the list of known faults (%s)", name, fault)
		return
	}
	t.Logf("known fault, %s: %s", fault, failures[0])
	r.add("KNOWN FAULT", name, fault)
}

// trial is a test that may fail: it keeps its failures for itself.
type trial struct {
	testing.TB

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// trialPatience is how long a trial waits for what is expected never to happen.
const trialPatience = 3 * time.Second

// patienceOf is how long a test waits for what must happen.
func patienceOf(t testing.TB) time.Duration {
	t.Helper()
	if _, ok := t.(*trial); ok {
		return trialPatience
	}
	return patience
}

// attempt runs a trial to its end, and gives its failures.
func attempt(t testing.TB, play func(testing.TB)) []string {
	t.Helper()
	a := &trial{TB: t}
	var playing sync.WaitGroup
	playing.Go(func() { // which FailNow ends
		defer a.cleanup()
		play(a)
	})
	playing.Wait()
	return a.failures
}

// cleanup does what the trial left for its end, the last first.
func (a *trial) cleanup() {
	for len(a.cleanups) > 0 {
		last := len(a.cleanups) - 1
		next := a.cleanups[last]
		a.cleanups = a.cleanups[:last]
		next()
	}
}

func (a *trial) fail(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = append(a.failures, strings.TrimSuffix(text, "\n"))
}

// Cleanup implements testing.TB, and the methods below do.
func (a *trial) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }

func (a *trial) Error(args ...any)                 { a.fail(fmt.Sprintln(args...)) }
func (a *trial) Errorf(format string, args ...any) { a.fail(fmt.Sprintf(format, args...)) }
func (a *trial) Fail()                             { a.fail("failed") }

func (a *trial) Fatal(args ...any) {
	a.Error(args...)
	runtime.Goexit()
}

func (a *trial) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	runtime.Goexit()
}

func (a *trial) FailNow() {
	a.Fail()
	runtime.Goexit()
}

func (a *trial) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.failures) > 0
}

// TestTrial holds a trial to what a test does: its failures stay its own, FailNow
// ends it, and it cleans up after itself.
func TestTrial(t *testing.T) {
	var order []string
	failures := attempt(t, func(t testing.TB) {
		t.Helper()
		t.Cleanup(func() { order = append(order, "first") })
		t.Cleanup(func() { order = append(order, fmt.Sprint("second, failed: ", t.Failed())) })
		t.Error("goes", "on")
		end := t.Fatalf // by another name: a linter knows that nothing follows t.Fatalf
		end("%s", "ends")
		t.Error("too late")
	})
	if want := []string{"goes on", "ends"}; !slices.Equal(failures, want) {
		t.Errorf("the failures are %q, expected %q", failures, want)
	}
	if want := []string{"second, failed: true", "first"}; !slices.Equal(order, want) {
		t.Errorf("cleaned up %q, expected %q", order, want)
	}
	if failures := attempt(t, func(testing.TB) {}); failures != nil {
		t.Errorf("a trial without failures has %q", failures)
	}
}

// TestFaults holds lists of known faults to being able to shrink only.
func TestFaults(t *testing.T) {
	known, r := faults{"listed": "ABC-1: something"}, new(report)
	passes := func(testing.TB) {}
	fails := func(t testing.TB) {
		t.Helper()
		t.Error("failed")
	}
	for _, c := range []struct {
		name  string
		play  func(testing.TB)
		wrong bool
	}{
		{"listed", fails, false},
		{"listed", passes, true}, // it must come off the list
		{"other", fails, true},
		{"other", passes, false},
	} {
		failures := attempt(t, func(t testing.TB) {
			t.Helper()
			known.run(t, r, c.name, c.play)
		})
		if (len(failures) > 0) != c.wrong {
			t.Errorf("%+v: the failures are %q", c, failures)
		}
	}
	if len(r.lines) != 1 || !strings.Contains(r.lines[0], known["listed"]) {
		t.Errorf("the report is %q, expected one known fault", r.lines)
	}
	for _, cases := range [][]string{{"other"}, {"other", "listed"}} {
		failures := attempt(t, func(t testing.TB) {
			t.Helper()
			known.among(t, cases)
		})
		if (len(failures) > 0) == slices.Contains(cases, "listed") {
			t.Errorf("among %q: the failures are %q", cases, failures)
		}
	}
}
