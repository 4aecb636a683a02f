// Package notify tells a goroutine that there is something to do, once however often it is told, and
// finds out whether a goroutine does anything. Of several times at which there is something to do it finds
// the first.
package notify

import (
	"context"
	"time"
)

// New returns a channel with one slot. A value in it says that there is something to do.
func New() chan struct{} { return make(chan struct{}, 1) }

// Signal puts a value into a channel with one slot, unless there is one. It does not block.
func Signal(slot chan<- struct{}) {
	select {
	case slot <- struct{}{}:
	default: // there is one
	}
}

// Deliver waits until a loop has taken a value from a channel, or ctx ends, or over is closed (SUR-5). gone is
// asked once a second whether the loop is to end, so that it need not turn.
func Deliver[T any](ctx context.Context, loop chan<- T, value T, over <-chan struct{}, gone func() bool) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case loop <- value:
			return
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-look.C:
			if gone() {
				return
			}
		}
	}
}
