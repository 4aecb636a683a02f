//go:build linux

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/relay"
)

// relayServer is a whole relay, as the command serve runs it.
type relayServer struct {
	xds, admin net.Listener
	cancel     context.CancelFunc
	running    sync.WaitGroup
	err        error // of Run, once running is done
}

// openRelay starts a relay with the default configuration, but for four things: all
// clients share one scope, which is what a relay is for; a collection counts as complete
// a second after its first answer; the end is not spread over time; and warnings are not
// logged, such as the one that clients who share differ in their node's id.
func openRelay(ctx context.Context, upstream string) (backend, error) {
	cfg := config.Default()
	cfg.Aggregation.Otherwise = config.Share
	cfg.Server.Drain = 0
	cfg.Log.Level = config.LevelError
	u := config.DefaultUpstream()
	u.Name, u.Default, u.Endpoints = "plane", true, [][]string{{upstream}}
	u.Settle = config.Duration(time.Second)
	cfg.Upstreams = []config.Upstream{u}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("the relay's configuration: %w", err)
	}
	r := &relayServer{}
	var err error
	if r.xds, err = listen(ctx); err != nil {
		return nil, err
	}
	if r.admin, err = listen(ctx); err != nil {
		return nil, errors.Join(err, r.xds.Close())
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: cfg.Log.Level.Slog()}))
	server, err := relay.New(cfg, relay.Options{Log: log, Version: "bench"})
	if err != nil {
		return nil, errors.Join(err, r.xds.Close(), r.admin.Close())
	}
	ctx, r.cancel = context.WithCancel(ctx)
	force := make(chan struct{})
	close(force)
	r.running.Go(func() { r.err = server.Run(ctx, force, r.xds, r.admin) })
	return r, nil
}

// Addr implements backend.
func (r *relayServer) Addr() string { return r.xds.Addr().String() }

// Admin implements backend.
func (r *relayServer) Admin() string { return r.admin.Addr().String() }

// Update implements backend.
func (*relayServer) Update(string, int, int) error { return errStateless }

// Stats implements backend.
func (*relayServer) Stats() Stats { return Stats{} }

// Close implements backend.
func (r *relayServer) Close() error {
	r.cancel()
	r.running.Wait()
	return r.err
}
