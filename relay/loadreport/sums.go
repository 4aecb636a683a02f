package loadreport

import (
	"math"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// sums are the counters of all reports since the last one to the control plane. The gauges
// are elsewhere (gauges).
type sums struct {
	round    uint64 // tells them from others, for marks
	clusters map[clusterKey]*cluster
	added    int // clusters
	weight   weight
	above    weight // of the sums that are being sent: they come back if that fails
	bytes    int64  // that the entries are taken to need
}

type clusterKey struct{ name, service string }

// localityKey names a locality, and the priority of the endpoints that are meant.
type localityKey struct {
	region, zone, subZone string
	priority              uint32
}

// cluster has the sums of one cluster.
type cluster struct {
	index      int           // of the cluster in the sums, for marks
	reported   time.Duration // the intervals of all reports together
	clients    int           // how many reported
	dropped    uint64
	drops      map[string]uint64 // by category
	localities map[localityKey]*locality
}

// locality has the sums of one locality of a cluster.
type locality struct {
	counts

	newConnections, failedConnections uint64
	cpu, memory, application          metric
	endpoints                         map[string]*endpoint // by endpointKey
}

// endpoint has the sums of one endpoint of a locality.
type endpoint struct {
	counts

	metadata *structpb.Struct // what the last report with any said
}

// counts are what localities and endpoints both count.
type counts struct {
	successful, failed, issued uint64
	metrics                    map[string]metric // by name
}

// metric is a sum of values, and of the requests that came with one.
type metric struct {
	requests uint64
	total    float64
}

func newSums(round uint64) *sums { return &sums{round: round, clusters: make(map[clusterKey]*cluster)} }

// add adds what one report says of a cluster. Entries for which there is no room are left
// out: by counts them.
func (s *sums) add(c *endpointv3.ClusterStats, by *reporter) {
	key := clusterKey{c.GetClusterName(), c.GetClusterServiceName()}
	to := s.clusters[key]
	if to == nil {
		if !by.room(key.name, key.service) {
			return
		}
		to = &cluster{localities: make(map[localityKey]*locality)}
		s.put(key, to)
	}
	to.reported = lasting(to.reported, c.GetLoadReportInterval().AsDuration())
	if by.marks.set(to.index) {
		to.clients++
	}
	to.dropped += c.GetTotalDroppedRequests()
	for _, d := range c.GetDroppedRequests() {
		to.drop(d, by)
	}
	for _, l := range c.GetUpstreamLocalityStats() {
		to.add(l, by)
	}
}

func (s *sums) put(key clusterKey, c *cluster) {
	c.index = s.added
	s.added++
	s.clusters[key] = c
}

// lasting adds intervals. There is no use for one that is longer than a Duration.
func lasting(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func (c *cluster) drop(d *endpointv3.ClusterStats_DroppedRequests, by *reporter) {
	category := d.GetCategory()
	if _, known := c.drops[category]; !known {
		if !by.room(category) {
			return
		}
		if c.drops == nil {
			c.drops = make(map[string]uint64)
		}
	}
	c.drops[category] += d.GetDroppedCount()
}

func (c *cluster) add(l *endpointv3.UpstreamLocalityStats, by *reporter) {
	key := localityOf(l)
	to := c.localities[key]
	if to == nil {
		if !by.room(key.region, key.zone, key.subZone) {
			return
		}
		to = new(locality)
		c.localities[key] = to
	}
	to.count(l, l.GetLoadMetricStats(), by)
	to.newConnections += l.GetTotalNewConnections()
	to.failedConnections += l.GetTotalFailConnections()
	to.cpu.add(l.GetCpuUtilization())
	to.memory.add(l.GetMemUtilization())
	to.application.add(l.GetApplicationUtilization())
	for _, e := range l.GetUpstreamEndpointStats() {
		to.add(e, by)
	}
}

func localityOf(l *endpointv3.UpstreamLocalityStats) localityKey {
	at := l.GetLocality()
	return localityKey{at.GetRegion(), at.GetZone(), at.GetSubZone(), l.GetPriority()}
}

func (l *locality) add(e *endpointv3.UpstreamEndpointStats, by *reporter) {
	key := endpointKey(e.GetAddress())
	to := l.endpoints[key]
	if to == nil {
		if !by.room(key) {
			return
		}
		if l.endpoints == nil {
			l.endpoints = make(map[string]*endpoint)
		}
		to = new(endpoint)
		l.endpoints[key] = to
	}
	to.count(e, e.GetLoadMetricStats(), by)
	if m := e.GetMetadata(); m != nil && (proto.Equal(m, to.metadata) || by.space(proto.Size(m))) {
		to.metadata = m
	}
}

// endpointKey is an address as bytes, of which addressOf makes an address again. It is never
// empty.
func endpointKey(a *corev3.Address) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(a)
	if err != nil {
		return noAddress // it came as bytes, so it can be bytes again
	}
	return noAddress + string(b)
}

const noAddress = "@"

// addressOf is nil if the client gave no address.
func addressOf(key string) *corev3.Address {
	address := new(corev3.Address)
	if err := proto.Unmarshal([]byte(key[len(noAddress):]), address); err != nil || key == noAddress {
		return nil
	}
	return address
}

func (c *counts) count(r requester, metrics []*endpointv3.EndpointLoadMetricStats, by *reporter) {
	c.successful += r.GetTotalSuccessfulRequests()
	c.failed += r.GetTotalErrorRequests()
	c.issued += r.GetTotalIssuedRequests()
	for _, m := range metrics {
		name := m.GetMetricName()
		of, known := c.metrics[name]
		if !known {
			if !by.room(name) {
				continue
			}
			if c.metrics == nil {
				c.metrics = make(map[string]metric)
			}
		}
		of.add(m)
		c.metrics[name] = of
	}
}

// sample is what both kinds of metrics have. A missing one is zero.
type sample interface {
	GetNumRequestsFinishedWithMetric() uint64
	GetTotalMetricValue() float64
}

func (m *metric) add(s sample) {
	m.requests += s.GetNumRequestsFinishedWithMetric()
	m.total += s.GetTotalMetricValue()
}

// admit reports whether a report fits, whose weight is w: no sum overflows then, not even
// if the sums that are being sent come back.
func (s *sums) admit(w weight) bool {
	sum, ok := s.weight.plus(w)
	if !ok {
		return false
	}
	if _, ok := sum.plus(s.above); !ok {
		return false
	}
	s.weight = sum
	return true
}

// merge adds newer sums to some that could not be sent. It takes from them what it needs.
func (s *sums) merge(o *sums) {
	s.weight, _ = s.weight.plus(o.weight) // see admit
	s.bytes += o.bytes
	for key, from := range o.clusters {
		if to := s.clusters[key]; to != nil {
			to.merge(from)
			continue
		}
		s.put(key, from)
	}
}

// merge takes it that the same clients reported: they did so while a report was handed over,
// and nobody knows who did before.
func (c *cluster) merge(o *cluster) {
	c.reported = lasting(c.reported, o.reported)
	c.clients = max(c.clients, o.clients)
	c.dropped += o.dropped
	c.drops = mergeMaps(c.drops, o.drops, func(a, b uint64) uint64 { return a + b })
	c.localities = mergeMaps(c.localities, o.localities, func(a, b *locality) *locality {
		a.merge(b)
		return a
	})
}

func (l *locality) merge(o *locality) {
	l.plus(&o.counts)
	l.newConnections += o.newConnections
	l.failedConnections += o.failedConnections
	l.cpu, l.memory, l.application = l.cpu.plus(o.cpu), l.memory.plus(o.memory), l.application.plus(o.application)
	l.endpoints = mergeMaps(l.endpoints, o.endpoints, func(a, b *endpoint) *endpoint {
		a.plus(&b.counts)
		if b.metadata != nil {
			a.metadata = b.metadata
		}
		return a
	})
}

func (c *counts) plus(o *counts) {
	c.successful += o.successful
	c.failed += o.failed
	c.issued += o.issued
	c.metrics = mergeMaps(c.metrics, o.metrics, metric.plus)
}

func (m metric) plus(o metric) metric { return metric{m.requests + o.requests, m.total + o.total} }

// mergeMaps joins two maps; the first may be nil.
func mergeMaps[K comparable, V any](a, b map[K]V, plus func(V, V) V) map[K]V {
	if a == nil {
		return b
	}
	for key, v := range b {
		if of, both := a[key]; both {
			v = plus(of, v)
		}
		a[key] = v
	}
	return a
}
