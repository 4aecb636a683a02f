package loadreport

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// report makes a report of the sums, and of what is under way in the clusters that they are
// of. Everything in it is in order of its name.
func (s *sums) report(g gauges) []*endpointv3.ClusterStats {
	all := make([]*endpointv3.ClusterStats, 0, len(s.clusters))
	for _, key := range slices.SortedFunc(maps.Keys(s.clusters), clusterKey.compare) {
		all = append(all, s.clusters[key].stats(key, g[key]))
	}
	return all
}

func (k clusterKey) compare(o clusterKey) int {
	return cmp.Or(cmp.Compare(k.name, o.name), cmp.Compare(k.service, o.service))
}

func (k localityKey) compare(o localityKey) int {
	return cmp.Or(cmp.Compare(k.priority, o.priority), cmp.Compare(k.region, o.region), cmp.Compare(k.zone, o.zone),
		cmp.Compare(k.subZone, o.subZone))
}

// interval is how long a client reported, in the mean; nil if none said.
func (c *cluster) interval() *durationpb.Duration {
	if c.reported == 0 {
		return nil
	}
	return durationpb.New(c.reported / time.Duration(max(1, c.clients)))
}

func (c *cluster) stats(key clusterKey, at map[placeKey]load) *endpointv3.ClusterStats {
	stats := &endpointv3.ClusterStats{
		ClusterName: key.name, ClusterServiceName: key.service, TotalDroppedRequests: c.dropped,
		LoadReportInterval: c.interval(),
	}
	for _, category := range slices.Sorted(maps.Keys(c.drops)) {
		stats.DroppedRequests = append(stats.DroppedRequests, &endpointv3.ClusterStats_DroppedRequests{
			Category: category, DroppedCount: c.drops[category],
		})
	}
	busy := byLocality(at)
	keys := make(map[localityKey]struct{}, len(c.localities))
	for key := range c.localities {
		keys[key] = struct{}{}
	}
	for key := range busy {
		keys[key] = struct{}{}
	}
	for _, key := range slices.SortedFunc(maps.Keys(keys), localityKey.compare) {
		l := c.localities[key]
		if l == nil {
			l = new(locality) // nothing was counted there, but something is under way
		}
		stats.UpstreamLocalityStats = append(stats.UpstreamLocalityStats, l.stats(key, busy[key]))
	}
	return stats
}

// byLocality orders what is under way in a cluster by locality, and there by endpoint.
func byLocality(at map[placeKey]load) map[localityKey]map[string]load {
	busy := make(map[localityKey]map[string]load)
	for place, l := range at {
		if busy[place.locality] == nil {
			busy[place.locality] = make(map[string]load)
		}
		busy[place.locality][place.endpoint] = l
	}
	return busy
}

func (l *locality) stats(key localityKey, busy map[string]load) *endpointv3.UpstreamLocalityStats {
	stats := &endpointv3.UpstreamLocalityStats{
		Locality:                &corev3.Locality{Region: key.region, Zone: key.zone, SubZone: key.subZone},
		Priority:                key.priority,
		TotalSuccessfulRequests: l.successful,
		TotalErrorRequests:      l.failed,
		TotalIssuedRequests:     l.issued,
		TotalRequestsInProgress: busy[""].requests,
		TotalActiveConnections:  busy[""].connections,
		TotalNewConnections:     l.newConnections,
		TotalFailConnections:    l.failedConnections,
		CpuUtilization:          l.cpu.unnamed(),
		MemUtilization:          l.memory.unnamed(),
		ApplicationUtilization:  l.application.unnamed(),
		LoadMetricStats:         metricsOf(l.metrics),
	}
	endpoints := make(map[string]struct{}, len(l.endpoints))
	for key := range l.endpoints {
		endpoints[key] = struct{}{}
	}
	for key := range busy {
		if key != "" {
			endpoints[key] = struct{}{}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(endpoints)) {
		e := l.endpoints[key]
		if e == nil {
			e = new(endpoint)
		}
		stats.UpstreamEndpointStats = append(stats.UpstreamEndpointStats, e.stats(key, busy[key]))
	}
	return stats
}

func (e *endpoint) stats(key string, busy load) *endpointv3.UpstreamEndpointStats {
	return &endpointv3.UpstreamEndpointStats{
		Address:                 addressOf(key),
		Metadata:                e.metadata,
		TotalSuccessfulRequests: e.successful,
		TotalErrorRequests:      e.failed,
		TotalIssuedRequests:     e.issued,
		TotalRequestsInProgress: busy.requests,
		LoadMetricStats:         metricsOf(e.metrics),
	}
}

func metricsOf(all map[string]metric) []*endpointv3.EndpointLoadMetricStats {
	var stats []*endpointv3.EndpointLoadMetricStats
	for _, name := range slices.Sorted(maps.Keys(all)) {
		stats = append(stats, &endpointv3.EndpointLoadMetricStats{
			MetricName: name, NumRequestsFinishedWithMetric: all[name].requests, TotalMetricValue: all[name].total,
		})
	}
	return stats
}

// unnamed is nil if no request came with the metric.
func (m metric) unnamed() *endpointv3.UnnamedEndpointLoadMetricStats {
	if m == (metric{}) {
		return nil
	}
	return &endpointv3.UnnamedEndpointLoadMetricStats{NumRequestsFinishedWithMetric: m.requests, TotalMetricValue: m.total}
}

// split makes requests of a report that have at most limit bytes each, nodes aside. A
// cluster is in one of them: its interval counts once. A cluster that has no room alone is
// reported without its endpoints, whose number is returned.
func split(all []*endpointv3.ClusterStats, limit int) (parts [][]*endpointv3.ClusterStats, dropped int) {
	size := 0
	parts = [][]*endpointv3.ClusterStats{nil}
	for _, c := range all {
		n := proto.Size(c) + tagBytes
		if n > limit {
			dropped += withoutEndpoints(c)
			n = proto.Size(c) + tagBytes
		}
		if last := len(parts) - 1; size+n > limit && len(parts[last]) > 0 {
			parts = append(parts, nil)
			size = 0
		}
		last := len(parts) - 1
		parts[last] = append(parts[last], c)
		size += n
	}
	return parts, dropped
}

// tagBytes is what a cluster takes in a request beside itself.
const tagBytes = 6

func withoutEndpoints(c *endpointv3.ClusterStats) (dropped int) {
	for _, l := range c.GetUpstreamLocalityStats() {
		dropped += len(l.GetUpstreamEndpointStats())
		l.UpstreamEndpointStats = nil
	}
	return dropped
}
