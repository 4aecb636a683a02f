package relay

import "github.com/xdsrelay/xdsrelay/metrics"

// source is what metrics asks for with each scrape.
type source struct{ relay *Relay }

// CacheTotals implements metrics.Source.
func (s source) CacheTotals() (resources, bytes int64, unwatched int) {
	c := s.relay.cache
	return c.Resources(), c.Bytes(), c.Unwatched()
}

// Sessions implements metrics.Source.
func (s source) Sessions() []metrics.SessionStats {
	sessions := s.relay.hub.all()
	stats := make([]metrics.SessionStats, 0, len(sessions))
	for _, x := range sessions {
		if x.key.resolved {
			continue // what it holds the upstreams' sessions hold too
		}
		st := x.client.Status()
		stats = append(stats, metrics.SessionStats{
			Upstream: x.key.plane, State: st.State, Since: st.Since, Tables: x.store.Stats(),
		})
	}
	return stats
}

// Scopes implements metrics.Source.
func (s source) Scopes() (scopes, unmentioned int) {
	now := s.relay.router.now.Load()
	for _, x := range s.relay.hub.all() {
		if x.key.scope == xdstpScope {
			continue
		}
		scopes++
		if x.guard.differs(now) {
			unmentioned++
		}
	}
	return scopes, unmentioned
}
