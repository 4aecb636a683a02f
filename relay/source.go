package relay

import (
	"time"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/metrics"
	"github.com/xdsrelay/xdsrelay/relay/load"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// source is what metrics asks for with each scrape. It asks in goroutines of its own, where nobody
// else catches a panic.
type source struct{ relay *Relay }

// asked gives what f says; the zero value if it panics.
func asked[T any](s source, f func() T) (v T) {
	_ = s.relay.panics.Do(logs.PartAdmin, func() { v = f() })
	return v
}

// CacheTotals implements metrics.Source.
func (s source) CacheTotals() (resources, bytes int64, unwatched int) {
	c := s.relay.cache
	return c.Resources(), c.Bytes(), c.Unwatched()
}

// PastBytes implements metrics.Source.
func (s source) PastBytes() int64 { return s.relay.cache.Past() }

// Memory implements metrics.Source.
func (s source) Memory() (used, limit int64) { return s.relay.memory.Used(), s.relay.memory.Limit() }

// Admission implements metrics.Source.
func (s source) Admission() load.Status { return s.relay.admission.Status() }

// Connections implements metrics.Source.
func (s source) Connections() (present, waiting int) { return s.relay.connections.Count() }

// Clients implements metrics.Source.
func (s source) Clients() map[string]map[downstream.ClientState]int {
	return asked(s, s.relay.server.Census)
}

// Passed implements metrics.Source.
func (s source) Passed() map[string]int {
	return asked(s, func() map[string]int {
		all := s.relay.passage.Count()
		present, retired := s.relay.hub.census()
		for name := range present {
			all[name] += 0
		}
		for _, p := range retired {
			all[p.name] += 0
		}
		return all
	})
}

// Certificates implements metrics.Source.
func (s source) Certificates() (all []metrics.Certificate) {
	for _, c := range certificates(s.relay.now.Load().config) {
		all = append(all, metrics.Certificate{Key: c.Key, From: c.From, Expires: c.Expires})
	}
	return all
}

// KeyAges implements metrics.Source.
func (s source) KeyAges() map[string]time.Duration {
	all := make(map[string]time.Duration)
	for _, p := range s.relay.ports {
		for issuer, age := range p.Listener.Tokens().KeyAges() {
			all[issuer] = max(all[issuer], age)
		}
	}
	return all
}

// Sessions implements metrics.Source.
func (s source) Sessions() []metrics.SessionStats { return asked(s, s.sessions) }

func (s source) sessions() []metrics.SessionStats {
	sessions := s.relay.hub.all()
	stats := make([]metrics.SessionStats, 0, len(sessions))
	for _, x := range sessions {
		if x.key.resolved {
			continue // what it holds the upstreams' sessions hold too
		}
		st := x.client.Status()
		now := metrics.SessionStats{Upstream: x.key.plane, State: st.State, Since: st.Since, Stale: st.Freshness.Stale, Tables: x.store.Stats()}
		now.Restored, now.RestoredAsOf = x.store.Snapshots().Restored()
		if x.loads != nil {
			now.Loads = x.loads.Status()
		}
		stats = append(stats, now)
	}
	return stats
}

// Replicas implements metrics.Source.
func (s source) Replicas() []metrics.ReplicaStats { return asked(s, s.replicas) }

func (s source) replicas() (stats []metrics.ReplicaStats) {
	sessions := s.relay.hub.all()
	for name, p := range s.relay.hub.present() {
		for x, n := range s.relay.hub.served(p, sessions) {
			if x.Spare {
				continue
			}
			stats = append(stats, metrics.ReplicaStats{
				Upstream: name, Priority: x.Priority, Unreachable: !x.UnreachableSince.IsZero(), Silent: !x.SilentSince.IsZero(), Sessions: n,
			})
		}
	}
	return stats
}

// Contacts implements metrics.Source.
func (s source) Contacts() map[string]upstream.Contact { return asked(s, s.contacts) }

func (s source) contacts() map[string]upstream.Contact {
	contacts := make(map[string]upstream.Contact)
	present, retired := s.relay.hub.census()
	for _, p := range retired { // one of its name that is in use counts
		if p.outages != nil {
			contacts[p.name] = p.outages.Contact()
		}
	}
	for name, p := range present {
		if p.outages != nil {
			contacts[name] = p.outages.Contact()
		}
	}
	return contacts
}

// Workloads implements metrics.Source.
func (s source) Workloads() credentials.WorkloadState { return s.relay.workloads.State() }

// Scopes implements metrics.Source.
func (s source) Scopes() (scopes, unmentioned int) {
	_ = s.relay.panics.Do(logs.PartAdmin, func() { scopes, unmentioned = s.scopes() })
	return scopes, unmentioned
}

func (s source) scopes() (scopes, unmentioned int) {
	now := s.relay.router.now.Load()
	for _, x := range s.relay.hub.all() {
		if x.key.scope == xdstpScope {
			continue
		}
		scopes++
		if x.comparison.differs(now) {
			unmentioned++
		}
	}
	return scopes, unmentioned
}
