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
	"github.com/xdsrelay/xdsrelay/internal/resolve"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// Metrics holds the relay's metrics. Its methods may be called from any goroutine.
type Metrics struct {
	// immutable after New
	reg        prometheus.Registerer
	cache      *cacheSeries
	downstream *downstreamSeries
	references *References
	rules      *Aggregation
	resolve    *resolveSeries
	reloads    *Reloads
	vecs       *upstreamVecs

	mu        sync.Mutex
	upstreams map[string]*upstreamUse // guarded by mu; by name
}

// upstreamUse is an upstream that has series, and how often they were asked for.
type upstreamUse struct {
	series *upstreamSeries
	users  int
}

// Option changes what New does.
type Option func(*options)

type options struct{ version string }

// WithVersion gives the version that xdsrelay_build_info shows. Without it, that is
// the main module's in the Go build information.
func WithVersion(version string) Option {
	return func(o *options) { o.version = version }
}

// New makes the metrics, with zeros for the named upstreams, and registers them on
// reg together with the Go runtime's and the process's. The latter two may be
// registered there already. The error says which upstream's name cannot be a label
// value (it is not UTF-8), or what reg refused: it takes one Metrics only.
func New(reg prometheus.Registerer, upstreams []string, opts ...Option) (*Metrics, error) {
	o := options{version: buildVersion()}
	for _, opt := range opts {
		opt(&o)
	}
	var s set
	buildInfo(&s, o.version)
	m := &Metrics{
		reg:        reg,
		cache:      newCacheSeries(&s),
		downstream: newDownstreamSeries(&s),
		references: newReferences(&s),
		rules:      newAggregation(&s),
		resolve:    newResolveSeries(&s),
		reloads:    newReloads(&s),
		vecs:       newUpstreamVecs(&s),
		upstreams:  make(map[string]*upstreamUse, len(upstreams)),
	}
	for _, name := range upstreams {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("metrics: upstream name %q is not valid UTF-8", name)
		}
		m.Upstream(name)
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

// References gives the counters for whoever reads what resources refer to.
func (m *Metrics) References() *References { return m.references }

// Aggregation gives the counters for what the aggregation rules decide.
func (m *Metrics) Aggregation() *Aggregation { return m.rules }

// Resolve gives the observer for the names that the relay resolves by itself.
func (m *Metrics) Resolve() resolve.Observer { return m.resolve }

// Reloads gives the metrics of the configuration and its changes.
func (m *Metrics) Reloads() *Reloads { return m.reloads }

// Upstream gives the observer for the sessions of the named upstream, which share
// its series. A name that New was not given gets its series now; it must be UTF-8.
func (m *Metrics) Upstream(name string) upstream.Observer {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.upstreams[name]
	if u == nil {
		u = &upstreamUse{series: m.vecs.of(name)}
		m.resolve.of(name)
		m.upstreams[name] = u
	}
	u.users++
	return u.series
}

// Forget takes one call of Upstream back, whose observer nobody shall see any more. With
// the last one the series go: who takes an upstream's name over has them as they are. What
// an observer goes on reporting is not seen then. Upstream makes new ones.
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
