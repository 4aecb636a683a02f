package xds

import "cmp"

// Rank orders types make-before-break. Pending types of one stream go out by rising rank, and
// removals of clusters and endpoints last (ADS-1).
type Rank int8

// The ranks.
const (
	RankCluster Rank = iota
	RankEndpoint
	RankListener
	RankFilterChain
	RankRoute // and scoped routes
	RankVirtualHost
	RankOther
)

// RankOf is a type's rank: RankOther for a type that is not known.
func RankOf(typeURL string) Rank {
	if t := Find(typeURL); t != nil {
		return t.Rank
	}
	if url, ok := member(typeURL); ok {
		if t := Find(url); t != nil && t.Collections && t.URL == url {
			return t.Rank
		}
	}
	return RankOther
}

// CompareTypes orders types by their ranks, and those of a rank by their URLs.
func CompareTypes(a, b string) int {
	return cmp.Or(cmp.Compare(RankOf(a), RankOf(b)), cmp.Compare(a, b))
}

// Waits reports whether removals of the type wait for later types.
func (r Rank) Waits() bool { return r <= RankEndpoint }

// FollowsClusters reports whether resources of the type lead traffic to clusters.
func (r Rank) FollowsClusters() bool { return r >= RankListener && r <= RankVirtualHost }
