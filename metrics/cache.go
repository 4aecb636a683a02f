package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/cache"
)

// cacheSeries counts the reports of the cache. The cache holds locks during a report, so
// newCacheSeries resolves every child.
type cacheSeries struct {
	types []cacheType
}

type cacheType struct {
	hits, misses, unsolicited, foreign, expired, held, wentBack prometheus.Counter
	evictions                                                   map[cache.Reason]prometheus.Counter // read only
}

var _ cache.Observer = (*cacheSeries)(nil)

func newCacheSeries(s *set) *cacheSeries {
	lookups := s.counter("cache", "lookups_total",
		"New subscriptions of clients to a name, a glob or a whole type: the relay knew the answer (hit) or had to ask the upstream (miss).",
		labelType, labelResult)
	evictions := s.counter("cache", "evictions_total",
		"Names and collections without a subscribed client that the relay evicted.", labelType, labelReason)
	unsolicited := s.counter("cache", "unsolicited_resources_total",
		"Resources that an upstream sent without a request. The relay ignores them.", labelType)
	foreign := s.counter("cache", "foreign_resources_total",
		"Resources that an upstream sent for a whole type under an xdstp name of another upstream's authority. The relay ignores them.", labelType)
	expired := s.counter("cache", "expired_resources_total",
		"Resources that the relay dropped because their ttl ended.", labelType)
	held := s.counter("cache", "held_losses_total",
		"Losses of many resources at once that the relay held back from clients.", labelType)
	wentBack := s.counter("cache", "went_back_total",
		"Resources that a new stream of an upstream brought with older content than clients had, where these were many.", labelType)
	c := &cacheSeries{types: make([]cacheType, len(shortNames))}
	for k, name := range shortNames {
		c.types[k] = cacheType{
			hits:        lookups.WithLabelValues(name, "hit"),
			misses:      lookups.WithLabelValues(name, "miss"),
			unsolicited: unsolicited.WithLabelValues(name),
			foreign:     foreign.WithLabelValues(name),
			expired:     expired.WithLabelValues(name),
			held:        held.WithLabelValues(name),
			wentBack:    wentBack.WithLabelValues(name),
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

// Evicted implements cache.Observer. It ignores reasons that cache.Reasons does not list;
// by its contract there are none.
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

// Expired implements cache.Observer.
func (c *cacheSeries) Expired(typeURL string) { c.of(typeURL).expired.Inc() }

// WentBack implements cache.Observer.
func (c *cacheSeries) WentBack(_, typeURL string, n int) {
	c.of(typeURL).wentBack.Add(float64(n))
}

// Held implements cache.Observer. It counts the beginnings.
func (c *cacheSeries) Held(h cache.Held) {
	if h.Ended == "" {
		c.of(h.TypeURL).held.Inc()
	}
}
