package downstream

import (
	"net"
	"sync"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// maxPollers is of how many clients that poll something is remembered.
const maxPollers = 4096

// pollClient tells clients that poll apart, as well as can be: what is kept under it
// may only save work and help operators.
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

// pollers remembers what went wrong with the polls of a client: no poll is there for
// longer than it takes to answer it. Only those with something wrong are in it.
type pollers struct {
	mu  sync.Mutex
	lru *simplelru.LRU[pollClient, *poller] // guarded by mu, with what is in it
}

type poller struct {
	failed  string // digest of what it was told cannot be sent as JSON
	refused bool   // the log has a name that the relay answers itself
	nacks   int64
	last    *Nack // immutable
}

func newPollers() *pollers {
	lru, err := simplelru.NewLRU[pollClient, *poller](maxPollers, nil)
	if err != nil {
		panic("downstream: " + err.Error()) // only for a size below one
	}
	return &pollers{lru: lru}
}

// ofLocked finds or makes what is remembered of a client.
func (p *pollers) ofLocked(c pollClient) *poller {
	one, ok := p.lru.Get(c)
	if !ok {
		one = new(poller)
		p.lru.Add(c, one)
	}
	return one
}

// failed is the digest of what could not be sent, "" if there is none.
func (p *pollers) failed(c pollClient) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, ok := p.lru.Get(c); ok {
		return one.failed
	}
	return ""
}

func (p *pollers) fails(c pollClient, digest string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ofLocked(c).failed = digest
}

// refused reports whether this is the first name that is refused: one line in the
// log tells of all.
func (p *pollers) refused(c pollClient) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.ofLocked(c)
	first := !one.refused
	one.refused = true
	return first
}

func (p *pollers) rejected(c pollClient, n *Nack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.ofLocked(c)
	one.nacks++
	one.last = n
}

func (p *pollers) rejections(c pollClient) (int64, *Nack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, ok := p.lru.Peek(c); ok {
		return one.nacks, one.last
	}
	return 0, nil
}
