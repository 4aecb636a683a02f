//go:build linux

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/baseline"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
)

// loopback is where all servers listen: on a free port.
const loopback = "127.0.0.1:0"

func listen(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	lis, err := config.Listen(ctx, "tcp4", loopback)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return lis, nil
}

// serving is a server's listener and the goroutine that serves it.
type serving struct {
	lis     net.Listener
	running sync.WaitGroup
	err     error // of serve, once running is done
}

func (s *serving) serve(ctx context.Context, serve func(net.Listener) error) error {
	lis, err := listen(ctx)
	if err != nil {
		return err
	}
	s.on(lis, serve)
	return nil
}

func (s *serving) on(lis net.Listener, serve func(net.Listener) error) {
	s.lis = lis
	s.running.Go(func() {
		// The order to end may come before the goroutine.
		if err := serve(lis); !errors.Is(err, grpc.ErrServerStopped) {
			s.err = err
		}
	})
}

// Addr implements backend.
func (s *serving) Addr() string { return s.lis.Addr().String() }

// Admin implements backend.
func (*serving) Admin() string { return "" }

// Peers implements backend.
func (*serving) Peers() string { return "" }

// REST implements backend.
func (*serving) REST() string { return "" }

// Mutual implements backend.
func (*serving) Mutual() string { return "" }

type baselineServer struct {
	serving
	polls    serving
	secured  serving
	mutual   *mutual
	baseline *baseline.Server
}

func openBaseline(ctx context.Context, sets []content.Set, folder string) (backend, error) {
	server, err := baseline.New(sets...)
	if err != nil {
		return nil, err
	}
	f := &baselineServer{baseline: server}
	if f.mutual, err = openMutual(ctx, folder); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.secured.on(tls.NewListener(f.mutual.lis, f.mutual.config()), server.Serve)
	if err := errors.Join(f.serve(ctx, server.Serve), f.polls.serve(ctx, server.ServeREST)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Mutual implements backend.
func (f *baselineServer) Mutual() string { return f.mutual.address() }

// Peers implements backend: handshakes without a certificate fail there, too.
func (f *baselineServer) Peers() string { return f.mutual.lis.Addr().String() }

// REST implements backend.
func (f *baselineServer) REST() string { return f.polls.Addr() }

// Update implements backend.
func (f *baselineServer) Update(typeURL string, item, revision int) error {
	return f.baseline.Update(typeURL, item, revision)
}

// Stats implements backend.
func (f *baselineServer) Stats() Stats {
	return Stats{Streams: f.baseline.Streams(), Requests: f.baseline.Requests()}
}

// Close implements backend.
func (f *baselineServer) Close() error {
	f.baseline.Close()
	f.running.Wait()
	f.polls.running.Wait()
	f.secured.running.Wait()
	return errors.Join(f.err, f.polls.err, f.secured.err)
}
