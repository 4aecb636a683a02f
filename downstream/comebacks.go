package downstream

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// A client with a stream for each type comes back stream by stream, each at its own time. No stream sees the others, and new
// routes would go before the clusters that they lead to. comebacks is what the streams of one node, by its ID, know of each other
// meanwhile (WARM-4). It keeps nothing of clients that do not come back, and forgets one a while after it came, or with the last
// of these streams: what it keeps of a node is then within the limits of streams and names.
type comebacks struct {
	some  atomic.Int32 // how many nodes there are: nearly always none
	mu    sync.Mutex
	nodes map[string]*comeback
}

// comeback is what the streams of a node that came back know. Guarded by comebacks.mu.
type comeback struct {
	end     *time.Timer          // has it forgotten
	told    bool                 // the client has the present clusters
	has     map[string]struct{}  // endpoints that it asked for when it came back: it has their clusters
	lacks   map[string]struct{}  // endpoints of clusters that are new to it, until it accepted them
	streams map[sibling]struct{} // those that came back
	waiting map[sibling]struct{}
}

const (
	// comebackWindow is for how long a node is known to come back: between two attempts of a stream there are at most 30
	// seconds in Envoy and gRPC.
	comebackWindow = 30 * time.Second
	// maxComeback bounds the endpoints that are kept of a node. Routes wait for no others.
	maxComeback = 4096
)

// alone reports whether the stream is one of several that its client has, one for each type.
func (st *stream) alone() bool { return !st.variant.aggregated() && st.standing.node != "" }

// endpoints returns the endpoints that the client asks for.
func (st *stream) endpoints(t *typeState) (names []string) {
	if xds.RankOf(t.url) != xds.RankEndpoint {
		return nil
	}
	for _, c := range st.subscriber.Places() {
		names = slices.AppendSeq(names, c.Subscriptions(t.url))
	}
	return names
}

// begins notes that a stream came back with versions of a type.
func (c *comebacks) begins(node string, st sibling, rank xds.Rank, names []string) {
	if rank > xds.RankEndpoint && !rank.FollowsClusters() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.nodes[node]
	if b == nil {
		if c.nodes == nil {
			c.nodes = make(map[string]*comeback)
		}
		b = &comeback{
			has: make(map[string]struct{}), lacks: make(map[string]struct{}), streams: make(map[sibling]struct{}), waiting: make(map[sibling]struct{}),
		}
		c.nodes[node] = b
		c.some.Add(1)
		b.end = time.AfterFunc(comebackWindow, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.forget(node, b)
		})
	}
	b.streams[st] = struct{}{}
	switch rank {
	case xds.RankCluster:
		b.told = false
	case xds.RankEndpoint:
		for _, name := range names {
			if delete(b.lacks, name); len(b.has) < maxComeback {
				b.has[name] = struct{}{}
			}
		}
		b.release()
	}
}

// forget forgets a node, unless it was forgotten. Nothing waits any longer. The caller holds mu.
func (c *comebacks) forget(node string, b *comeback) {
	if c.nodes[node] == b {
		b.end.Stop()
		delete(c.nodes, node)
		c.some.Add(-1)
	}
}

// waits reports whether listeners and routes on a stream wait, and has the stream rung when they do no longer.
func (c *comebacks) waits(node string, st sibling) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.nodes[node]
	if b == nil || b.told && len(b.lacks) == 0 {
		return false
	}
	b.waiting[st] = struct{}{}
	return true
}

// sends notes endpoints of clusters that are about to be sent. told says that the client has all clusters that there are.
func (c *comebacks) sends(node string, endpoints map[string]struct{}, told bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.nodes[node]
	if b == nil {
		return
	}
	for name := range endpoints {
		if _, has := b.has[name]; !has && len(b.lacks) < maxComeback {
			b.lacks[name] = struct{}{}
		}
	}
	b.told = told
	b.release()
}

// accepts notes which endpoints the client has accepted.
func (c *comebacks) accepts(node string, has func(endpoints string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.nodes[node]
	if b == nil {
		return
	}
	for name := range b.lacks {
		if has(name) {
			delete(b.lacks, name)
		}
	}
	b.release()
}

// leave forgets a stream that ends.
func (c *comebacks) leave(node string, st sibling) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.nodes[node]
	if b == nil {
		return
	}
	delete(b.waiting, st)
	if delete(b.streams, st); len(b.streams) == 0 {
		for other := range b.waiting {
			other.ring()
		}
		c.forget(node, b)
	}
}

// release rings the streams that wait, if there is no reason any more.
func (b *comeback) release() {
	if !b.told || len(b.lacks) > 0 {
		return
	}
	for st := range b.waiting {
		st.ring()
	}
	clear(b.waiting)
}

// apart returns until when listeners and routes of a client that came back wait for what its other streams say, and removals of
// its clusters for its routes, if it has a stream for each type; nil: they do not.
func (st *stream) apart(warmWait time.Duration) *delivery.Apart {
	if st.shared.comebacks.some.Load() == 0 || warmWait == 0 || !st.alone() || len(st.types.list) == 0 {
		return nil
	}
	t := st.types.list[0]
	if !t.presented && t.listed.presented == "" {
		return nil
	}
	end := st.standing.since.Add(warmWait)
	removals := end.Add(warmWait) // streams of routes may begin later, and wait themselves
	switch rank := xds.RankOf(t.url); {
	case rank == xds.RankCluster && st.types.now.Before(removals):
		return &delivery.Apart{Removals: removals}
	case rank.FollowsClusters() && st.types.now.Before(end) && st.shared.comebacks.waits(st.standing.node, st):
		return &delivery.Apart{Followers: end}
	}
	return nil
}

// tellComeback tells the client's other streams what this one knows of its clusters and their endpoints. sends says that it
// is about to send something.
func (st *stream) tellComeback(sends bool) {
	if !st.alone() || len(st.types.list) == 0 {
		return
	}
	t := st.types.list[0]
	if !t.cameBack && (t.presented || t.listed.presented != "") {
		t.cameBack = true
		st.shared.comebacks.begins(st.standing.node, st, xds.RankOf(t.url), st.endpoints(t))
	}
	if st.shared.comebacks.some.Load() == 0 {
		return
	}
	switch xds.RankOf(t.url) {
	case xds.RankCluster:
		st.shared.comebacks.sends(st.standing.node, st.subscriber.NewClusters(), !sends && t.flow.idle() && st.subscriber.Told(t.url))
	case xds.RankEndpoint:
		if t.flow.idle() {
			st.shared.comebacks.accepts(st.standing.node, st.subscriber.HasEndpoints)
		}
	}
}
