package gocontrolplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	extensionservice "github.com/envoyproxy/go-control-plane/envoy/service/extension/v3"
	listenerservice "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	routeservice "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	runtimeservice "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	secretservice "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// run is the control plane from a Start to a Stop.
type run struct {
	server  *grpc.Server
	cancel  context.CancelFunc // of the xDS server's context
	serving sync.WaitGroup
}

var errStarted = errors.New("the control plane is started already")

// Start listens on a TCP address and serves until Stop. Port 0 is replaced by a
// free one, see Addr, which stays the control plane's own until Close, as far as
// the system allows (port_linux.go). ctx bounds the call only.
func (c *ControlPlane) Start(ctx context.Context, address string) error {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	if c.run != nil {
		return errStarted
	}
	if c.port == nil || c.address != address {
		c.port.close()
		var err error
		if c.port, address, err = keepPort(address); err != nil {
			return fmt.Errorf("control plane: %w", err)
		}
	}
	listener, err := listen(ctx, address)
	if err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	return c.serveLocked(ctx, listener)
}

// inUse bounds how long listen waits for an address that is in use.
const inUse = 5 * time.Second

// listen listens on an address that is kept for the control plane. A program that this process starts
// holds copies of all sockets between fork and exec, those that are closed meanwhile too: then the
// address is in use for a moment.
func listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	for begin := time.Now(); ; {
		listener, err := config.Listen(ctx, "tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Since(begin) > inUse {
			return listener, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Millisecond):
		}
	}
}

// Restart starts a stopped control plane on the address where Start had it.
func (c *ControlPlane) Restart(ctx context.Context) error { return c.Start(ctx, c.Addr()) }

// Addr is the address of the last Start, with its port; "" before that.
func (c *ControlPlane) Addr() string {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	return c.address
}

// serveLocked serves; the caller holds lifecycle.
func (c *ControlPlane) serveLocked(ctx context.Context, listener net.Listener) error {
	live := c.caches()
	c.mu.Lock()
	err := live.load(c.state)
	if err == nil {
		c.live = live
	}
	c.mu.Unlock()
	if err != nil {
		return errors.Join(fmt.Errorf("control plane: %w", err), listener.Close())
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &run{
		server: grpc.NewServer(
			// Stop must not return before the callbacks have.
			grpc.WaitForHandlers(true),
			// As control planes do: gRPC's own default forbids pings more often than
			// every five minutes, and relays ping every minute.
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		),
		cancel: cancel,
	}
	server := serverv3.NewServer(ctx, live.cache(), c.recorder.callbacks())
	register(r.server, server)
	c.mu.Lock()
	c.fetch = server
	c.mu.Unlock()
	// An error of Accept ends it as Stop would; the clients see that it is gone.
	r.serving.Go(func() { _ = r.server.Serve(listener) })
	c.run, c.address = r, listener.Addr().String()
	return nil
}

// register has a server serve all gRPC variants (VAR-1 to VAR-4).
func register(g *grpc.Server, s serverv3.Server) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
	clusterservice.RegisterClusterDiscoveryServiceServer(g, s)
	endpointservice.RegisterEndpointDiscoveryServiceServer(g, s)
	listenerservice.RegisterListenerDiscoveryServiceServer(g, s)
	routeservice.RegisterRouteDiscoveryServiceServer(g, s)
	routeservice.RegisterScopedRoutesDiscoveryServiceServer(g, s)
	routeservice.RegisterVirtualHostDiscoveryServiceServer(g, s)
	secretservice.RegisterSecretDiscoveryServiceServer(g, s)
	runtimeservice.RegisterRuntimeDiscoveryServiceServer(g, s)
	extensionservice.RegisterExtensionConfigDiscoveryServiceServer(g, s)
}

// Stop ends the control plane as a crash does: the listener and all connections
// are closed at once, no stream is told why, and what its caches knew of its
// clients is gone. When it returns nothing of the run is left. Stopping what is
// stopped does nothing.
func (c *ControlPlane) Stop() {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	c.stopLocked()
}

// stopLocked stops; the caller holds lifecycle.
func (c *ControlPlane) stopLocked() {
	if c.run == nil {
		return
	}
	c.mu.Lock()
	c.live, c.fetch = nil, nil
	c.mu.Unlock()
	// First the connections: a stream whose context ended would be closed with a
	// status, which a crash does not send.
	c.run.server.Stop()
	c.run.cancel()
	c.run.serving.Wait()
	c.run = nil
}

// Close stops the control plane for good and gives its port back.
func (c *ControlPlane) Close() {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	c.stopLocked()
	c.port.close()
	c.port = nil
}
