// Package quota bounds what clients take of something that there is only so much of: connections, streams,
// bytes (LIM-1). There is a total, which protects the process. There is also a share of it for one address
// and for one identity, which counts only while less than a tenth of the total is free: a load balancer's
// address, or the identity of a whole fleet, is no attack as long as there is room.
//
// It does not know what is counted, and refuses nobody itself. [Usage] counts for a user who has a lock for it, and
// [Bounds] has its own.
package quota

import (
	"iter"
	"net"
	"net/netip"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// Limit is how much there is.
type Limit struct {
	Most  int     // 0: no limit
	Share float64 // what part of Most one address and one identity may have, while less than a tenth of Most is free
}

// open is how much one may have, whatever the share: all but a tenth.
func (l Limit) open() int { return max(1, l.Most-(l.Most+9)/10) }

// share is how much one address or identity may have.
func (l Limit) share() int { return max(1, int(float64(l.Most)*l.Share)) }

// Client tells who a client is, as far as it is known. What is not known is not counted.
type Client struct {
	Address  netip.Prefix
	Identity string
}

// ClientOf returns who a client is.
func ClientOf(p *keyer.Peer) Client {
	return Client{Address: AddressOf(p.Addr), Identity: p.Account()}
}

// Result is whether a client gets what it asks for.
type Result uint8

// The verdicts.
const (
	Admitted Result = iota
	Full            // nobody gets any more
	Shared          // the client's address or identity has its share
)

// Usage is how much is taken, and by whom. The zero Usage is empty. It counts who has how much only from
// the time on when a tenth of all is left, so that clients at rest take no memory for it. Its user has a
// lock for it.
type Usage struct {
	addresses  map[netip.Prefix]int // nil while there is room
	identities map[string]int
}

// Admit counts n more for a client, beside what is taken, if there is as much and it is not too much for
// this client. others is how much each of those has who have something.
func (c *Usage) Admit(l Limit, taken, n int, who Client, others iter.Seq2[Client, int]) Result {
	switch {
	case l.Most != 0 && taken+n > l.Most:
		return Full
	case c.Room(l, taken, n, who, others) < n:
		return Shared
	}
	c.Add(who, n)
	return Admitted
}

// Room is how many of n more a client may have beside what is taken: of what is left of the part of which anyone may
// have all, or of its share.
func (c *Usage) Room(l Limit, taken, n int, who Client, others iter.Seq2[Client, int]) int {
	switch {
	case l.Most == 0:
		c.forget()
		return n
	case taken+n <= l.open():
		return n
	}
	c.count(others)
	of := max(c.addresses[who.Address], c.identities[who.Identity])
	return min(n, max(0, l.open()-taken, min(l.Most-taken, l.share()-of)))
}

// Release counts n less: left is still taken. It forgets who has how much when there is much room again.
func (c *Usage) Release(l Limit, left, n int, who Client) {
	c.Add(who, -n)
	if l.Most == 0 || left < l.open()*3/4 {
		c.forget()
	}
}

// Counting reports whether Usage counts who has how much.
func (c *Usage) Counting() bool { return c.addresses != nil }

// count counts clients that have something, unless it does already.
func (c *Usage) count(clients iter.Seq2[Client, int]) {
	if c.Counting() {
		return
	}
	c.addresses, c.identities = make(map[netip.Prefix]int), make(map[string]int)
	for who, n := range clients {
		c.note(who, n)
	}
}

func (c *Usage) forget() { c.addresses, c.identities = nil, nil }

// Add counts n more for a client, whatever there is.
func (c *Usage) Add(who Client, n int) {
	if c.Counting() {
		c.note(who, n)
	}
}

func (c *Usage) note(who Client, n int) {
	if who.Address.IsValid() {
		AddTo(c.addresses, who.Address, n)
	}
	if who.Identity != "" {
		AddTo(c.identities, who.Identity, n)
	}
}

// AddTo adds to a count, which it forgets at zero.
func AddTo[K comparable](counts map[K]int, key K, n int) {
	if counts[key] += n; counts[key] <= 0 {
		delete(counts, key)
	}
}

// loopbackBits are the bits of 127.0.0.0/8: every process of the machine has all of it.
const loopbackBits = 8

// networkBits are the bits of an IPv6 address that count as one address: who has one has the others.
const networkBits = 64

// AddressOf gives the address of a text "host:port"; not valid if that is none, as of a unix socket.
func AddressOf(hostPort string) netip.Prefix {
	at, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.Prefix{}
	}
	return prefixOf(at.Addr())
}

// AddressAt gives the address of one end of a connection; not valid if it has none.
func AddressAt(end net.Addr) netip.Prefix {
	if tcp, ok := end.(*net.TCPAddr); ok {
		return prefixOf(tcp.AddrPort().Addr())
	}
	return AddressOf(end.String())
}

func prefixOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	switch {
	case addr.Is6():
		bits = networkBits
	case addr.IsLoopback():
		bits = loopbackBits
	}
	prefix, _ := addr.Prefix(bits) // fails only for a wrong number of bits, and for no address
	return prefix
}
