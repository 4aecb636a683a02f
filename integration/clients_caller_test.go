package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// rpcTimeout is the deadline of each RPC: an RPC that waits for configuration
// must fail before the test's patience ends, to be seen.
const rpcTimeout = 10 * time.Second

// rpcClient is a gRPC client, of any implementation, with a channel for each xds://
// target.
type rpcClient interface {
	// call makes one RPC, which does not wait for a channel that is in failure.
	// Calls to one target are made one at a time.
	call(target string) outcome
	// version is the implementation's own.
	version() string
	// close ends the channels and all that belongs to them. Closing again does
	// nothing.
	close()
}

// outcome is what came of an RPC.
type outcome struct {
	Code    codes.Code `json:"code"`
	Message string     `json:"message"`
	Backend string     `json:"backend"` // which one answered
}

// caller makes RPCs one after the other from its start to its end, so that a
// moment in which RPCs fail is not missed.
type caller struct {
	client  rpcClient
	target  string
	stop    context.CancelFunc
	calling sync.WaitGroup

	mu     sync.Mutex
	begun  int
	done   int
	lastBy map[string]int // number of the last RPC that a backend answered
	failed []string
}

// newCaller starts calling. When the test ends, no RPC may have failed.
func newCaller(t testing.TB, client rpcClient, target string) *caller {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	c := &caller{client: client, target: target, stop: stop, lastBy: make(map[string]int)}
	c.calling.Go(func() { c.callOn(ctx) })
	t.Cleanup(func() { c.end(t) })
	return c
}

func (c *caller) callOn(ctx context.Context) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		c.mu.Lock()
		c.begun++
		c.mu.Unlock()
		c.note(c.client.call(c.target))
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (c *caller) note(o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	if o.Code == codes.OK {
		c.lastBy[o.Backend] = c.done
		return
	}
	c.failed = append(c.failed, fmt.Sprintf("RPC %d: %v: %s", c.done, o.Code, o.Message))
}

// end stops calling and closes the client.
func (c *caller) end(t testing.TB) {
	t.Helper()
	c.stop()
	c.calling.Wait()
	c.client.close()
	if n := len(c.failed); n > 0 {
		t.Errorf("%d of %d RPCs failed, first %s", n, c.done, c.failed[0])
	}
}

// await waits until a backend has answered an RPC that began after now.
func (c *caller) await(t testing.TB, backend string) {
	t.Helper()
	c.mu.Lock()
	from := c.begun
	c.mu.Unlock()
	waitFor(t, "an answer of backend "+backend, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.lastBy[backend] > from
	})
}

// stays waits for more RPCs, all of which one backend must answer.
func (c *caller) stays(t testing.TB, backend string) {
	t.Helper()
	const more = 50
	c.mu.Lock()
	from := c.begun
	c.mu.Unlock()
	waitFor(t, fmt.Sprintf("%d more RPCs", more), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.done >= from+more
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, last := range c.lastBy {
		if other != backend && last > from {
			t.Errorf("backend %s answered RPC %d, after %s was the only one from RPC %d", other, last, backend, from)
		}
	}
}
