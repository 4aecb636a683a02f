package connections

import (
	"net"

	"google.golang.org/grpc/mem"
)

// readAtOnce reads from a connection of which it cannot be told when there is something to read.
func readAtOnce(conn net.Conn, size int, pool mem.BufferPool) (*[]byte, int, error) {
	b := pool.Get(size)
	n, err := conn.Read(*b)
	if n == 0 || err != nil {
		pool.Put(b)
		return nil, 0, err
	}
	return b, n, nil
}
