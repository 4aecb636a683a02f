package xds

import "testing"

// Clusters and endpoints are removed last, and listeners, routes and virtual hosts lead to clusters (ADS-1).
func TestRanks_ADS1(t *testing.T) {
	for _, tc := range []struct {
		rank           Rank
		waits, follows bool
	}{
		{RankCluster, true, false}, {RankEndpoint, true, false}, {RankListener, false, true},
		{RankFilterChain, false, true},
		{RankRoute, false, true}, {RankVirtualHost, false, true}, {RankOther, false, false},
	} {
		if tc.rank.Waits() != tc.waits || tc.rank.FollowsClusters() != tc.follows {
			t.Errorf("rank %d: removals wait %t, it follows clusters %t", tc.rank, tc.rank.Waits(), tc.rank.FollowsClusters())
		}
	}
}
