package upstream

import (
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// calmPings is the interval of pings that every server allows unless it was told
// otherwise: gRPC's own limit is one in five minutes (UPS-1).
const calmPings = 5*time.Minute + 10*time.Second

// pace is how often connections to an endpoint are pinged over HTTP/2. It only ever goes
// up: a server that ended a connection for its pings would end the next one, too.
type pace int

const (
	paceConfigured pace = iota
	paceCalm            // every calmPings
	paceNone            // not at all: TCP alone notices that the server is gone
)

// interval is the time between pings at a pace, where configured is the first one's.
func (p pace) interval(configured time.Duration) time.Duration {
	switch p {
	case paceConfigured:
		return configured
	case paceCalm:
		return max(configured, calmPings)
	}
	return math.MaxInt64 // gRPC's word for never
}

func (c *Config) pings(p pace) keepalive.ClientParameters {
	return keepalive.ClientParameters{Time: p.interval(c.Keepalive.Time), Timeout: c.Keepalive.Timeout}
}

// tooManyPings reports whether a server ended the connection because it was pinged too
// often. The reason of a GOAWAY is told in the text of the streams' status only.
func tooManyPings(err error) bool {
	text := status.Convert(err).Message()
	return strings.Contains(text, "ENHANCE_YOUR_CALM") && strings.Contains(text, "too_many_pings")
}

// calm has connections to c's endpoint from now on pinged less often than c is, and c
// itself taken by no further stream. It reports whether that is news: others on c, and on
// connections as old, may have said it before.
func (p *pool) calm(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.replica.endpoint.pace != c.pace || c.pace == paceNone {
		return false
	}
	c.replica.endpoint.pace++
	return true
}

// offended notes that a stream ended because of the connection's pings, if it did.
func (c *grpcClient) offended(by *conn, cause error) {
	if !tooManyPings(cause) || !c.pool.calm(by) {
		return
	}
	c.report.log.Info("server allows fewer pings, sending fewer to this endpoint from now on",
		"endpoint", by.replica.endpoint.target, "every", calmPings)
}
