package metrics

import (
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/relay/loadreport"
	"github.com/xdsrelay/xdsrelay/relay/refusals"
	"github.com/xdsrelay/xdsrelay/relay/resolve"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// Metrics holds the relay's metrics. Its methods may be called from any goroutine.
type Metrics struct {
	// immutable after New
	reg        prometheus.Registerer
	cache      *cacheSeries
	downstream *downstreamSeries
	refusals   *refusalSeries
	panics     *panicSeries
	admission  *admissionSeries
	references *References
	rules      *Aggregation
	resolve    *resolveSeries
	reloads    *Reloads
	snapshots  *Snapshots
	peers      *peerSeries
	workloads  *workloadSeries
	vecs       *upstreamVecs
	loads      *loadReportVecs
	leftOut    *prometheus.CounterVec // message

	mu        sync.Mutex
	upstreams map[string]*upstreamUse // guarded by mu; by name
}

// upstreamUse is an upstream with series, and the number of calls of Upstream for it.
type upstreamUse struct {
	series *upstreamSeries
	loads  *loadReportSeries
	users  int
}

// Option changes what New does.
type Option func(*options)

type options struct {
	version string
	lost    func() uint64
}

// WithVersion sets the version that xdsrelay_build_info shows. The default is the main
// module's version in the Go build information.
func WithVersion(version string) Option {
	return func(o *options) { o.version = version }
}

// New makes the metrics, with zeros for the named upstreams, and registers them on
// reg together with the Go runtime's and the process's. The latter two may be
// registered there already. The error names an upstream whose name cannot be a label
// value (it is not UTF-8), or is that of reg, which takes only one Metrics.
func New(reg prometheus.Registerer, upstreams []string, opts ...Option) (*Metrics, error) {
	o := options{version: buildVersion(), lost: func() uint64 { return 0 }}
	for _, opt := range opts {
		opt(&o)
	}
	var s set
	buildInfo(&s, o.version)
	m := &Metrics{
		reg:        reg,
		leftOut:    newLogLines(&s, o.lost),
		cache:      newCacheSeries(&s),
		downstream: newDownstreamSeries(&s),
		refusals:   newRefusalSeries(&s, newAccess(&s)),
		panics:     newPanicSeries(&s),
		admission:  newAdmissionSeries(&s),
		references: newReferences(&s),
		rules:      newAggregation(&s),
		resolve:    newResolveSeries(&s),
		reloads:    newReloads(&s),
		snapshots:  newSnapshots(&s),
		peers:      newPeerSeries(&s),
		workloads:  newWorkloadSeries(&s),
		vecs:       newUpstreamVecs(&s),
		loads:      newLoadReportVecs(&s),
		upstreams:  make(map[string]*upstreamUse, len(upstreams)),
	}
	for _, name := range upstreams {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("metrics: upstream name %q is not valid UTF-8", name)
		}
		m.Upstream(name, 0)
	}
	if err := reg.Register(s); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		err := reg.Register(c)
		if _, there := errors.AsType[prometheus.AlreadyRegisteredError](err); err != nil && !there {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return m, nil
}

// Cache gives the observer for the cache.
func (m *Metrics) Cache() cache.Observer { return m.cache }

// Downstream gives the observer for the server.
func (m *Metrics) Downstream() downstream.Observer { return m.downstream }

// LimitResponses says how large responses to clients may be, in bytes.
func (m *Metrics) LimitResponses(bytes int) { m.downstream.limit.Store(int64(bytes)) }

// Refusals gives the observer for the clients that are turned away before they are served.
func (m *Metrics) Refusals() refusals.Observer { return m.refusals }

// Access gives the counters for the clients that access.verify refuses.
func (m *Metrics) Access() *Access { return m.refusals.access }

// References gives the counters for faults of references between resources.
func (m *Metrics) References() *References { return m.references }

// Aggregation gives the counters for the decisions of the aggregation rules.
func (m *Metrics) Aggregation() *Aggregation { return m.rules }

// Resolve gives the observer for the names that the relay resolves itself.
func (m *Metrics) Resolve() resolve.Observer { return m.resolve }

// Reloads gives the metrics of the configuration and its changes.
func (m *Metrics) Reloads() *Reloads { return m.reloads }

// Snapshots gives the metrics of what is kept on a disk.
func (m *Metrics) Snapshots() *Snapshots { return m.snapshots }

// Upstream gives the observer for the sessions of the named upstream. The sessions share
// its series. If New did not get the name, Upstream makes the series. The name must be
// UTF-8. limit is the greatest size of a response, in bytes.
func (m *Metrics) Upstream(name string, limit int) upstream.Observer {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.upstreams[name]
	if u == nil {
		u = &upstreamUse{series: m.vecs.of(name), loads: m.loads.of(name)}
		m.resolve.of(name)
		m.upstreams[name] = u
	}
	u.users++
	u.series.limit.Store(int64(limit))
	return u.series
}

// LoadReports gives the observer for the load reports for the named upstream. Its series are
// those that Upstream made. For a name that Upstream was not called with, nobody sees what it
// counts.
func (m *Metrics) LoadReports(name string) loadreport.Observer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.upstreams[name]; u != nil {
		return u.loads
	}
	var unseen set
	return newLoadReportVecs(&unseen).of(name)
}

// Forget takes one call of Upstream back. After the last one the series end: a successor
// with the same upstream name keeps them as they are. Later reports of an observer are not
// visible then. Upstream makes new series.
func (m *Metrics) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.upstreams[name]
	if u == nil {
		return
	}
	if u.users--; u.users > 0 {
		return
	}
	delete(m.upstreams, name)
	m.vecs.forget(name)
	m.loads.forget(name)
	m.resolve.forget(name)
}

// names lists the upstreams that have series.
func (m *Metrics) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := make([]string, 0, len(m.upstreams))
	for name := range m.upstreams {
		names = append(names, name)
	}
	return names
}
