// Package ports gives tests TCP ports on the loopback interface that stay theirs
// while nobody listens on them: a server of a test can end, and come back at the
// same address.
//
// A port of the system's choice ("127.0.0.1:0") cannot do that. As soon as its
// listener is closed the system may give it to one of the many connections that a
// test opens, or to another listener. This package takes ports below the ranges
// that systems choose from.
package ports

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

// Ports from first to last are below the ephemeral ports of Linux (from 32768), the
// BSDs, macOS and Windows (from 49152).
const (
	first = 20000
	last  = 32000
)

// Listen listens on a port that no other test gets until this one ends, in this process or
// another. A failure ends the test.
func Listen(tb testing.TB) net.Listener {
	tb.Helper()
	var config net.ListenConfig
	for range 1000 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(last-first))) //nolint:gosec // a port is no secret
		// The UDP port of the same number is the claim. It lasts while nobody listens.
		claim, err := config.ListenPacket(tb.Context(), "udp", addr)
		if err == nil {
			lis, listenErr := config.Listen(tb.Context(), "tcp", addr)
			if listenErr == nil {
				tb.Cleanup(func() { _ = claim.Close() })
				return lis
			}
			_ = claim.Close()
			err = listenErr
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			tb.Fatal(err)
		}
	}
	tb.Fatal("no free port")
	return nil
}

// Free gives the number of a port that nobody listens on, for a server that opens
// its listener itself.
func Free(tb testing.TB) int {
	tb.Helper()
	lis := Listen(tb)
	defer func() { _ = lis.Close() }()
	return lis.Addr().(*net.TCPAddr).Port
}

// inUse bounds how long Again waits for an address that is in use.
const inUse = 5 * time.Second

// Again listens on an address that [Listen] gave, whose listener is closed. A program that this process
// starts holds a copy of the listener between fork and exec: then the address is in use for a moment.
func Again(tb testing.TB, addr string) net.Listener {
	tb.Helper()
	var lis net.Listener
	var err error
	wait.Until(inUse, func() bool {
		lis, err = new(net.ListenConfig).Listen(tb.Context(), "tcp", addr)
		return !errors.Is(err, syscall.EADDRINUSE)
	})
	if err != nil {
		tb.Fatal(err)
	}
	return lis
}
