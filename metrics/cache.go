package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/cache"
)

// cacheSeries counts what the cache reports. The cache holds locks meanwhile, so
// every child is resolved beforehand.
type cacheSeries struct {
	types [kinds]cacheType
}

type cacheType struct {
	hits, misses, unsolicited, foreign, expired, ambiguous prometheus.Counter
	evictions                                              map[cache.Reason]prometheus.Counter // read only
}

var _ cache.Observer = (*cacheSeries)(nil)

func newCacheSeries(s *set) *cacheSeries {
	lookups := s.counter("cache", "lookups_total",
		"New subscriptions of clients to a name, a glob or a whole type, by whether the relay knew it already (hit) or had to ask (miss).",
		labelType, labelResult)
	evictions := s.counter("cache", "evictions_total",
		"Names and collections without a watcher that were let go.", labelType, labelReason)
	unsolicited := s.counter("cache", "unsolicited_resources_total",
		"Resources that a server sent unasked, which are left out.", labelType)
	foreign := s.counter("cache", "foreign_resources_total",
		"Resources that a server sent for a whole type under an xdstp name of another upstream's authority, which are left out.", labelType)
	expired := s.counter("cache", "expired_resources_total",
		"Resources that outlived their ttl and were dropped.", labelType)
	ambiguous := s.counter("cache", "ambiguous_variants_total",
		"Names, once for each response, of which a server has more than one variant for the same dynamic parameters.", labelType)
	c := new(cacheSeries)
	for k, name := range shortNames {
		c.types[k] = cacheType{
			hits:        lookups.WithLabelValues(name, "hit"),
			misses:      lookups.WithLabelValues(name, "miss"),
			unsolicited: unsolicited.WithLabelValues(name),
			foreign:     foreign.WithLabelValues(name),
			expired:     expired.WithLabelValues(name),
			ambiguous:   ambiguous.WithLabelValues(name),
			evictions:   make(map[cache.Reason]prometheus.Counter),
		}
		for _, r := range cache.Reasons() {
			c.types[k].evictions[r] = evictions.WithLabelValues(name, string(r))
		}
	}
	return c
}

func (c *cacheSeries) of(typeURL string) *cacheType { return &c.types[kindOf(typeURL)] }

// Lookup implements cache.Observer.
func (c *cacheSeries) Lookup(typeURL string, hit bool) {
	if hit {
		c.of(typeURL).hits.Inc()
		return
	}
	c.of(typeURL).misses.Inc()
}

// Evicted implements cache.Observer. cache.Reasons is complete by its contract;
// what it left out is not counted.
func (c *cacheSeries) Evicted(typeURL string, reason cache.Reason) {
	if n := c.of(typeURL).evictions[reason]; n != nil {
		n.Inc()
	}
}

// Unsolicited implements cache.Observer.
func (c *cacheSeries) Unsolicited(typeURL string, n int) {
	c.of(typeURL).unsolicited.Add(float64(n))
}

// Foreign implements cache.Observer.
func (c *cacheSeries) Foreign(_, typeURL, _ string, n int) {
	c.of(typeURL).foreign.Add(float64(n))
}

// Ambiguous implements cache.Observer.
func (c *cacheSeries) Ambiguous(typeURL, _ string) { c.of(typeURL).ambiguous.Inc() }

// Expired implements cache.Observer.
func (c *cacheSeries) Expired(typeURL string) { c.of(typeURL).expired.Inc() }
