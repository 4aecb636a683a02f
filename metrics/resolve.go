package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/internal/resolve"
)

// The values of labelTo.
const (
	toAlternative = "alternative"
	toBetter      = "better"
)

// resolveSeries counts what becomes of names that the relay resolves by itself.
type resolveSeries struct {
	switches, redirects *prometheus.CounterVec // upstream
	failures            *prometheus.CounterVec // reason
}

var _ resolve.Observer = (*resolveSeries)(nil)

func newResolveSeries(s *set) *resolveSeries {
	r := &resolveSeries{
		switches: s.counter("resolve", "switches_total",
			"Times that a name or glob of the upstream began to be served by an alternative, or by a better place again.", labelUpstream, labelTo),
		redirects: s.counter("resolve", "redirects_followed_total",
			"Contents of names that a redirect of the upstream led to.", labelUpstream),
		failures: s.counter("resolve", "failures_total",
			"Times that a name could not be resolved.", labelReason),
	}
	for _, f := range resolve.Failures() {
		r.failures.WithLabelValues(string(f))
	}
	return r
}

// of makes the series of one upstream.
func (r *resolveSeries) of(upstream string) {
	r.switches.WithLabelValues(upstream, toAlternative)
	r.switches.WithLabelValues(upstream, toBetter)
	r.redirects.WithLabelValues(upstream)
}

// Switched implements resolve.Observer.
func (r *resolveSeries) Switched(upstream string, away bool) {
	to := toBetter
	if away {
		to = toAlternative
	}
	r.switches.WithLabelValues(upstream, to).Inc()
}

// Followed implements resolve.Observer.
func (r *resolveSeries) Followed(upstream string) { r.redirects.WithLabelValues(upstream).Inc() }

// Failed implements resolve.Observer.
func (r *resolveSeries) Failed(reason resolve.Failure) {
	r.failures.WithLabelValues(string(reason)).Inc()
}
