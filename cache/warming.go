package cache

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const endpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"

// warming is what a stream remembers of the clusters that it sent.
//
// A client that gets a new or changed cluster of type EDS waits for the cluster's
// endpoints. An incremental one does not ask for them again, so that they are sent again
// behind the cluster (WARM-3). And traffic is not to be led to a new cluster before the
// client has its endpoints: listeners and routes that came with the cluster wait for them a
// while (WARM-4).
type warming struct {
	clusters map[string]struct{} // endpoints of new clusters, by their name
	since    time.Time           // when the oldest of these clusters was sent
}

// sentCluster is what a pass notes of a cluster of type EDS that it sends.
type sentCluster struct {
	endpoints string // name of its ClusterLoadAssignment
	isNew     bool
}

// cluster notes that a cluster is being sent, to a client that had it with another content
// unless it is new.
func (p *pass) cluster(r *wire.Resource, isNew bool) {
	p.watch.led = true
	if !p.warms || p.watch.rank != RankCluster {
		return
	}
	name, ok := r.ClusterEndpoints()
	if !ok {
		return
	}
	p.clusters = append(p.clusters, sentCluster{name, isNew})
}

// comeback is when a cluster was removed that is there again, and when it came.
type comeback struct{ removed, came uint64 }

// comesBack notes that a tombstone becomes a member with a change: clients that were told
// of the removal will have to wait for the cluster's endpoints as for a new one's.
func (e *entry) comesBack(n uint64) {
	if RankOf(e.coll.table.typeURL) == RankCluster {
		e.setBack(comeback{removed: e.changed, came: n})
	}
}

// isNew reports whether the client was not sent a member before the pass that sends it, or
// was told of the member's removal since. Unlike mayHave it does not count what the pass
// has sent: the member may be younger than that, and have changed after it.
func (f *cursor) isNew(e *entry) bool {
	if f.mayHaveAll() {
		return false
	}
	return e.added > f.reached || (e.back.came > f.reached && e.back.removed <= f.removed)
}

// look forgets clusters whose endpoints the client has from a place, and accepted.
func (s *Subscriber) look(c *Client, q *question) {
	if len(s.clusters) == 0 {
		return
	}
	w := c.find(endpointType)
	if w == nil || q.Acks(endpointType) != Acknowledged {
		return
	}
	for name := range s.clusters {
		if w.has(name) {
			s.clusters = without(s.clusters, name)
		}
	}
}

// has reports whether the client was sent what it subscribes to under a name.
func (w *watch) has(name string) bool {
	if sub := w.names.get(name); sub != nil {
		return sub.entry.there() && !sub.dirty
	}
	for f := range w.cursors() {
		if e := f.coll.table.entries[name]; e != nil && f.passed(e) {
			return true
		}
	}
	return false
}

// holds reports whether listeners and routes wait for endpoints (WARM-4).
func (s *Subscriber) holds(q *question) bool {
	if len(s.clusters) == 0 {
		return false
	}
	end := s.since.Add(q.WarmWait)
	if !q.now().Before(end) {
		s.clusters = nil
		return false
	}
	q.later(end)
	return true
}

// sendEndpoints has the endpoints of the clusters that a pass sent go again behind them,
// and listeners and routes wait for those of new clusters. It reports whether anything is
// due now.
func (s *Subscriber) sendEndpoints(p *pass, q *question) (more bool) {
	if p.afresh && !s.form.State {
		for _, c := range s.places {
			if w := c.find(endpointType); w != nil {
				w.distrustHeld()
			}
		}
	}
	leads := s.leadsTraffic()
	for _, cluster := range p.clusters {
		if cluster.isNew && leads && q.WarmWait > 0 {
			if len(s.clusters) == 0 {
				s.clusters, s.since = make(map[string]struct{}), q.now()
			}
			s.clusters[cluster.endpoints] = struct{}{}
		}
		if s.form.State {
			continue // the client asks for them by itself
		}
		for _, c := range s.places {
			more = c.sendEndpoints(cluster.endpoints) || more
		}
	}
	return more
}

// warms reports whether it matters which clusters a pass sends: the client's endpoints go
// again behind them (WARM-3), or its listeners and routes wait for them (WARM-4).
func (s *Subscriber) warms(q *question) bool {
	if q.WarmWait > 0 && s.leadsTraffic() {
		return true
	}
	return !q.state && slices.ContainsFunc(s.places, func(c *Client) bool { return c.find(endpointType) != nil })
}

// leadsTraffic reports whether the client has listeners or routes, which may lead traffic
// to clusters: where there is none, none can break.
func (s *Subscriber) leadsTraffic() bool {
	for _, c := range s.places {
		for _, w := range c.watches {
			if w.rank.followsClusters() && w.led {
				return true
			}
		}
	}
	return false
}

// sendEndpoints has endpoints sent again that the client subscribes to.
func (c *Client) sendEndpoints(name string) (due bool) {
	w := c.find(endpointType)
	if w == nil {
		return false
	}
	c.store.mu.RLock()
	defer c.store.mu.RUnlock()
	if sub := w.names.get(name); sub != nil {
		w.held = without(w.held, sub.entry.key) // RES-11 yields
		if sub.response > w.before {
			return false // they went behind the cluster in this pass
		}
		sub.heartbeat = false
		if sub.entry.there() {
			sub.makeDue()
		}
		return sub.dirty
	}
	for f := range w.cursors() {
		if e := f.coll.table.entries[name]; e != nil && f.passed(e) && e.changed <= f.reached && !f.byName(e.key) {
			w.owe(Name{Spelling: f.spell(e), Key: e.key})
			return true
		}
	}
	return false
}

// distrustHeld has the versions that the client presented count as other ones: it was sent
// all clusters, and waits for their endpoints.
func (w *watch) distrustHeld() {
	for key := range w.held {
		w.held[key] = ""
	}
	for f := range w.cursors() {
		f.versions.doubt()
	}
}
