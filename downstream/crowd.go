package downstream

import (
	"errors"
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

// Places are what all clients may have of something, and what part of it one address and one identity
// may have, once half of it is taken.
type Places struct {
	Most  int // 0: no limit
	Share float64
}

// ErrFull says that there is no place, and ErrShared that this client has its share of them.
var (
	ErrFull   = errors.New("all places are taken")
	ErrShared = errors.New("more than half of the places are taken, and this client's address or identity has its share")
)

// Origin is where a client comes from and who it is, as far as its share goes. The zero Origin is a client
// of which neither is known.
type Origin struct {
	address  netip.Prefix
	identity string
}

// OriginOf returns the origin of a client.
func OriginOf(p *keyer.Peer) Origin { return Origin{addressOf(p), p.Identity()} }

// Crowd bounds what all clients have of something, and the share of one address and of one
// identity (LIM-1). Shares count only when half of the total is taken: a load balancer's address, or the
// identity of a whole fleet, is no attack as long as there is room. It counts from then on only, so that
// clients at rest take no memory for it. Its user has a lock for it. The zero Crowd is empty.
type Crowd struct {
	addresses  map[netip.Prefix]int // nil while there is room
	identities map[string]int
}

// Admit counts one place more, beside n that others have. The error is ErrFull or ErrShared.
func (c *Crowd) Admit(n int, others iter.Seq[Origin], who Origin, p Places) error {
	switch {
	case p.Most == 0:
		c.forget()
		return nil
	case n >= p.Most:
		return ErrFull
	case n >= p.half():
		c.count(others)
		if share := max(1, int(float64(p.Most)*p.Share)); c.addresses[who.address] >= share || c.identities[who.identity] >= share {
			return ErrShared
		}
	}
	c.add(who, 1)
	return nil
}

// Add counts one place more that is taken whatever the client's share is.
func (c *Crowd) Add(who Origin) { c.add(who, 1) }

// Left counts one less: n are still taken. It forgets the counts when there is much room again.
func (c *Crowd) Left(n int, who Origin, p Places) {
	c.add(who, -1)
	if p.Most == 0 || n < p.half()*3/4 {
		c.forget()
	}
}

func (p Places) half() int { return (p.Most + 1) / 2 }

// count counts those who are there, unless it does already.
func (c *Crowd) count(clients iter.Seq[Origin]) {
	if c.addresses != nil {
		return
	}
	c.addresses, c.identities = make(map[netip.Prefix]int), make(map[string]int)
	for who := range clients {
		c.add(who, 1)
	}
}

func (c *Crowd) forget() { c.addresses, c.identities = nil, nil }

// add counts a client that came or left. What cannot be told is not counted.
func (c *Crowd) add(who Origin, n int) {
	if c.addresses == nil {
		return
	}
	if who.address.IsValid() {
		addTo(c.addresses, who.address, n)
	}
	if who.identity != "" {
		addTo(c.identities, who.identity, n)
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

// places are those of streams and held polls.
func (l *ClientLimits) places() Places { return Places{l.Streams, l.Share} }

// turnedAway returns the status of a stream or poll that has no place, and the limit that it is for.
func turnedAway(err error) (error, Limit) {
	if errors.Is(err, ErrShared) {
		return errShare, LimitShare
	}
	return errManyStreams, LimitStreams
}
