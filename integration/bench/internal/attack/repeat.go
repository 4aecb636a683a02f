package attack

import (
	"context"
	"time"
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
