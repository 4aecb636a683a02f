package notify_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// However often it is told, the goroutine looks once.
func TestSignal(t *testing.T) {
	slot := notify.New()
	if len(slot) != 0 {
		t.Fatal("a new channel has a value")
	}
	for range 3 {
		notify.Signal(slot)
	}
	if n := len(slot); n != 1 {
		t.Fatalf("three calls are %d values, want 1", n)
	}
	<-slot
	notify.Signal(slot)
	if len(slot) != 1 {
		t.Fatal("the call after a look is lost")
	}
}

// A visit ends when the loop turns, or need not turn any more.
func TestTurn_SUR5(t *testing.T) {
	for name, end := range map[string]func(loop chan int, cancel func(), over chan struct{}, gone *atomic.Bool){
		"the loop turns":  func(loop chan int, _ func(), _ chan struct{}, _ *atomic.Bool) { <-loop },
		"the context":     func(_ chan int, cancel func(), _ chan struct{}, _ *atomic.Bool) { cancel() },
		"the loop's end":  func(_ chan int, _ func(), over chan struct{}, _ *atomic.Bool) { close(over) },
		"the loop's life": func(_ chan int, _ func(), _ chan struct{}, gone *atomic.Bool) { gone.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				loop, over, ended, gone := make(chan int), make(chan struct{}), make(chan struct{}), new(atomic.Bool)
				go func() {
					defer close(ended)
					notify.Deliver(ctx, loop, 1, over, gone.Load)
				}()
				<-time.After(time.Minute)
				synctest.Wait()
				select {
				case <-ended:
					t.Fatal("SUR-5: it ends though the loop stands still")
				default:
				}
				end(loop, cancel, over, gone)
				<-ended
			})
		})
	}
}
