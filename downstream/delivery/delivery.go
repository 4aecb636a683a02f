package delivery

import (
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// delivery is one Collect in one store. It decides what goes out, and fills batches.
type delivery struct {
	writer writer
	sub    *Subscriber // nil for a reader
	upTo   uint64      // changes up to this number are taken
	looked int         // members looked at so far
	joined bool        // the member before was sent
	keys   listKeys

	noHeartbeats bool // heartbeats overtake no acknowledgement, and the state of the world has none

	warms    bool // the clusters that are sent are noted
	clusters []sentCluster
	afresh   bool // clusters were sent to a client that had none
}

// listKeys are the keys that the parts of lists hold, by type URL; nil if the lists have one
// part.
type listKeys map[string]map[string]bool

// look counts a member. It returns false after as many as one Collect looks at.
func (p *delivery) look() bool {
	p.looked++
	p.writer.full = p.writer.full || p.looked > cache.MaxLooked
	return !p.writer.full
}

// level counts the changes that merging saved, once the follower has all of its collection.
func (p *delivery) level(w *typeSub, f *follower) {
	if f.addsDue() || f.removalsDue() {
		return
	}
	if merged := int(f.Collection().Changes()-f.seen) - int(f.since); merged > 0 {
		p.writer.merged(w, merged)
	}
	f.seen, f.since = f.Collection().Changes(), 0
}

// cluster records that a resource is sent, which may be a cluster. The client had it with another
// content unless it is new.
func (p *delivery) cluster(r *wire.Resource, isNew bool) {
	p.writer.typeSub.progress.led = true
	if isNew && p.writer.cur != nil {
		p.writer.cur.flight.news = true
	}
	if !p.warms || p.writer.typeSub.rank != xds.RankCluster {
		return
	}
	name, ok := r.ClusterEndpoints()
	if !ok {
		return
	}
	p.clusters = append(p.clusters, sentCluster{name, isNew, p.writer.typeSub.list.mayHaveAll()})
}

// sentCluster is a cluster of type EDS that a delivery sends.
type sentCluster struct {
	endpoints string // name of its ClusterLoadAssignment
	isNew     bool
	mayBeNew  bool // the client showed a version of a list, which does not say what it has
}
