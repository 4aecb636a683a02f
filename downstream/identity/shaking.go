package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// shakingTime is how long a handshake may take, its waits included.
const shakingTime = 10 * time.Second

// Secure gives a listener of TLS for an HTTP server. lis is guarded by l. A connection comes out of it after its
// handshake, which has waited for its turns (Handshake). Those whose handshakes failed come out, too: the
// server asks each one how the handshake ended, and says so.
//
// Close cuts the connections off that have not come out yet. None of them waits for a turn any more.
func (l *Listener) Secure(lis net.Listener, config *tls.Config) net.Listener {
	ctx, end := context.WithCancel(context.Background()) // until Close
	s := &shakingListener{
		Listener: lis, config: config, ready: make(chan net.Conn), failed: make(chan error),
		closed: ctx.Done(), end: end, shaking: make(map[net.Conn]struct{}),
	}
	s.running.Go(func() { s.take(ctx) })
	return s
}

type shakingListener struct {
	net.Listener

	config  *tls.Config
	ready   chan net.Conn
	failed  chan error // of the listener
	closed  <-chan struct{}
	end     context.CancelFunc // closes closed, and ends the waits for turns
	running sync.WaitGroup     // take, and a goroutine for each handshake

	mu      sync.Mutex
	shaking map[net.Conn]struct{} // guarded by mu; nil: the listener is closed
}

// Accept implements net.Listener.
func (s *shakingListener) Accept() (net.Conn, error) {
	select {
	case conn := <-s.ready:
		return conn, nil
	case err := <-s.failed:
		return nil, err
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// take takes connections until the listener is closed, and ctx ends.
func (s *shakingListener) take(ctx context.Context) {
	for {
		conn, err := s.Listener.Accept()
		if err == nil {
			s.running.Go(func() { s.shake(ctx, conn) })
			continue
		}
		select { // the caller of Accept pauses after an error
		case s.failed <- err:
		case <-s.closed:
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// shake shakes hands, and hands the connection out.
func (s *shakingListener) shake(ctx context.Context, raw net.Conn) {
	if !s.begin(raw) {
		_ = raw.Close() // nobody is interested any more
		return
	}
	conn := tls.Server(raw, s.config)
	_ = raw.SetDeadline(time.Now().Add(shakingTime)) // an error says that it is closed
	c, guarded := raw.(*accepted)
	if guarded {
		c.begin(ctx)
	}
	// Until the deadline, or until Close closes raw. With ctx it would take one more goroutine. The server
	// hears of an error.
	err := conn.HandshakeContext(context.Background())
	if guarded {
		c.end(err == nil)
	}
	_ = raw.SetDeadline(time.Time{})
	s.mu.Lock()
	delete(s.shaking, raw)
	s.mu.Unlock()
	select {
	case s.ready <- conn:
	case <-s.closed:
		_ = raw.Close()
	}
}

// begin notes a connection that shakes hands, unless the listener is closed.
func (s *shakingListener) begin(raw net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shaking == nil {
		return false
	}
	s.shaking[raw] = struct{}{}
	return true
}

// Close implements net.Listener. http.Server calls it under its lock, whatever the context of its Shutdown
// says: it waits for what handshakes compute at the moment, and for nothing else.
func (s *shakingListener) Close() error {
	s.mu.Lock()
	cut := s.shaking
	s.shaking = nil
	s.mu.Unlock()
	if cut == nil {
		return net.ErrClosed
	}
	s.end()
	err := s.Listener.Close()
	for raw := range cut {
		_ = raw.Close()
	}
	s.running.Wait()
	return err
}
