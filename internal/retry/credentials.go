package retry

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// Connections may stand at this pace, after some at once: a server that ends one now and then is dialled at once.
const (
	perSecond = 1
	atOnce    = 4 * time.Second // seconds' worth
)

// PacedCredentials returns the transport credentials of one channel, which have its connections stand at a pace (OPS-2). Those that
// fail gRPC paces itself.
//
// gRPC begins its back-off anew with each connection that stands, and dials again as soon as a stream wants one. A
// server that sends GOAWAY right behind its settings, such as a proxy that drains, ends the connection before it has a
// stream. The stream is not told: gRPC dials for it again and again, some thousand times a second, until its context
// ends.
func PacedCredentials(creds credentials.TransportCredentials) credentials.TransportCredentials {
	return paced{creds, &stood{since: time.Now()}}
}

type paced struct {
	credentials.TransportCredentials

	stood *stood
}

// stood is when connections of a channel stood.
type stood struct {
	since time.Time // immutable

	mu   sync.Mutex
	pace Pace
	next time.Time // when the next one may stand
}

// ClientHandshake implements credentials.TransportCredentials. gRPC calls it once for each connection.
func (p paced) ClientHandshake(ctx context.Context, authority string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if wait := p.stood.due(); wait > 0 && !Sleep(ctx, wait) {
		return nil, nil, ctx.Err()
	}
	secured, info, err := p.TransportCredentials.ClientHandshake(ctx, authority, c)
	if err == nil {
		p.stood.another()
	}
	return secured, info, err
}

// Clone implements credentials.TransportCredentials.
func (p paced) Clone() credentials.TransportCredentials {
	return paced{p.TransportCredentials.Clone(), p.stood}
}

// due returns how long it is until the next connection may stand.
func (s *stood) due() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.next)
}

// another notes that one more connection stands.
func (s *stood) another() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.next = now.Add(s.pace.Next(now.Sub(s.since), perSecond, atOnce))
}
