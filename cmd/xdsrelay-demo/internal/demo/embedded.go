package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/relay"
)

// embedded is the relay, in this process.
type embedded struct {
	xds, admin string // addresses
	cancel     context.CancelFunc
	running    sync.WaitGroup
	err        error // of its end, if close asked for that; read after running
}

// relayConfig is the relay's configuration: one control plane, which all clients
// share, and waits that fit into the demo.
func relayConfig(o Options, controlPlane, xds, admin string) (*config.Config, error) {
	c := config.Default()
	c.Server.Listen, c.Admin.Listen = xds, admin
	c.Server.Drain = 0 // the clients have gone before it does
	u := config.DefaultUpstream()
	u.ResponseTimeout = 0 // there is one server, and what is counted is what clients make the relay ask
	u.Name, u.Default, u.Endpoints = "demo", true, [][]string{{controlPlane}}
	longest := min(max(o.Duration/60, 50*time.Millisecond), time.Second)
	u.Backoff = config.Backoff{Base: config.Duration(min(100*time.Millisecond, longest)), Max: config.Duration(longest)}
	c.Upstreams = []config.Upstream{u}
	c.Aggregation.Otherwise = config.Share
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// startRelay runs a relay in front of a control plane. failed is called if it
// ends before close.
func startRelay(ctx context.Context, o Options, controlPlane string, failed func(error)) (_ *embedded, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("relay: %w", err)
		}
	}()
	var lc net.ListenConfig
	xds, err := lc.Listen(ctx, "tcp", addressOr(o.Relay))
	if err != nil {
		return nil, err
	}
	admin, err := lc.Listen(ctx, "tcp", addressOr(o.Admin))
	if err != nil {
		return nil, errors.Join(err, xds.Close())
	}
	e := &embedded{xds: xds.Addr().String(), admin: admin.Addr().String()}
	cfg, err := relayConfig(o, controlPlane, e.xds, e.admin)
	if err != nil {
		return nil, errors.Join(err, xds.Close(), admin.Close())
	}
	r, err := relay.New(cfg, relay.Options{Version: o.Version})
	if err != nil {
		return nil, errors.Join(err, xds.Close(), admin.Close())
	}
	ctx, e.cancel = context.WithCancel(ctx)
	e.running.Go(func() {
		err := r.Run(ctx, nil, xds, admin)
		if ctx.Err() == nil {
			failed(err)
			return
		}
		e.err = err
	})
	return e, nil
}

// close ends the relay and waits for it.
func (e *embedded) close() error {
	e.cancel()
	e.running.Wait()
	return e.err
}
