package load

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// crowded plays the processors: each look finds so many goroutines that waited, late ones among them.
type crowded struct {
	mu    sync.Mutex
	waits waits
	each  waits
	looks int
}

func (c *crowded) read() waits {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	c.waits.all += c.each.all
	c.waits.late += c.each.late
	return c.waits
}

// becomes has the next looks find other waits.
func (c *crowded) becomes(each waits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.each = each
}

var (
	calm = waits{all: 1000, late: 100}
	busy = waits{all: 1000, late: 101}
	idle = waits{all: fewestWaits - 1, late: fewestWaits - 1}
)

// nothing is done beside a scope that waits.
func nothing(context.Context) {}

// beginners are scopes that begin.
type beginners struct {
	*testing.T

	admission *Admission
	load      crowded
	scopes    sync.WaitGroup
	ctx       context.Context
	leave     context.CancelFunc

	mu     sync.Mutex
	begun  []From // where those came from that began, in order
	failed int
}

func newBeginners(t *testing.T, each waits) *beginners {
	t.Helper()
	b := &beginners{T: t, admission: newAdmission(nil, nil, 4)}
	b.load.becomes(each)
	b.admission.scopes.read = b.load.read
	b.ctx, b.leave = context.WithCancel(t.Context())
	t.Cleanup(func() { b.leave(); b.scopes.Wait() })
	return b
}

// come has n scopes of a party wait, in order.
func (b *beginners) come(n int, from From) {
	for range n {
		b.scopes.Go(func() {
			err := b.admission.Begin(b.ctx, from, nothing)
			b.mu.Lock()
			defer b.mu.Unlock()
			if err != nil {
				b.failed++
				return
			}
			b.begun = append(b.begun, from)
		})
		synctest.Wait()
	}
}

// after waits, and tells where the scopes came from that began since the last call.
func (b *beginners) after(d time.Duration) []From {
	<-time.After(d)
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	begun := b.begun
	b.begun = nil
	return begun
}

// While processors are free scopes begin at a pace that grows, without a limit to what it comes to.
func TestScopesOfCalmRelay_LIM1(t *testing.T) {
	for _, load := range []waits{calm, idle} {
		synctest.Test(t, func(t *testing.T) {
			b := newBeginners(t, load)
			const all = 10_000
			b.come(all, From{Party: "fleet"})
			if n := len(b.after(0)); n != scopesAtOnce {
				t.Errorf("%d scopes began at once, want %d", n, scopesAtOnce)
			}
			first := len(b.after(time.Second))
			if first < scopesFirst {
				t.Errorf("%d scopes in the first second, want %d at least", first, scopesFirst)
			}
			if second := len(b.after(time.Second)); second <= first {
				t.Errorf("%d scopes in the second second, %d in the first one", second, first)
			}
			b.after(20 * time.Second)
			if n := b.admission.Status().Waiting[Scope]; n != 0 || b.failed != 0 {
				t.Errorf("%d of %d scopes wait, %d failed", n, all, b.failed)
			}
		})
	}
}

// While goroutines wait for processors one address with thousands of scopes gets few of them, however long it
// waits, and those of others begin before its own.
func TestScopesOfBusyRelay_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeginners(t, busy)
		b.come(10_000, From{Party: "attacker"})
		if n := len(b.after(time.Second)); n > scopesFirst/4 {
			t.Errorf("%d scopes began in the first second", n)
		}
		if n := len(b.after(10 * time.Second)); n < 8*scopesLeast || n > 11*scopesLeast {
			t.Errorf("%d scopes began in ten seconds, want about %d: nobody waits for ever", n, 10*scopesLeast)
		}
		b.come(1, From{Party: "another"})
		if !slices.Contains(b.after(2*time.Second/scopesLeast), From{Party: "another"}) {
			t.Error("a client of another address waits behind the attacker's scopes")
		}
		b.load.becomes(calm)
		b.after(time.Minute)
		if n := b.admission.Status().Waiting[Scope]; n != 0 {
			t.Errorf("%d scopes wait though processors are free", n)
		}
	})
}

