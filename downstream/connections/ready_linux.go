package connections

import (
	"io"
	"net"
	"syscall"

	"google.golang.org/grpc/mem"
)

// ready reads from a socket. One goroutine uses it.
type ready struct {
	socket  syscall.RawConn // nil: the connection is none
	attempt func(fd uintptr) (done bool)

	// of one read
	size int
	pool mem.BufferPool
	b    *[]byte
	n    int
	err  error
}

// of finds the socket of a connection. A connection in another one may have bytes that are read already.
func (r *ready) of(conn net.Conn) {
	var socket syscall.Conn
	switch conn := conn.(type) {
	case *net.TCPConn:
		socket = conn
	case *net.UnixConn:
		socket = conn
	default:
		return
	}
	if raw, err := socket.SyscallConn(); err == nil {
		r.socket, r.attempt = raw, r.try
	}
}

// try reads from a socket, unless there is nothing yet.
func (r *ready) try(fd uintptr) (done bool) {
	r.b = r.pool.Get(r.size)
	for {
		r.n, r.err = syscall.Read(int(fd), *r.b)
		if r.err != syscall.EINTR { //nolint:errorlint // the very error
			break
		}
	}
	if r.err == nil && r.n > 0 {
		return true
	}
	r.pool.Put(r.b)
	r.b = nil
	return r.err != syscall.EAGAIN //nolint:errorlint // the very error
}

// read reads up to size bytes into a buffer of the pool, once there is something.
func (r *ready) read(conn net.Conn, size int, pool mem.BufferPool) (*[]byte, int, error) {
	if r.socket == nil {
		return readAtOnce(conn, size, pool)
	}
	r.size, r.pool = size, pool
	failed := r.socket.Read(r.attempt)
	b, n, err := r.b, r.n, r.err
	r.pool, r.b, r.n, r.err = nil, nil, 0, nil
	switch {
	case failed != nil: // closed, or its time is up
		return nil, 0, failed
	case err != nil:
		return nil, 0, &net.OpError{Op: "read", Net: conn.RemoteAddr().Network(), Addr: conn.RemoteAddr(), Err: err}
	case n == 0:
		return nil, 0, io.EOF
	}
	return b, n, nil
}
