package delivery

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/smallmap"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// isNew reports whether the client was not sent a member before this Collect, or was told of
// the member's removal since. Unlike mayHave it does not count what this Collect sent: the
// member may be younger, and have changed after it.
func (p *delivery) isNew(f *follower, e *cache.Entry) bool {
	if f.typeSub.list.mayHaveAll() {
		return false
	}
	return e.Added() > f.sentBefore || e.CameBack(f.sentBefore, f.Removed())
}

// look forgets clusters whose endpoints the client has from a place, and accepted.
func (s *Subscriber) look(c *Place, due *schedule) {
	if len(s.clusters) == 0 {
		return
	}
	w := c.find(xds.EndpointType)
	if w == nil || due.Acks(xds.EndpointType) != Acknowledged {
		return
	}
	for name := range s.clusters {
		if w.subs.has(name) {
			s.clusters = smallmap.Without(s.clusters, name)
		}
	}
}

// sendEndpoints has the endpoints of the clusters that were sent go again behind them, and
// listeners and routes wait for those of new clusters. It reports whether anything is due now.
func (s *Subscriber) sendEndpoints(p *delivery, due *schedule) (more bool) {
	if p.afresh && !s.form.State {
		for _, c := range s.places {
			if w := c.find(xds.EndpointType); w != nil {
				w.held.doubt() // the client was sent all clusters, and waits for their endpoints
				for f := range w.subs.each() {
					f.held.doubt()
				}
			}
		}
	}
	leads := s.leadsTraffic()
	for _, cluster := range p.clusters {
		isNew := cluster.isNew || cluster.mayBeNew && !s.asksFor(cluster.endpoints)
		if isNew && leads && due.WarmWait > 0 {
			if len(s.clusters) == 0 {
				s.clusters, s.since = make(map[string]struct{}), due.now()
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

// asksFor reports whether the client subscribes to endpoints.
func (s *Subscriber) asksFor(endpoints string) bool {
	return slices.ContainsFunc(s.places, func(c *Place) bool {
		w := c.find(xds.EndpointType)
		return w != nil && w.subs.names.get(endpoints) != nil
	})
}

// hasClusters takes the endpoints that a client asks for first on its stream, when it comes back: it has their
// clusters from before, and does not wait for them.
func (s *Subscriber) hasClusters(ch *Change) {
	if s == nil || len(s.clusters) == 0 || ch.TypeURL != xds.EndpointType || ch.VersionInfo == "" && ch.Versions.Len() == 0 || s.asksForEndpoints() {
		return
	}
	for _, n := range ch.Subscribe {
		if _, waits := s.clusters[n.Spelling]; waits {
			s.clusters = smallmap.Without(s.clusters, n.Spelling)
		}
	}
}

// warms reports whether it matters which clusters a Collect sends: the client's endpoints go
// again behind them (WARM-3), or its listeners and routes wait for them (WARM-4).
func (s *Subscriber) warms(due *schedule) bool {
	if due.WarmWait > 0 && s.leadsTraffic() {
		return true
	}
	return !due.state && s.asksForEndpoints()
}

// leadsTraffic reports whether the client has listeners or routes, which may lead traffic to
// clusters: where there is none, none can break. A client that comes back with clusters may have
// some, and show them only after it was sent new clusters.
func (s *Subscriber) leadsTraffic() bool {
	return slices.ContainsFunc(s.places, func(c *Place) bool {
		return slices.ContainsFunc(c.types, func(w *typeSub) bool {
			return w.rank.FollowsClusters() && w.progress.led || w.rank == xds.RankCluster && w.progress.shown
		})
	})
}

// NewClusters takes the endpoints, by name, of the clusters of which they are waited for: the client asks for them on another
// stream. Nil: there are none.
func (s *Subscriber) NewClusters() (endpoints map[string]struct{}) {
	endpoints, s.clusters = s.clusters, nil
	return endpoints
}

// HasEndpoints reports whether the client was sent endpoints that it subscribes to.
func (s *Subscriber) HasEndpoints(name string) bool {
	return slices.ContainsFunc(s.places, func(c *Place) (has bool) {
		if w := c.find(xds.EndpointType); w != nil {
			c.store.View(func() { has = w.subs.has(name) })
		}
		return has
	})
}

// Told reports whether something is known of what the client subscribes to of a type, and it was sent all of that.
func (s *Subscriber) Told(typeURL string) bool {
	return !slices.ContainsFunc(s.places, func(c *Place) (lacks bool) {
		if w := c.find(typeURL); w != nil {
			c.store.View(func() { lacks = !w.subs.anyKnown() || w.list.mayHaveAll() || w.additionsDue() })
		}
		return lacks
	})
}

// asksForEndpoints reports whether the client subscribes to any.
func (s *Subscriber) asksForEndpoints() bool {
	return slices.ContainsFunc(s.places, func(c *Place) bool { return c.find(xds.EndpointType) != nil })
}

// sendEndpoints has endpoints sent again that the client subscribes to.
func (c *Place) sendEndpoints(name string) (due bool) {
	w := c.find(xds.EndpointType)
	if w == nil {
		return false
	}
	c.store.View(func() { due = w.sendEndpoints(name) })
	return due
}

// sendEndpoints does so for the subscriptions to endpoints. The caller holds the store's lock for
// reading.
func (w *typeSub) sendEndpoints(name string) (due bool) {
	if sub := w.subs.names.get(name); sub != nil {
		w.held.drop(sub.entry.Key()) // RES-11 yields
		if sub.response > w.progress.before {
			return false // they went behind the cluster in this Collect
		}
		sub.heartbeat = false
		if sub.exists() {
			sub.makeDue()
		}
		return sub.dirty
	}
	for f := range w.subs.cursors() {
		if e := f.Collection().Table().Find(name); e != nil && f.Passed(e) && e.Changed() <= f.sentBefore && !f.hides(e) && !w.subs.byName(f, e.Key()) {
			w.answers.owe(cache.Name{Spelling: f.name.of(e), Key: e.Key()})
			return true
		}
	}
	return false
}
