package relay

import (
	"math"
	"net"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/connections"
	"github.com/xdsrelay/xdsrelay/internal/quota"
)

// filesForClients is what part of the files that the process may have open are for clients' connections:
// the rest are for control planes, snapshots and operators.
const filesForClients = 0.75

// connectionsOf are the limits of the connections of clients (LIM-1). files is how many files the process
// may have open; 0: nobody knows.
func connectionsOf(l *config.Limits, files uint64) connections.Limits {
	most := l.Connections
	if files > 0 && files < math.MaxInt32 {
		room := max(1, int(float64(files)*filesForClients))
		if most == 0 || most > room {
			most = room
		}
	}
	return connections.Limits{Connections: quota.Limit{Most: most, Share: l.Share.Part()}, PerSecond: l.ConnectionsPerSecond}
}

// boundConnections bounds the connections of clients.
func (r *Relay) boundConnections(l *config.Limits) {
	files := openFiles()
	limits := connectionsOf(l, files)
	r.connections = connections.New(limits, crowded{r})
	if most := limits.Connections.Most; l.Connections > most {
		// The soft limit is the hard one: Go's runtime raises it.
		r.log.Info("the hard limit of open files bounds the connections below limits.connections", "files", files, "wanted", l.Connections, "connections", most)
	}
}

// crowded counts and logs the connections that a limit is in the way of.
type crowded struct{ relay *Relay }

var _ connections.Observer = crowded{}

// limitsByReason are the limits that connections have to do with.
var limitsByReason = map[connections.Reason]downstream.Limit{
	connections.TooMany: downstream.LimitConnections, connections.Share: downstream.LimitShare, connections.TooFast: downstream.LimitConnectionRate,
}

// Refused implements connections.Observer.
func (c crowded) Refused(from net.Addr, by connections.Reason) {
	limit := limitsByReason[by]
	c.relay.metrics.Downstream().Limited(limit)
	c.relay.log.Warn("a limit refuses a client's connection", "peer", from.String(), "limit", string(limit))
}

// Waits implements connections.Observer.
func (c crowded) Waited() { c.relay.metrics.Downstream().Limited(downstream.LimitConnectionRate) }

// Slowed implements connections.Observer.
func (c crowded) Slowed(from net.Addr) {
	c.relay.metrics.Downstream().Limited(downstream.LimitFrames)
	c.relay.log.Warn("a client sends frames that nobody asks for: the relay reads its connection slowly", "peer", from.String())
}

// Flooded implements connections.Observer.
func (c crowded) Flooded(from net.Addr) {
	c.relay.metrics.Downstream().Limited(downstream.LimitFrames)
	c.relay.log.Warn("a client's connection ended that had sent headers or frames, and no request that the relay could read", "peer", from.String())
}
