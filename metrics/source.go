package metrics

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// Source gives the numbers that are read at each scrape. Its methods are called from any
// goroutine, by several scrapes at once.
type Source interface {
	// CacheTotals gives the totals that the cache's limits apply to, and the number of
	// names and collections that no client subscribes to now.
	CacheTotals() (resources, bytes int64, unwatched int)
	// Sessions lists the sessions that are running.
	Sessions() []SessionStats
	// Scopes counts the scopes of the aggregation rules, and the scopes whose clients
	// differ in a field that no rule mentions.
	Scopes() (scopes, unmentioned int)
}

// SessionStats is one session: the relay's side towards one upstream for one scope.
// It has the values of upstream.Status and cache.Store.Stats.
type SessionStats struct {
	Upstream string
	State    upstream.State
	Since    time.Time // of State
	Tables   []cache.TypeStats
}

// Collect registers src for every scrape from now on. The error says that there is a
// registered Source already.
func (m *Metrics) Collect(src Source) error {
	if err := m.reg.Register(newSourceCollector(m, src)); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// sourceCollector asks a Source for each scrape.
type sourceCollector struct {
	metrics *Metrics
	source  Source

	resources, bytes, unwatched *prometheus.Desc
	sessions, staleness         *prometheus.Desc
	scopes, unmentioned         *prometheus.Desc
	tables                      []tableDesc
}

// tableDesc is one number of each upstream's tables of each type.
type tableDesc struct {
	desc  *prometheus.Desc
	value func(*tableSum) float64
}

// tableSum adds up tables.
type tableSum struct {
	subscriptions, collections, tombstones, followers, pins int
	resources, bytes, watchers                              int64
}

func newSourceCollector(m *Metrics, src Source) *sourceCollector {
	desc := func(subsystem, name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, name), help, labels, nil)
	}
	table := func(subsystem, name, help string, value func(*tableSum) float64) tableDesc {
		return tableDesc{desc(subsystem, name, help, labelUpstream, labelType), value}
	}
	return &sourceCollector{
		metrics:   m,
		source:    src,
		resources: desc("cache", "resources", "Cached resources, counted as for cache.max_resources."),
		bytes:     desc("cache", "bytes", "Encoded size of the cached resources, counted as for cache.max_bytes."),
		unwatched: desc("cache", "unwatched", "Cached names and collections that no client subscribes to now. The relay evicts only these."),
		sessions:  desc("upstream", "sessions", "Sessions with the upstream, by state. There is one for each scope.", labelUpstream, labelState),
		staleness: desc("upstream", "staleness_seconds",
			"The longest time for which a session with the upstream has needed resources but had no stream; 0 if there is no such session.",
			labelUpstream),
		scopes: desc("aggregation", "scopes", "Scopes of the aggregation rules, including lingering scopes without a client."),
		unmentioned: desc("aggregation", "scopes_with_unmentioned_fields",
			"Scopes whose clients' nodes differ in a field that no aggregation rule mentions."),
		tables: []tableDesc{
			table("upstream", "subscriptions", "Names and collections that the relay is subscribed to.",
				func(t *tableSum) float64 { return float64(t.subscriptions) }),
			table("table", "resources", "Cached resources of the upstream.",
				func(t *tableSum) float64 { return float64(t.resources) }),
			table("table", "bytes", "Encoded size of the cached resources of the upstream.",
				func(t *tableSum) float64 { return float64(t.bytes) }),
			table("table", "collections", "Cached globs and whole types of the upstream.",
				func(t *tableSum) float64 { return float64(t.collections) }),
			table("table", "tombstones", "Removed members of collections that some client does not know of yet.",
				func(t *tableSum) float64 { return float64(t.tombstones) }),
			table("table", "followers", "Clients' subscriptions to the upstream's collections.",
				func(t *tableSum) float64 { return float64(t.followers) }),
			table("table", "watchers", "Clients' subscriptions to the upstream's resources by name.",
				func(t *tableSum) float64 { return float64(t.watchers) }),
			table("table", "pins", "Names and globs of the upstream that the relay fetches ahead.",
				func(t *tableSum) float64 { return float64(t.pins) }),
		},
	}
}

// Describe implements prometheus.Collector.
func (c *sourceCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.resources, c.bytes, c.unwatched, c.sessions, c.staleness, c.scopes, c.unmentioned} {
		ch <- d
	}
	for _, t := range c.tables {
		ch <- t.desc
	}
}

// upstreamSum adds up the sessions of one upstream.
type upstreamSum struct {
	sessions map[upstream.State]int
	stale    time.Duration
	types    [kinds]tableSum
}

func newUpstreamSum() *upstreamSum {
	u := &upstreamSum{sessions: make(map[upstream.State]int, len(states))}
	for _, st := range states {
		u.sessions[st] = 0
	}
	return u
}

// Collect implements prometheus.Collector.
func (c *sourceCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	resources, bytes, unwatched := c.source.CacheTotals()
	gauge(c.resources, float64(resources))
	gauge(c.bytes, float64(bytes))
	gauge(c.unwatched, float64(unwatched))
	scopes, unmentioned := c.source.Scopes()
	gauge(c.scopes, float64(scopes))
	gauge(c.unmentioned, float64(unmentioned))
	for name, u := range c.sums(time.Now()) {
		for state, n := range u.sessions {
			gauge(c.sessions, float64(n), name, string(state))
		}
		gauge(c.staleness, u.stale.Seconds(), name)
		for k := range u.types {
			for _, t := range c.tables {
				gauge(t.desc, t.value(&u.types[k]), name, shortNames[k])
			}
		}
	}
}

// sums adds the sessions up by upstream. Upstreams without a session have zeros.
func (c *sourceCollector) sums(now time.Time) map[string]*upstreamSum {
	sums := make(map[string]*upstreamSum)
	for _, name := range c.metrics.names() {
		sums[name] = newUpstreamSum()
	}
	for _, s := range c.source.Sessions() {
		u := sums[s.Upstream]
		if u == nil {
			u = newUpstreamSum()
			sums[s.Upstream] = u
		}
		u.add(s, now)
	}
	return sums
}

func (u *upstreamSum) add(s SessionStats, now time.Time) {
	u.sessions[s.State]++
	// An idle session has nothing that could be stale (OPS-1).
	if s.State == upstream.StateConnecting {
		u.stale = max(u.stale, now.Sub(s.Since))
	}
	for _, t := range s.Tables {
		sum := &u.types[kindOf(t.TypeURL)]
		sum.subscriptions += t.Subscriptions
		sum.collections += t.Collections
		sum.tombstones += t.Tombstones
		sum.followers += t.Followers
		sum.pins += t.Pins
		sum.resources += t.Resources
		sum.bytes += t.Bytes
		sum.watchers += t.Watchers
	}
}
