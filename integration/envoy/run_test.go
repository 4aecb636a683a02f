package envoy

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

// play is one scenario with one form on one side. What the scenario finds wrong is
// kept as a fault, and not as a failure of the test: whether it is one is decided
// in the end, by the lists of what is known.
type play struct {
	t *testing.T
	// slack multiplies what is allowed to take time: other plays, and other programs,
	// are on the machine. It is 1 where the play is known to fail, which would only
	// take longer.
	slack int

	mu     sync.Mutex
	faults []string
	notes  []string
}

// over ends a play early.
type over struct{}

// faultf notes that something is wrong. The play goes on.
func (p *play) faultf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// stopf notes that something is wrong without which the rest of the play says
// nothing, and ends it.
func (p *play) stopf(format string, args ...any) {
	p.faultf(format, args...)
	panic(over{})
}

// notef adds to what the report says about the play: a number that was measured.
func (p *play) notef(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

const (
	// busySlack is the slack on a machine that is not the test's alone.
	busySlack = 3
	// soakSlack is the slack where times are only reported. It leaves what never
	// happens a fault.
	soakSlack = 10
)

// within waits for a condition and notes a fault if it does not hold in time, give or
// take the slack. It returns how long it took.
func (p *play) within(limit time.Duration, what string, cond func() bool) (took time.Duration, held bool) {
	took, held = wait.Until(p.allowed(limit), cond)
	if !held {
		p.faultf("%s: not within %v", what, p.allowed(limit))
	}
	return took, held
}

// need is within for what the rest of the play builds on.
func (p *play) need(limit time.Duration, what string, cond func() bool) time.Duration {
	took, held := wait.Until(p.allowed(limit), cond)
	if !held {
		p.stopf("%s: not within %v", what, p.allowed(limit))
	}
	return took
}

// stays notes a fault if a condition does not hold for the whole of span.
func (p *play) stays(span time.Duration, what string, cond func() bool) {
	if after, held := wait.Holds(span, cond); !held {
		p.faultf("%s: not any more after %v", what, after.Round(time.Millisecond))
	}
}

// allowed is what a limit comes to on this machine.
func (p *play) allowed(limit time.Duration) time.Duration { return limit * time.Duration(p.slack) }

// run plays, and catches the end that stopf makes.
func (p *play) run(scenario func()) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(over); !ok {
				panic(r)
			}
		}
	}()
	scenario()
}

func (p *play) result() (faults, notes string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.faults, "; "), strings.Join(p.notes, ", ")
}
