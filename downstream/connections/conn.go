package connections

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/xdsrelay/xdsrelay/internal/quota"
)

const (
	// allowance is how many bytes of a connection may be read that no handler asks for: frames around
	// messages, headers, pings, settings, resets, and messages whose handlers do not read at the moment. It
	// has room for the headers of 256 streams with bearer tokens.
	allowance = 1 << 20
	// rate is how many more there may be in a second.
	rate = 64 << 10
	// frames is how many bytes stand around a message: in HTTP/2, in TLS, and those of window updates.
	frames = 64
	// refused is how many bytes a connection may end with without any request that reached a handler. Headers
	// that are too large are refused before a handler sees them, and mostly end their connection.
	refused = 8 << 10
	// pause is how long a connection is not read that has sent too much.
	pause = 20 * time.Millisecond
)

// Conn is a connection of a client. What handlers tell a nil Conn says nothing. gRPC keeps no buffer for it
// while it is at rest, if it has a socket of its own.
type Conn struct {
	net.Conn

	// immutable
	came     time.Time
	left     func(*Conn) // told once, when the connection is closed
	observer Observer

	who quota.Client // guarded by Limit.mu

	closed atomic.Bool
	failed atomic.Bool // the client closed it, or the network did
	ready  ready       // of the reader

	paced   bool         // set before the reader reads
	unasked atomic.Int64 // bytes that were read, less those that handlers ask for
	served  atomic.Bool  // a request reached a handler
	settled time.Time    // of the reader: up to when rate counts
	flooded atomic.Bool  // the observer was told of what nobody asked for
}

// NetConn gives the connection that c is about.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *Conn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.left(c)
		if c.paced && !c.served.Load() && c.unasked.Load() > refused && c.flooded.CompareAndSwap(false, true) {
			c.observer.Flooded(c.RemoteAddr())
		}
	}
	return c.Conn.Close()
}

// SyscallConn implements syscall.Conn: gRPC reads and sets options of sockets.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if inner, ok := c.Conn.(syscall.Conn); ok {
		return inner.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Pace has the connection read slowly from now on if it sends far more than handlers ask for. It must be
// called before the connection is read by another goroutine, Served for each request, and Asked or Took for
// each message.
func (c *Conn) Pace() { c.paced = true }

// Served says that a request reached a handler, whatever becomes of it. It may be called from any goroutine.
func (c *Conn) Served() {
	if c != nil && !c.served.Load() {
		c.served.Store(true)
	}
}

// Asked says that a handler waits for a part of a message, of n bytes. It may be called from any goroutine.
func (c *Conn) Asked(n int) { c.count(-n - frames) }

// Took says that a handler has n bytes, of what was read before. A client may have sent less, if they were
// compressed: they never pay for what it sends later. Took may be called from any goroutine.
func (c *Conn) Took(n int) { c.pay(n+frames, 0) }

// Answers says that the client sends up to n bytes from now on, while it reads an answer. They do not add up
// with those of other answers, which the client may have read without sending any. Answers may be called from any
// goroutine.
func (c *Conn) Answers(n int) { c.pay(n, n) }

// Unasked says that the part of which a handler said so does not come any more. It may be called from any
// goroutine.
func (c *Conn) Unasked(n int) { c.count(n + frames) }

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	c.hold()
	n, err := c.Conn.Read(b)
	c.count(n)
	c.Note(err)
	return n, err
}

// ReadOnReady waits until there is something to read, and only then takes a buffer for it. gRPC looks for
// this method.
func (c *Conn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	c.hold()
	b, n, err := c.ready.read(c.Conn, size, pool)
	c.count(n)
	c.Note(err)
	return b, n, err
}

// Note notes that reading fails, unless that is because the relay has closed the connection. With TLS the client says within it
// that it leaves. Note may be called from any goroutine.
func (c *Conn) Note(err error) {
	if err != nil && c != nil && !c.closed.Load() {
		c.failed.Store(true)
	}
}

// CutOff reports whether the relay closed the connection, and not the client. With streams open it does so only when it ends
// itself, and for keepalive. CutOff may be called from any goroutine.
func (c *Conn) CutOff() bool { return c != nil && c.closed.Load() && !c.failed.Load() }

func (c *Conn) count(n int) {
	if c != nil && c.paced {
		c.unasked.Add(int64(n))
	}
}

// pay takes n bytes off those that nobody asks for, until ahead bytes may still come.
func (c *Conn) pay(n, ahead int) {
	for c != nil && c.paced {
		before := c.unasked.Load()
		after := max(before-int64(n), -int64(ahead))
		if after >= before || c.unasked.CompareAndSwap(before, after) {
			return
		}
	}
}

// hold waits while the connection has sent too much.
func (c *Conn) hold() {
	for c.paced && c.unasked.Load() > allowance && !c.closed.Load() {
		now := time.Now()
		more := int64(now.Sub(c.settled).Seconds() * rate)
		c.settled = now
		if c.unasked.Add(-min(more, max(0, c.unasked.Load()))) <= allowance {
			return
		}
		if c.flooded.CompareAndSwap(false, true) {
			c.observer.Slowed(c.RemoteAddr())
		}
		time.Sleep(pause)
	}
}
