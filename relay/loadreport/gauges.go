package loadreport

import (
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

// gauges are what all clients of a scope have under way now: for each place the sum of what
// each client reported last.
type gauges map[clusterKey]map[placeKey]load

// placeKey is a locality of a cluster, or an endpoint of it.
type placeKey struct {
	locality localityKey
	endpoint string // endpointKey; "": the locality
}

// load is what is under way in a place.
type load struct{ requests, connections uint64 }

func (l load) plus(o load) load  { return load{l.requests + o.requests, l.connections + o.connections} }
func (l load) minus(o load) load { return load{l.requests - o.requests, l.connections - o.connections} }

// gaugeKey is a place in a cluster.
type gaugeKey struct {
	cluster clusterKey
	place   placeKey
}

// size is what a gauge is taken to need, with the client and in the scope.
func (k gaugeKey) size() int64 {
	l := k.place.locality
	return entryBytes + int64(len(k.cluster.name)+len(k.cluster.service)+len(l.region)+len(l.zone)+len(l.subZone)+len(k.place.endpoint))
}

// underWay are the gauges of one client: of its last report, without zeros.
type underWay struct {
	of    map[gaugeKey]load
	bytes int64
}

// replace takes what a client reports now in place of what it reported before: what it does
// not mention is not under way any more. Gauges for which there is no room are left out.
func (g gauges) replace(u *underWay, clusters []*endpointv3.ClusterStats, room *budget) (dropped map[Dropped]int) {
	g.leave(u, room)
	var by reporter
	for _, c := range clusters {
		of := clusterKey{c.GetClusterName(), c.GetClusterServiceName()}
		for _, l := range c.GetUpstreamLocalityStats() {
			at := localityOf(l)
			place := gaugeKey{of, placeKey{locality: at}}
			if reason := g.add(u, place, load{l.GetTotalRequestsInProgress(), l.GetTotalActiveConnections()}, room); reason != "" {
				by.drop(reason)
			}
			for _, e := range l.GetUpstreamEndpointStats() {
				place.place.endpoint = endpointKey(e.GetAddress())
				if reason := g.add(u, place, load{requests: e.GetTotalRequestsInProgress()}, room); reason != "" {
					by.drop(reason)
				}
			}
		}
	}
	return by.dropped
}

// add adds what a client has under way in one place. It returns why there is no room, or "".
func (g gauges) add(u *underWay, at gaugeKey, l load, room *budget) Dropped {
	if l == (load{}) {
		return ""
	}
	if _, known := u.of[at]; !known {
		if reason := u.take(at, room); reason != "" {
			return reason
		}
	}
	u.of[at] = u.of[at].plus(l)
	places := g[at.cluster]
	if places == nil {
		places = make(map[placeKey]load)
		g[at.cluster] = places
	}
	places[at.place] = places[at.place].plus(l)
	return ""
}

func (u *underWay) take(at gaugeKey, room *budget) Dropped {
	size := at.size()
	if u.bytes+size > maxClientBytes {
		return DroppedClient
	}
	if reason := room.take(size); reason != "" {
		return reason
	}
	u.bytes += size
	if u.of == nil {
		u.of = make(map[gaugeKey]load)
	}
	return ""
}

// leave takes away what a client has under way.
func (g gauges) leave(u *underWay, room *budget) {
	for at, l := range u.of {
		places := g[at.cluster]
		if left := places[at.place].minus(l); left != (load{}) {
			places[at.place] = left
			continue
		}
		delete(places, at.place)
		if len(places) == 0 {
			delete(g, at.cluster)
		}
	}
	clear(u.of)
	room.give(u.bytes)
	u.bytes = 0
}
