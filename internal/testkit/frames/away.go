package frames

import (
	"io"
	"net"
	"sync"

	"golang.org/x/net/http2"
)

// mostAway is how many connections SendAway takes: a client that dials without pause would otherwise never end, and in
// a bubble no time would pass.
const mostAway = 1000

// SendAway serves a listener as a server of gRPC that takes no stream: it sends each connection away behind its
// settings. ended returns the number of connections, after the listener was closed.
func SendAway(lis net.Listener) (ended func() int) {
	connections := 0
	var serving sync.WaitGroup
	serving.Go(func() {
		for connections < mostAway {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			connections++
			serving.Go(func() { sendAway(c) })
		}
		_ = lis.Close() // dialling fails from now on
	})
	return func() int {
		serving.Wait()
		return connections
	}
}

func sendAway(c net.Conn) {
	defer func() { _ = c.Close() }()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	if f.WriteSettings() != nil || f.WriteGoAway(0, http2.ErrCodeNo, nil) != nil {
		return
	}
	for {
		if _, err := f.ReadFrame(); err != nil {
			return
		}
	}
}
