package downstream

import (
	"iter"
	"net/netip"

	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	errManyStreams = status.Error(codes.Unavailable, "the relay has as many streams as limits.streams allows: try again later, or another replica")
	errShare       = status.Error(codes.Unavailable, "the relay is more than half full, and this client's address or identity has its share (limits.share): try again later, or another replica")
)

// networkBits are the bits of an IPv6 address that count as one address: who has one has the others.
const networkBits = 64

// crowd bounds the streams and held polls of all clients, and the share of one address and of one
// identity (LIM-1). Shares count only when half of the total is taken: a load balancer's address, or the
// identity of a whole fleet, is no attack as long as there is room. It counts from then on only, so that
// clients at rest take no memory for it. The server's lock guards it.
type crowd struct {
	addresses  map[netip.Prefix]int // nil while there is room
	identities map[string]int
}

// admit counts a stream or poll that is to be added to n others, of these clients. The error is the
// status with which it ends.
func (c *crowd) admit(n int, others iter.Seq[*keyer.Peer], peer *keyer.Peer, l *ClientLimits) error {
	switch {
	case l.Streams == 0:
		c.forget()
		return nil
	case n >= l.Streams:
		return errManyStreams
	case n >= half(l):
		c.count(others)
		if share := max(1, int(float64(l.Streams)*l.Share)); c.addresses[addressOf(peer)] >= share || c.identities[peer.Identity()] >= share {
			return errShare
		}
	}
	c.add(peer, 1)
	return nil
}

// left counts one less: n are still there. It forgets the counts when there is much room again.
func (c *crowd) left(n int, peer *keyer.Peer, l *ClientLimits) {
	c.add(peer, -1)
	if l.Streams == 0 || n < half(l)*3/4 {
		c.forget()
	}
}

func half(l *ClientLimits) int { return (l.Streams + 1) / 2 }

// count counts those who are there, unless it does already.
func (c *crowd) count(clients iter.Seq[*keyer.Peer]) {
	if c.addresses != nil {
		return
	}
	c.addresses, c.identities = make(map[netip.Prefix]int), make(map[string]int)
	for peer := range clients {
		c.add(peer, 1)
	}
}

func (c *crowd) forget() { c.addresses, c.identities = nil, nil }

// add counts a client that came or left. What cannot be told is not counted.
func (c *crowd) add(peer *keyer.Peer, n int) {
	if c.addresses == nil {
		return
	}
	if at := addressOf(peer); at.IsValid() {
		addTo(c.addresses, at, n)
	}
	if id := peer.Identity(); id != "" {
		addTo(c.identities, id, n)
	}
}

func addTo[K comparable](counts map[K]int, key K, n int) {
	if counts[key] += n; counts[key] <= 0 {
		delete(counts, key)
	}
}

// addressOf returns the address that a client comes from; not valid if it has none, as on a unix socket.
func addressOf(peer *keyer.Peer) netip.Prefix {
	at, err := netip.ParseAddrPort(peer.Addr)
	if err != nil {
		return netip.Prefix{}
	}
	addr := at.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = networkBits
	}
	prefix, _ := addr.Prefix(bits) // fails only for a wrong number of bits
	return prefix
}

// limitOf is the limit that an error of admit is for.
func limitOf(err error) Limit {
	if err == errShare { //nolint:errorlint // the very error
		return LimitShare
	}
	return LimitStreams
}
