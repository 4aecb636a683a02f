package loads

import (
	"fmt"
	"maps"
	"sync"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

// Sums are sums of reports, field by field: "shop/eds/eu/a p0 issued" is a cluster, its
// service name, a region, a zone and a priority. Gauges are no sums, and not among them.
type Sums map[string]float64

func (n Sums) add(clusters []*endpointv3.ClusterStats) {
	put := func(field string, v float64) {
		if v != 0 {
			n[field] += v
		}
	}
	for _, c := range clusters {
		at := c.GetClusterName() + "/" + c.GetClusterServiceName()
		put(at+" dropped", float64(c.GetTotalDroppedRequests()))
		for _, d := range c.GetDroppedRequests() {
			put(at+" dropped "+d.GetCategory(), float64(d.GetDroppedCount()))
		}
		for _, l := range c.GetUpstreamLocalityStats() {
			at := fmt.Sprintf("%s/%s/%s p%d", at, l.GetLocality().GetRegion(), l.GetLocality().GetZone(), l.GetPriority())
			put(at+" successful", float64(l.GetTotalSuccessfulRequests()))
			put(at+" error", float64(l.GetTotalErrorRequests()))
			put(at+" issued", float64(l.GetTotalIssuedRequests()))
			for _, m := range l.GetLoadMetricStats() {
				put(at+" "+m.GetMetricName(), m.GetTotalMetricValue())
				put(at+" "+m.GetMetricName()+" requests", float64(m.GetNumRequestsFinishedWithMetric()))
			}
			for _, e := range l.GetUpstreamEndpointStats() {
				put(at+" "+e.GetAddress().GetSocketAddress().GetAddress()+" issued", float64(e.GetTotalIssuedRequests()))
			}
		}
	}
}

// Book keeps sums for several scopes. Its methods may be called from any goroutine.
type Book struct {
	mu  sync.Mutex
	all map[string]Sums // by scope
}

// Add adds a report for a scope.
func (b *Book) Add(scope string, clusters []*endpointv3.ClusterStats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = make(map[string]Sums)
	}
	if b.all[scope] == nil {
		b.all[scope] = make(Sums)
	}
	b.all[scope].add(clusters)
}

// Now gives the sums of all scopes that have any.
func (b *Book) Now() map[string]Sums {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := make(map[string]Sums)
	for scope, sums := range b.all {
		if len(sums) > 0 {
			now[scope] = maps.Clone(sums)
		}
	}
	return now
}
