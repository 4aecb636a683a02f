package downstream

import (
	"net"
	"sync"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// maxPollers limits the clients that pollers remembers.
const maxPollers = 4096

// pollClient tells clients that poll apart, though not for certain. Use it only to save work and to
// help operators.
type pollClient struct{ host, spiffe, node, cluster, typeURL string }

func clientOf(peer keyer.Peer, r *discovery.DiscoveryRequest) pollClient {
	host, _, err := net.SplitHostPort(peer.Addr)
	if err != nil {
		host = peer.Addr
	}
	return pollClient{
		host: host, spiffe: peer.SPIFFE,
		node: clip(r.GetNode().GetId()), cluster: clip(r.GetNode().GetCluster()), typeURL: r.GetTypeUrl(),
	}
}

// pollers remembers problems with the polls of a client, since the poll itself ends with its answer.
// It has only clients with a problem.
type pollers struct {
	mu  sync.Mutex
	lru *simplelru.LRU[pollClient, *poller] // guarded by mu, and every poller
}

type poller struct {
	failed  string // digest of the content that could not be sent as JSON
	refused bool   // the log has a name that the relay refused
	nacks   int64
	last    *Nack // immutable
}

func newPollers() *pollers {
	return &pollers{lru: newLRU[pollClient, *poller](maxPollers)}
}

func newLRU[K comparable, V any](size int) *simplelru.LRU[K, V] {
	lru, err := simplelru.NewLRU[K, V](size, nil)
	if err != nil {
		panic("downstream: " + err.Error()) // only for a size below one
	}
	return lru
}

// edit changes the problems of a client.
func (p *pollers) edit(c pollClient, f func(*poller)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, ok := p.lru.Get(c)
	if !ok {
		one = new(poller)
		p.lru.Add(c, one)
	}
	f(one)
}

// of returns the problems of a client.
func (p *pollers) of(c pollClient) poller {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, ok := p.lru.Get(c); ok {
		return *one
	}
	return poller{}
}

// fails notes the digest of content that cannot be sent; "" if the content can be sent.
func (p *pollers) fails(c pollClient, digest string) {
	p.edit(c, func(one *poller) { one.failed = digest })
}

// refused reports whether this is the first name that the relay refuses: one line in the
// log is enough for all.
func (p *pollers) refused(c pollClient) (first bool) {
	p.edit(c, func(one *poller) { first, one.refused = !one.refused, true })
	return first
}

func (p *pollers) rejected(c pollClient, n *Nack) {
	p.edit(c, func(one *poller) {
		one.nacks++
		one.last = n
	})
}
