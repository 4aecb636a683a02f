package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/relay/resolve"
)

// The values of labelTo.
const (
	toAlternative = "alternative"
	toBetter      = "better"
)

// resolveSeries counts events of names that the relay resolves itself.
type resolveSeries struct {
	switches *prometheus.CounterVec // upstream
	failures *prometheus.CounterVec // reason

	mu        sync.Mutex
	upstreams map[string]resolveUpstream // guarded by mu; the upstreams that have series
}

type resolveUpstream struct{ away, back prometheus.Counter }

var _ resolve.Observer = (*resolveSeries)(nil)

func newResolveSeries(s *set) *resolveSeries {
	r := &resolveSeries{
		upstreams: make(map[string]resolveUpstream),
		switches: s.counter("resolve", "switches_total",
			"Switches of a name or glob of the upstream to an alternative, or back to a better name.", labelUpstream, labelTo),
		failures: s.counter("resolve", "failures_total",
			"Names that the relay could not resolve.", labelReason),
	}
	for _, f := range resolve.Failures() {
		r.failures.WithLabelValues(string(f))
	}
	return r
}

// of makes the series of one upstream.
func (r *resolveSeries) of(upstream string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.upstreams[upstream] = resolveUpstream{
		away: r.switches.WithLabelValues(upstream, toAlternative),
		back: r.switches.WithLabelValues(upstream, toBetter),
	}
}

// forget drops the series of one upstream.
func (r *resolveSeries) forget(upstream string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.upstreams, upstream)
	r.switches.DeletePartialMatch(prometheus.Labels{labelUpstream: upstream})
}

// Switched implements resolve.Observer.
func (r *resolveSeries) Switched(upstream string, away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch u, there := r.upstreams[upstream]; {
	case !there: // it is not configured any more
	case away:
		u.away.Inc()
	default:
		u.back.Inc()
	}
}

// Failed implements resolve.Observer.
func (r *resolveSeries) Failed(reason resolve.Failure) {
	r.failures.WithLabelValues(string(reason)).Inc()
}
