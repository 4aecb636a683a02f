package connections

import "net"

// Reason is the limit that is in a connection's way.
type Reason uint8

// The reasons.
const (
	TooMany Reason = iota // there are as many connections as there may be
	Share                 // the connection's address has its share of them
	TooFast               // the connection waited, and longer than clients do
)

// Observer is told of connections that a limit is in the way of. Its methods may be called from any
// goroutine and must not block.
type Observer interface {
	// Refused tells of a connection that is reset.
	Refused(from net.Addr, by Reason)
	// Waited tells of a connection that is served later than it came, because of the rate.
	Waited()
	// Slowed tells of a connection that is read slowly from now on, once.
	Slowed(from net.Addr)
	// Flooded tells of a connection that ended after it had sent much, and no request that reached a handler.
	// It was not read slowly. Such are connections with headers that are too large.
	Flooded(from net.Addr)
}
