package attack

import (
	"context"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/frames"
)

// again does something until ctx ends, at once again when it fails: an attacker does not give up.
func again(ctx context.Context, something func(context.Context) error) {
	const pause = time.Millisecond // so that a server that refuses is not only asked how fast it can refuse
	for ctx.Err() == nil {
		_ = something(ctx) // a refusal, which is what the server should do
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// connected does something on a connection of its own, which is closed afterwards.
func connected(addr string, something func(context.Context, *frames.Wire) error) func(context.Context) error {
	return func(ctx context.Context) error {
		w, err := frames.Dial(ctx, addr)
		if err != nil {
			return err
		}
		defer w.Close()
		stop := context.AfterFunc(ctx, w.Close)
		defer stop()
		go w.Read()
		return something(ctx, w)
	}
}