// However busy the processors are, the next scope of each address begins within a minute, and not all of them at its end.
// One address with thousands of scopes makes the pace no quicker.
func TestScopesOfManyAddresses_LIM1_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const fleet, each = 3000, 10 * time.Second
		b := newBeginners(t, busy)
		b.come(5000, From{Party: "attacker"})
		b.after(time.Minute)
		for i := range fleet {
			b.come(1, From{Party: i})
		}
		of := func(begun []From) (fleet, attacker int) {
			for _, from := range begun {
				if from.Party == "attacker" {
					attacker++
				} else {
					fleet++
				}
			}
			return fleet, attacker
		}
		left := fleet
		for range scopesWait / each {
			n, attacker := of(b.after(each))
			if n > 2*fleet/int(scopesWait/each) {
				t.Errorf("%d scopes of %d began within %v", n, fleet, each)
			}
			if most := int(2 * each.Seconds() * scopesLeast); attacker > most {
				t.Errorf("%d of the attacker's scopes began within %v, want %d at most", attacker, each, most)
			}
			left -= n
		}
		if left > 0 {
			t.Errorf("%d of %d addresses wait after a minute", left, fleet)
		}
		if _, n := of(b.after(each)); n > int(1.1*each.Seconds()*scopesLeast) {
			t.Errorf("%d of the attacker's scopes began when it waits alone", n)
		}
		// Those of whom nothing is known may all be one client.
		b.come(5000, From{})
		if n := len(b.after(each)); n > int(1.1*each.Seconds()*scopesLeast) {
			t.Errorf("%d scopes of unknown clients began within %v", n, each)
		}
	})
}

// The connections of one address take turns: who comes through the same balancer does not wait for all of an attacker's
// scopes.
func TestScopesOfConnections_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeginners(t, busy)
		b.come(1000, From{Party: "balancer", Connection: "attacker"})
		b.after(2 * time.Second)
		b.come(1, From{Party: "balancer", Connection: "other"})
		if !slices.Contains(b.after(2*time.Second/scopesLeast), From{Party: "balancer", Connection: "other"}) {
			t.Error("the other connection's scope waits behind the attacker's")
		}
	})
}

// A scope that ends while it waits leaves the queue, and the pace is not looked at when nobody waits.
func TestScopesThatEnd_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeginners(t, busy)
		b.come(1000, From{Party: "attacker"})
		b.after(time.Second)
		waiting := b.admission.Status().Waiting[Scope]
		b.leave()
		b.after(time.Second)
		if n := b.admission.Status().Waiting[Scope]; waiting == 0 || b.failed != waiting || n != 0 {
			t.Errorf("%d scopes waited; %d ended and %d wait", waiting, b.failed, n)
		}
		if err := b.admission.Begin(b.ctx, From{}, nothing); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		looks := b.load.looks
		b.after(time.Minute)
		if b.load.looks != looks {
			t.Errorf("%d looks though nobody waits", b.load.looks-looks)
		}
	})
}

// After a time in which nobody waited the first pace counts again at most: what processors can do now is not known.
func TestScopesAfterRest_LIM2(t *testing.T) {
	for _, before := range []waits{calm, busy} {
		synctest.Test(t, func(t *testing.T) {
			b := newBeginners(t, before)
			b.come(5000, From{Party: "fleet"})
			b.after(5 * time.Second)
			b.load.becomes(calm)
			b.after(time.Minute)
			b.come(500, From{Party: "fleet"})
			if n, first := len(b.after(100*time.Millisecond)), scopesAtOnce+scopesFirst/10; n < first/2 || n > 2*first {
				t.Errorf("%d scopes began within 100 ms, want about %d", n, first)
			}
		})
	}
}

// Without admission no scope waits, and those that wait begin when it is turned off.
func TestScopesWithoutAdmission_LIM1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeginners(t, busy)
		b.come(100, From{Party: "fleet"})
		b.admission.SetOff(true)
		b.come(100, From{Party: "fleet"})
		if n := len(b.after(0)); n != 200 {
			t.Errorf("%d of 200 scopes began", n)
		}
		var none *Admission
		if err := none.Begin(b.ctx, From{}, nothing); err != nil {
			t.Error(err)
		}
	})
}

// What the runtime says of this process grows, and late waits are among all.
func TestReadWaits_LIM2(t *testing.T) {
	before := readWaits()
	for range 1000 {
		done := make(chan struct{})
		go close(done)
		<-done
	}
	after := readWaits()
	if after.all <= before.all || after.late < before.late || after.late > after.all {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
