package controlplanes

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// bridge connects a relay in a synctest bubble to a server in a process of its own. The server
// lives by the machine's clock, and the relay by the bubble's. The bubble's clock stands still
// while a goroutine waits for a socket, and jumps while all of them sleep. So a connection waits
// for the socket only while the server may have something to say, and otherwise sleeps and looks
// again: a night takes as long as its looks.
type bridge struct {
	to string // where all connections go, whatever they are told
	// owed says that the server still has to answer something.
	owed func() bool

	awake atomic.Bool // the server is about to say something unasked

	mu    sync.Mutex
	conns map[*bridged]struct{} // that are open
	dials map[string]int        // so far, by the address that was asked for
}

const (
	// lookPause is how long a connection sleeps, by the bubble's clock, until it looks again.
	lookPause = time.Second
	// looksAfterWords is how often a connection waits for the socket after either side said
	// something.
	looksAfterWords = 3

	// By the machine's clock: how long a look after words takes, one while the server is about
	// to say something, and one while an answer is owed.
	shortLook, awakeLook, owedLook = 2 * time.Millisecond, 100 * time.Millisecond, 10 * time.Second
)

func newBridge(to string, owed func() bool) *bridge {
	return &bridge{to: to, owed: owed, conns: make(map[*bridged]struct{}), dials: make(map[string]int)}
}

// connect is for [upstream.Dial].
func (b *bridge) connect(ctx context.Context, network, address string) (net.Conn, error) {
	b.mu.Lock()
	b.dials[address]++
	b.mu.Unlock()
	conn, err := new(net.Dialer).DialContext(ctx, network, b.to)
	if err != nil {
		return nil, err
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c := &bridged{Conn: conn, bridge: b, raw: raw}
	b.mu.Lock()
	b.conns[c] = struct{}{}
	b.mu.Unlock()
	return c, nil
}

// cut ends all connections, as a middlebox does, and says how many there were.
func (b *bridge) cut() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		_ = c.Conn.Close()
	}
	return len(b.conns)
}

// dialled is how often an address was asked for.
func (b *bridge) dialled(address string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dials[address]
}

// bridged is one connection.
type bridged struct {
	net.Conn

	bridge *bridge
	raw    syscall.RawConn
	looks  atomic.Int32 // how often it still waits for the socket
}

// Write implements [net.Conn].
func (c *bridged) Write(p []byte) (int, error) {
	c.looks.Store(looksAfterWords)
	return c.Conn.Write(p)
}

// Read implements [net.Conn].
func (c *bridged) Read(p []byte) (int, error) {
	for {
		n, err := c.look(p)
		if !errors.Is(err, syscall.EAGAIN) {
			c.looks.Store(looksAfterWords)
			return n, err
		}
		time.Sleep(lookPause)
	}
}

// look reads what is there, or comes while it waits. The error is EAGAIN if there is nothing.
func (c *bridged) look(p []byte) (int, error) {
	switch awake, words := c.bridge.awake.Load(), c.looks.Load() > 0; {
	case words:
		c.looks.Add(-1)
		wait := shortLook
		if awake {
			wait = awakeLook
		}
		if n, err := c.await(p, wait); !errors.Is(err, syscall.EAGAIN) || !c.bridge.owed() {
			return n, err
		}
		return c.await(p, owedLook)
	case awake:
		return c.await(p, awakeLook)
	}
	return c.try(p)
}

// await reads what comes within a time of the machine's clock.
func (c *bridged) await(p []byte, atMost time.Duration) (int, error) {
	// A deadline is taken for how far away it is, by the clock of the caller. That stands still.
	if err := c.SetReadDeadline(time.Now().Add(atMost)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = syscall.EAGAIN
	}
	return n, err
}

// try reads what is there.
func (c *bridged) try(p []byte) (n int, err error) {
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return 0, err
	}
	if e := c.raw.Read(func(fd uintptr) bool {
		n, err = syscall.Read(int(fd), p)
		return true
	}); e != nil {
		return 0, e
	}
	switch {
	case err != nil:
		return 0, err
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// SetDeadline implements [net.Conn]. Deadlines for reading are the connection's own.
func (c *bridged) SetDeadline(t time.Time) error { return c.SetWriteDeadline(t) }

// Close implements [net.Conn].
func (c *bridged) Close() error {
	c.bridge.mu.Lock()
	delete(c.bridge.conns, c)
	c.bridge.mu.Unlock()
	return c.Conn.Close()
}
