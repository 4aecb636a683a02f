//go:build !linux

package connections

import (
	"net"

	"google.golang.org/grpc/mem"
)

// ready reads with a buffer from the beginning on.
type ready struct{}

func (*ready) of(net.Conn) {}

func (*ready) read(conn net.Conn, size int, pool mem.BufferPool) (*[]byte, int, error) {
	return readAtOnce(conn, size, pool)
}
