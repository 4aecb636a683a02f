package resolve

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// node is one name of the resolved store.
type node struct {
	resolver *Resolver
	leadKey  // in the resolved store
	name     keyer.Name

	leads  []*lead // that the last look passed by
	serves int     // which of its places does
	choice bool    // it had several places at the last look, which depended on which upstreams can be reached
	told   told
	passes bool // the resolved store was told that a lead is not to be cached (TTL-5)
	queued bool
	ended  bool
}

// told is what the resolved store was told last.
type told struct {
	state state
	from  *lead
	at    uint64
	err   *wire.ResourceError
	holds bool // clients have content
	late  bool
}

// touch has it look again.
func (n *node) touch() {
	if !n.queued && !n.ended {
		n.queued = true
		n.resolver.nodes.queue = append(n.resolver.nodes.queue, n)
	}
}

// look looks for the name, and tells the resolved store what came of it.
func (n *node) look() {
	s := &search{node: n}
	seen := s.find()
	before := n.leads
	n.leads = s.passed
	for _, l := range before {
		if !slices.Contains(n.leads, l) {
			l.leave(n)
		}
	}
	n.tell(&seen)
	if !n.passes && slices.ContainsFunc(n.leads, (*lead).passes) {
		n.passes = true
		out := n.resolver.out(n.typeURL)
		out.Passing = append(out.Passing, n.key)
	}
}

// tell tells what was not told yet.
func (n *node) tell(seen *sight) {
	out := n.resolver.out(n.typeURL)
	same := n.told.state == seen.state && seen.from != nil && n.told.from == seen.from && n.told.at == seen.at
	switch seen.state {
	case unknown:
		if seen.late && n.told.state == unknown && !n.told.late {
			n.told.late = true
			out.Late = append(out.Late, n.key)
		}
	case found:
		if !same {
			n.found(out, seen)
		}
		if seen.err != nil && !n.said(seen.err) {
			n.told.err = seen.err
			out.Failed = append(out.Failed, cache.Failure{Key: n.key, Error: *seen.err})
		}
	case absent:
		if n.told.state != absent {
			out.Removed = append(out.Removed, n.key)
			n.told = told{state: absent}
		}
	case failed:
		n.fail(out, seen)
	}
}

// found tells content.
func (n *node) found(out *cache.Resolved, seen *sight) {
	out.Found = append(out.Found, cache.Found{Key: n.key, Resource: seen.res.WithoutTTL()})
	n.told = told{state: seen.state, from: seen.from, at: seen.at, holds: true}
	n.resolver.brought(n.typeURL, seen.from.tap, seen.from.typeURL, seen.from.change)
}

// said reports whether an error was told last.
func (n *node) said(err *wire.ResourceError) bool { return n.told.err != nil && *n.told.err == *err }

// fail tells an error, once.
func (n *node) fail(out *cache.Resolved, seen *sight) {
	if (seen.harmless && n.told.holds) || (n.told.state == failed && n.said(seen.err)) {
		return
	}
	out.Failed = append(out.Failed, cache.Failure{Key: n.key, Error: *seen.err})
	n.told = told{state: failed, err: seen.err, holds: n.told.holds && seen.err.Transient()}
	if seen.reason != "" {
		n.resolver.config.Observer.Failed(seen.reason)
	}
}

// end lets go of everything.
func (n *node) end() {
	n.ended = true
	for _, l := range n.leads {
		l.leave(n)
	}
	n.leads = nil
}
