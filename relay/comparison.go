package relay

import (
	"slices"
	"sync"
	"sync/atomic"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
)

// comparison knows why a session's clients share it, and in what their nodes differ: the
// control plane sees one node for all of them, without what they differ in, or the first
// one's. It keeps names of fields, never values (OPS-6).
type comparison struct {
	node *corev3.Node // of the client for which the session began; immutable

	mu    sync.Mutex
	plan  *plan         // by which the rest was worked out; guarded by mu, as all of it
	known sharing.Scope // rule, parts and so on; of Unmentioned nothing
	found sharing.Fields
}

// join notes that a client was put here by a plan. began says that the session was
// started for it. It reports whether the client's node is to be compared with that of the
// first client: not if it is that one, nor where clients have to be equal to meet.
//
// After a reload streams come here anew, one after the other. What one brings that has
// yet to hear of the plan in force is passed over: now is asked under the lock, so that
// the comparison never goes back to a former plan.
func (c *comparison) join(now *atomic.Pointer[plan], p *plan, d *rules.Decision, node string, began bool) (compare bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if began {
		c.known.First = clipped(node)
	}
	if p != now.Load() {
		return false
	}
	if c.plan != p {
		first := c.known.First
		c.plan, c.found = p, sharing.Fields{}
		c.known = sharing.Scope{
			Rule: d.Rule, Parts: d.Parts, Isolated: sharing.Isolated(d, p.rules.Policy()), First: first,
		}
		if d.Failed != nil {
			c.known.Failed = sharing.Reason(d.Failed)
		}
	}
	return !began && !c.known.Isolated && !c.found.Full()
}

// add takes fields that were found to differ under a plan, unless there is another one by
// now, and reports whether it did.
func (c *comparison) add(p *plan, fields []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.plan != p {
		return false
	}
	c.found.Add(fields)
	return true
}

// differs reports whether clients differ in a field that no rule of a plan mentions.
func (c *comparison) differs(now *plan) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plan == now && len(c.found.Names) > 0
}

// view shows what is known. What was found under another plan than the present one may
// be mentioned now.
func (c *comparison) view(now *plan) sharing.Scope {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.known
	if c.plan == now {
		v.Unmentioned, v.More = slices.Clone(c.found.Names), c.found.More
	}
	return v
}

// compare has a session's comparison look at a client that was put there.
func (r *router) compare(s *session, p *plan, d *rules.Decision, node string, began bool) {
	if !s.comparison.join(&r.now, p, d, node, began) {
		return
	}
	if to := p.planes[s.key.plane]; to != nil && to.outages == nil {
		return // files are the same for each node
	}
	// Outside of the lock: nodes may be large.
	fields := p.rules.Unmentioned(d.Rule, s.comparison.node, d.Client)
	if len(fields) > 0 && s.comparison.add(p, fields) {
		r.decided.differing(s.key, d.Rule, fields)
	}
}
