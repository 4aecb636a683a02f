package relay

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/relay/directory"
)

// nodeKey names an entry: the table it stands in, and its key there.
type nodeKey struct {
	store    *cache.Store
	typeURL  string
	name     string
	wildcard bool
}

// node is an entry that refers to others, or that others refer to.
type node struct {
	key     nodeKey
	session *session // held while something refers to the entry; nil where nothing does

	watched  bool   // by a client
	number   uint64 // of the content that was read (cache.Reference); 0: none
	targets  []*node
	versions directory.Versions // of a directory's inline entries (LIST-4)

	referrers int
	at        []int32 // how many of them have it at each distance, from 1
	distance  int     // 0 if a client has it; beyond references.limit if it is none of the relay's business
	pinned    bool    // in the store
	unlisted  bool    // what referred to it last was changed or removed (LIST-3)

	mark            uint64 // of references.round
	queued, touched bool
	judged          uint64 // number of the content whose faults were counted last, and
	counted         string // those faults
	complaint       string // what was logged of it last
	tooFar          uint64 // number of the content that was found to lead too far
}

// led reports whether something that matters refers to it.
func (n *node) led() bool { return slices.ContainsFunc(n.at, func(c int32) bool { return c > 0 }) }

// references is what refers to what, as far as clients' resources lead there. What
// clients have is at distance 0; what something refers to is one step further off
// than that. Beyond limit nothing is fetched ahead, and nothing is counted, so that what
// refers to itself in a circle is let go with the last client that leads there: with
// each turn it is further off. Owned by the prefetcher's goroutine.
type references struct {
	limit int
	nodes map[nodeKey]*node
	round uint64  // of refer
	queue []*node // their distance may have changed
	moved []*node // looked at since take
}

func newReferences(limit int) *references {
	return &references{limit: limit, nodes: make(map[nodeKey]*node)}
}

// node finds or makes the node of an entry.
func (g *references) node(k nodeKey) *node {
	n := g.nodes[k]
	if n == nil {
		n = &node{key: k, distance: g.limit + 1}
		g.nodes[k] = n
	}
	return n
}

// watch notes whether a client has the entry.
func (g *references) watch(n *node, watched bool) {
	n.watched = watched
	g.look(n)
}

// refer replaces what n refers to. A target may be listed twice.
func (g *references) refer(n *node, targets []*node) {
	before := n.targets
	g.round += 2
	for _, t := range before {
		t.mark = g.round - 1
	}
	n.targets = make([]*node, 0, len(targets))
	for _, t := range targets {
		if t.mark == g.round {
			continue
		}
		if t.mark != g.round-1 {
			t.referrers++
			g.lead(t, n.distance, 1)
		}
		t.mark = g.round
		n.targets = append(n.targets, t)
	}
	for _, t := range before {
		if t.mark != g.round {
			t.referrers--
			t.unlisted = true
			g.lead(t, n.distance, -1)
		}
	}
}

// lead counts a referrer of n that is at a distance, or takes it back.
func (g *references) lead(n *node, from int, by int32) {
	g.look(n)
	if from >= g.limit {
		return
	}
	for len(n.at) <= from {
		n.at = append(n.at, 0)
	}
	n.at[from] += by
}

// look has a node looked at by settle.
func (g *references) look(n *node) {
	if !n.queued {
		n.queued = true
		g.queue = append(g.queue, n)
	}
}

// settle works out the distances anew, and returns the nodes that may have to be
// pinned, or not any more. Each step takes a node nearer, or one step further off, of
// which there are limit.
func (g *references) settle() []*node {
	for len(g.queue) > 0 {
		n := g.queue[0]
		g.queue = g.queue[1:]
		n.queued = false
		if !n.touched {
			n.touched = true
			g.moved = append(g.moved, n)
		}
		was := n.distance
		if n.distance = g.measure(n); n.distance == was {
			continue
		}
		for _, t := range n.targets {
			g.lead(t, was, -1)
			g.lead(t, n.distance, 1)
			t.unlisted = n.unlisted
		}
	}
	moved := g.moved
	g.queue, g.moved = nil, nil
	for _, n := range moved {
		n.touched = false
	}
	return moved
}

func (g *references) measure(n *node) int {
	if n.watched {
		return 0
	}
	if at := slices.IndexFunc(n.at, func(c int32) bool { return c > 0 }); at >= 0 {
		return at + 1
	}
	return g.limit + 1
}

// forget drops what is known of a node that is too far off, and calls gone for each
// that nothing refers to then.
func (g *references) forget(n *node, gone func(*node)) {
	if n.distance <= g.limit || g.nodes[n.key] != n {
		return
	}
	targets := n.targets
	n.targets, n.versions, n.number = nil, nil, 0
	if n.referrers == 0 {
		delete(g.nodes, n.key)
		gone(n)
	}
	for _, t := range targets {
		t.referrers--
		g.forget(t, gone)
	}
}
