package metrics

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

func TestCache(t *testing.T) {
	m, reg := setUp(t)
	c := m.Cache()
	c.Lookup(clusterURL, true)
	c.Lookup(clusterURL, true)
	c.Lookup(clusterURL, false)
	c.Evicted(endpointURL, cache.ReasonIdle)
	c.Evicted(endpointURL, cache.ReasonBytes)
	c.Evicted(endpointURL, "not listed")
	c.Unsolicited(unknownURL, 7)
	c.Foreign("plane", clusterURL, "name", 3)
	c.Expired(clusterURL)
	c.Held(cache.Held{TypeURL: clusterURL})
	c.Held(cache.Held{TypeURL: clusterURL, Ended: cache.EndedByReturn})
	expect(t, reg, map[string]float64{
		`cache_lookups_total{result="hit",type="cds"}`:     2,
		`cache_lookups_total{result="miss",type="cds"}`:    1,
		`cache_evictions_total{reason="idle",type="eds"}`:  1,
		`cache_evictions_total{reason="bytes",type="eds"}`: 1,
		`cache_unsolicited_resources_total{type="other"}`:  7,
		`cache_foreign_resources_total{type="cds"}`:        3,
		`cache_expired_resources_total{type="cds"}`:        1,
		`cache_held_losses_total{type="cds"}`:              1,
	})
}
