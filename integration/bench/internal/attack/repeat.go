package attack

import (
	"context"
	"net"
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

// own connects from an address of the attacker's own. Nothing but address and identity tells one client from
// the others, and a server cannot be fair to those that it cannot tell apart.
func own() *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
}

// connected does something on a connection of its own, which is closed afterwards.
func connected(addr string, something func(context.Context, *frames.Wire) error) func(context.Context) error {
	return over(func(ctx context.Context) (net.Conn, error) { return own().DialContext(ctx, "tcp", addr) }, something)
}

// over is connected over what dial gives.
func over(dial func(context.Context) (net.Conn, error), something func(context.Context, *frames.Wire) error) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := dial(ctx)
		if err != nil {
			return err
		}
		w, end, err := frames.Over(conn)
		if err != nil {
			return err
		}
		defer end()
		stop := context.AfterFunc(ctx, w.Close)
		defer stop()
		return something(ctx, w)
	}
}
