//go:build linux

package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"runtime/metrics"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/clock"
)

// backend is a server while it runs.
type backend interface {
	// Addr is the address for clients, REST that for those that poll, Mutual that for those with certificates
	// (as that of [Process]), Admin that for operators, and Peers that for other relays; "" without one.
	Addr() string
	REST() string
	Mutual() string
	Admin() string
	Peers() string
	Update(typeURL string, item, revision int) error
	Stats() Stats
	// Close ends it, and waits for that.
	Close() error
}

var errStateless = errors.New("a relay has no resources of its own")

// open starts the server that a command asks for.
func open(ctx context.Context, c *command) (backend, error) {
	switch c.Kind {
	case Baseline:
		return openBaseline(ctx, c.Sets, c.Folder)
	case Linear:
		return openLinear(ctx, c.Sets)
	case Snapshot:
		return openSnapshot(ctx, c.Sets)
	case Relay:
		return openRelay(ctx, &c.RelayOptions, c.Folder)
	default:
		return nil, fmt.Errorf("there is no server %q", c.Kind)
	}
}

// Main is the child's side: it carries out commands from in until that ends, and
// answers each on out. Its error is that of the pipes, or of a server that could not be
// closed.
func Main(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	c := child{clock: clock.New()}
	defer func() {
		if c.server != nil {
			err = errors.Join(err, c.server.Close())
		}
	}()
	lines := bufio.NewScanner(in)
	answers := json.NewEncoder(out)
	for lines.Scan() {
		var order command
		if err := json.Unmarshal(lines.Bytes(), &order); err != nil {
			return fmt.Errorf("a command that cannot be read: %w", err)
		}
		answer, err := c.carryOut(ctx, &order)
		if err != nil {
			answer = reply{Error: err.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
	return lines.Err()
}

type child struct {
	server backend // nil until it is started
	clock  clock.Clock
}

func (c *child) carryOut(ctx context.Context, order *command) (reply, error) {
	if order.Op == opStart {
		if c.server != nil {
			return reply{}, errors.New("the server is started already")
		}
		server, err := open(ctx, order)
		if err != nil {
			return reply{}, err
		}
		c.server = server
		return reply{Addr: server.Addr(), REST: server.REST(), Mutual: server.Mutual(), Admin: server.Admin(), Peers: server.Peers()}, nil
	}
	if c.server == nil {
		return reply{}, errors.New("the server is not started")
	}
	switch order.Op {
	case opUpdate:
		began := c.clock.Now()
		err := c.server.Update(order.TypeURL, order.Item, order.Revision)
		return reply{Began: began, Ended: c.clock.Now()}, err
	case opChurn:
		return c.churn(ctx, order)
	case opStats:
		stats := c.server.Stats()
		stats.Allocated = allocated()
		return reply{Stats: stats}, nil
	case opFree:
		debug.FreeOSMemory()
		debug.FreeOSMemory() // what sync.Pools hold survives one collection
		return reply{}, nil
	default:
		return reply{}, fmt.Errorf("there is no operation %q", order.Op)
	}
}

// allocated is how many bytes the process allocated until now, those that are garbage
// included.
func allocated() int {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// churn makes updates when they are due, or as soon as the server lets it.
func (c *child) churn(ctx context.Context, order *command) (reply, error) {
	made := 0
	for n := range order.Updates {
		if c.clock.Now() > order.Limit {
			break
		}
		if !c.clock.Until(ctx, order.Start+int64(n)*order.Interval) {
			return reply{}, ctx.Err()
		}
		if err := c.server.Update(order.TypeURL, n%order.Items, n/order.Items+1); err != nil {
			return reply{}, err
		}
		made++
	}
	return reply{Began: order.Start, Ended: c.clock.Now(), Made: made}, nil
}
