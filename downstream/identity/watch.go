package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	grpccredentials "google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/notify"
)

const (
	// parts is how many times in a period the watch looks: each time at another part of the
	// connections, so that they do not all end at once.
	parts = 16
	// grace is how long a connection is open after its streams were ended: they are told why.
	grace = time.Second
)

// Watch knows the connections of a server, and ends those whose identity has ended. Its methods
// may be called from any goroutine.
type Watch struct {
	roots func() *credentials.Roots
	end   func(ended map[*Conn]*Error)
	first *credentials.Roots

	recheck atomic.Int64
	changed chan struct{} // one slot: recheck has changed

	mu    sync.Mutex // guards what follows
	conns map[*Conn]struct{}
	next  int // the part of the next connection
}

// NewWatch makes a watch that looks at each connection once in every recheck. roots gives whose
// certificates count now, nil if the server asks for no certificates. end is told of connections
// whose identity has ended, before they are closed: their streams are to be ended.
func NewWatch(roots func() *credentials.Roots, recheck time.Duration, end func(map[*Conn]*Error)) *Watch {
	w := &Watch{roots: roots, end: end, first: roots(), changed: notify.New(), conns: make(map[*Conn]struct{})}
	w.recheck.Store(int64(recheck))
	return w
}

// SetRecheck changes the period.
func (w *Watch) SetRecheck(d time.Duration) {
	if w.recheck.Swap(int64(d)) != int64(d) {
		notify.Signal(w.changed)
	}
}

// Recheck gives the period.
func (w *Watch) Recheck() time.Duration { return time.Duration(w.recheck.Load()) }

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	for part := 0; ; {
		timer := time.NewTimer(w.Recheck() / parts)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-w.changed:
			timer.Stop()
		case <-timer.C:
			w.look(part, time.Now())
			part = (part + 1) % parts
		}
	}
}

// look ends the connections of a part whose identity has ended.
func (w *Watch) look(part int, now time.Time) {
	roots, ended := w.roots(), make(map[*Conn]*Error)
	for _, c := range w.of(part) {
		var err error
		if c.verdict, err = judge(&c.State, c.verdict, roots, now); err != nil {
			ended[c], _ = errors.AsType[*Error](err)
		}
	}
	if len(ended) == 0 {
		return
	}
	for c := range ended {
		w.left(c) // it is told once
	}
	w.end(ended)
	time.AfterFunc(grace, func() {
		for c := range ended {
			_ = c.conn.Close() // its error is the client's, which has gone
		}
	})
}

// of lists the connections of a part. A connection is listed once: then it ends, or stays.
func (w *Watch) of(part int) (list []*Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		if c.part == part {
			list = append(list, c)
		}
	}
	return list
}

// Judge judges the certificate of a connection that the watch does not know. The error is an
// *[Error].
func (w *Watch) Judge(state *tls.ConnectionState) error {
	_, err := judge(state, verdict{w.first, until(state.VerifiedChains)}, w.roots(), time.Now())
	return err
}

// Guard gives credentials whose connections the watch knows.
func (w *Watch) Guard(creds grpccredentials.TransportCredentials) grpccredentials.TransportCredentials {
	return guarded{creds, w}
}

type guarded struct {
	grpccredentials.TransportCredentials

	watch *Watch
}

// ServerHandshake implements grpccredentials.TransportCredentials.
func (g guarded) ServerHandshake(raw net.Conn) (net.Conn, grpccredentials.AuthInfo, error) {
	// The roots are read before the handshake reads them: if they change in between, the
	// connection is verified once more.
	c := &Conn{verdict: verdict{roots: g.watch.roots()}}
	c.conn = &watched{Conn: raw, left: func() { g.watch.left(c) }}
	conn, info, err := g.TransportCredentials.ServerHandshake(c.conn)
	if err != nil {
		return conn, info, err
	}
	state, ok := info.(grpccredentials.TLSInfo)
	if !ok {
		return conn, info, nil
	}
	c.TLSInfo, c.until = state, until(state.State.VerifiedChains)
	g.watch.came(c)
	return conn, c, nil
}

// Clone implements grpccredentials.TransportCredentials.
func (g guarded) Clone() grpccredentials.TransportCredentials {
	return guarded{g.TransportCredentials.Clone(), g.watch}
}

func (w *Watch) came(c *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !c.closed {
		c.part, w.next = w.next, (w.next+1)%parts
		w.conns[c] = struct{}{}
	}
}

func (w *Watch) left(c *Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.closed = true
	delete(w.conns, c)
}

// Conn is a connection with its TLS identity: the AuthInfo of its streams.
type Conn struct {
	grpccredentials.TLSInfo

	conn *watched
	part int // immutable once the watch knows the connection

	verdict      // of the watch's goroutine
	closed  bool // guarded by Watch.mu
}

// RemoteAddr is the address of the client.
func (c *Conn) RemoteAddr() string { return c.conn.RemoteAddr().String() }

// watched is a network connection that tells when it is closed.
type watched struct {
	net.Conn

	once sync.Once
	left func()
}

func (c *watched) Close() error {
	c.once.Do(c.left)
	return c.Conn.Close()
}

// SyscallConn implements syscall.Conn: gRPC reads and sets options of sockets.
func (c *watched) SyscallConn() (syscall.RawConn, error) { return syscallConn(c.Conn) }

func syscallConn(c net.Conn) (syscall.RawConn, error) {
	if inner, ok := c.(syscall.Conn); ok {
		return inner.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
