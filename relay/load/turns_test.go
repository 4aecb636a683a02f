package load

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// However many works of one party wait, those of another one wait for no more than one of them.
func TestPartiesTakeTurns_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1)
		first, err := turns.Take(t.Context(), From{})
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		done := make(chan struct{})
		comes := func(party string, session int) {
			go func() {
				turn, err := turns.Take(t.Context(), From{Party: party, Connection: session})
				if err != nil {
					t.Error(err)
				}
				order = append(order, party)
				turn.Done()
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		const many = 100
		for i := range many {
			comes("many", i)
		}
		comes("one", 0)
		comes("one", 0)
		first.Done()
		for range many + 2 {
			<-done
		}
		if want := []string{"many", "one", "many", "one", "many"}; !slices.Equal(order[:len(want)], want) {
			t.Errorf("LIM-2: turns went to %v, want %v", order[:len(want)], want)
		}
	})
}

// A work that is given up while it waits takes no turn.
func TestTurnGivenUp_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1)
		first, err := turns.Take(t.Context(), From{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { _, err := turns.Take(ctx, From{}); ended <- err }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("LIM-2: a work that was given up is told %v", err)
		}
		first.Done()
		next, err := turns.Take(t.Context(), From{})
		if err != nil {
			t.Fatal(err)
		}
		next.Done()
	})
}

// A turn costs little while nobody waits: one is taken for each response of a control plane.
func TestTurnAllocates_LIM2(t *testing.T) {
	turns, from := newTurns(2), stranger()
	if n := testing.AllocsPerRun(1000, func() {
		turn, err := turns.Take(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		turn.Done()
	}); n > 2 {
		t.Errorf("a turn takes %v allocations", n)
	}
}
