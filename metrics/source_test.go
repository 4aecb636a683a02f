package metrics

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/upstream"
)

type fakeSource struct {
	resources, bytes    int64
	unwatched           int
	sessions            []SessionStats
	scopes, unmentioned int
}

func (f fakeSource) CacheTotals() (resources, bytes int64, unwatched int) {
	return f.resources, f.bytes, f.unwatched
}

func (f fakeSource) Sessions() []SessionStats { return f.sessions }

func (f fakeSource) Scopes() (scopes, unmentioned int) { return f.scopes, f.unmentioned }

func TestSource(t *testing.T) {
	m, reg := setUp(t)
	table := func(url string) cache.TypeStats {
		return cache.TypeStats{
			TypeURL: url, Kind: "named", Stream: "ads#2", Subscriptions: 1, Collections: 2,
			Resources: 3, Bytes: 4, Tombstones: 5, Followers: 6, Watchers: 7,
		}
	}
	err := m.Collect(fakeSource{
		resources: 10, bytes: 1000, unwatched: 4, scopes: 8, unmentioned: 3,
		sessions: []SessionStats{
			{Upstream: "primary", State: upstream.StateConnected, Tables: []cache.TypeStats{
				table(clusterURL), table(clusterURL), table(unknownURL),
			}},
			{Upstream: "primary", State: upstream.StateConnected, Tables: []cache.TypeStats{table(clusterURL)}},
			{Upstream: "primary", State: upstream.StateIdle},
			{Upstream: "added later", State: upstream.StateIdle},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		`cache_resources`: 10, `cache_bytes`: 1000, `cache_unwatched`: 4,
		`aggregation_scopes`: 8, `aggregation_scopes_with_unmentioned_fields`: 3,
		`upstream_sessions{state="connected",upstream="primary"}`: 2,
		`upstream_sessions{state="idle",upstream="primary"}`:      1,
		`upstream_sessions{state="idle",upstream="added later"}`:  1,
	}
	for name, n := range map[string]float64{
		"upstream_subscriptions": 1, "table_collections": 2, "table_resources": 3, "table_bytes": 4,
		"table_tombstones": 5, "table_followers": 6, "table_watchers": 7,
	} {
		want[name+`{type="cds",upstream="primary"}`] = 3 * n
		want[name+`{type="other",upstream="primary"}`] = n
	}
	expect(t, reg, want)
}

// TestStaleness: OPS-1, the age of what clients get while a server is gone is that
// of the session that has been without it for the longest time.
func TestStaleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reg := setUp(t)
		now := time.Now() // it stands still in the bubble
		sessions := []SessionStats{
			{Upstream: "primary", State: upstream.StateConnected, Since: now.Add(-time.Hour)},
			{Upstream: "primary", State: upstream.StateConnecting, Since: now.Add(-4 * time.Minute)},
			{Upstream: "primary", State: upstream.StateConnecting, Since: now.Add(-3 * time.Minute)},
			{Upstream: "backup", State: upstream.StateIdle, Since: now.Add(-time.Hour)},
		}
		if err := m.Collect(fakeSource{sessions: sessions}); err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{
			`upstream_sessions{state="connected",upstream="primary"}`:  1,
			`upstream_sessions{state="connecting",upstream="primary"}`: 2,
			`upstream_sessions{state="idle",upstream="backup"}`:        1,
			`upstream_staleness_seconds{upstream="primary"}`:           240,
		}
		expect(t, reg, want)

		for i := range sessions {
			sessions[i].State = upstream.StateConnected
		}
		expect(t, reg, map[string]float64{
			`upstream_sessions{state="connected",upstream="primary"}`: 3,
			`upstream_sessions{state="connected",upstream="backup"}`:  1,
		})
	})
}
