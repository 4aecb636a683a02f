// Package relays runs whole relays within tests.
package relays

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/sockets"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/relay"
)

// Listeners are those that a relay is given.
type Listeners struct {
	XDS, Admin net.Listener // nil: a port of the test's own
	REST       net.Listener // nil: the relay serves no polls
}

// Running is a relay that runs.
type Running struct {
	*relay.Relay

	XDS, REST, Admin string // addresses

	Force chan struct{} // closed: the relay does not wait for clients when it ends
	Stop  func()        // as a signal does; returns when the relay has ended
}

// Run runs a relay until Stop. A failure to begin ends the test, and one of the relay fails it.
func Run(tb testing.TB, cfg *config.Config, o relay.Options, at Listeners) *Running {
	tb.Helper()
	it, err := relay.New(cfg, o)
	if err != nil {
		tb.Fatal(err)
	}
	for _, lis := range []*net.Listener{&at.XDS, &at.Admin} {
		if *lis == nil {
			*lis = ports.Listen(tb)
		}
	}
	r := &Running{Relay: it, XDS: at.XDS.Addr().String(), Admin: at.Admin.Addr().String(), Force: make(chan struct{})}
	if at.REST != nil {
		it.ServeREST(at.REST)
		r.REST = at.REST.Addr().String()
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := Listen(ctx, it, cfg); err != nil {
		cancel()
		tb.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- it.Run(ctx, r.Force, at.XDS, at.Admin) }()
	r.Stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("relay: %v", err)
		}
	})
	return r
}

// Listen opens the further listeners of a configuration, as the program does.
func Listen(ctx context.Context, it *relay.Relay, cfg *config.Config) error {
	for _, l := range cfg.Server.Listeners {
		lis, err := sockets.Listen(ctx, l.Listen, l.SocketMode.Std())
		if err == nil {
			err = it.ServeListener(l.Name, lis)
		}
		if err != nil {
			return err
		}
	}
	if cfg.Peers.Listen == "" {
		return nil
	}
	lis, err := sockets.Listen(ctx, cfg.Peers.Listen, 0)
	if err == nil {
		it.ServePeers(lis)
	}
	return err
}

// Page reads a page of an admin port, and gives its code and its text. It leaves no connection behind.
func Page(tb testing.TB, url string) (code int, text string) {
	tb.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := client.Do(request)
	if errors.Is(err, syscall.ECONNRESET) { // a machine that stood still leaves the relay without a request for too long
		resp, err = client.Do(request)
	}
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
