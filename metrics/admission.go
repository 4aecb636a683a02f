package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/relay/load"
)

// admissionSeries counts the clients that join.
type admissionSeries struct {
	refused *prometheus.CounterVec // work and reason
	took    map[load.Work]prometheus.Observer
}

var _ load.Observer = (*admissionSeries)(nil)

func newAdmissionSeries(s *set) *admissionSeries {
	const subsystem = "admission"
	a := &admissionSeries{
		refused: s.counter(subsystem, "refused_total", "Clients that were to come again later, because too many joined or memory was short.", labelWork, labelReason),
		took:    make(map[load.Work]prometheus.Observer),
	}
	took := s.durations(subsystem, "seconds",
		"Time from a client's first request until what was cached for it was handed to its stream, and of TLS handshakes, the wait for its turn included.", labelWork)
	for _, w := range load.Works() {
		a.took[w] = took.WithLabelValues(string(w))
		for _, r := range load.Reasons() {
			a.refused.WithLabelValues(string(w), string(r))
		}
	}
	return a
}

// Admitted implements load.Observer.
func (a *admissionSeries) Admitted(work load.Work, took time.Duration) {
	a.took[work].Observe(seconds(took))
}

// Refused implements load.Observer.
func (a *admissionSeries) Refused(work load.Work, reason load.Reason) {
	a.refused.WithLabelValues(string(work), string(reason)).Inc()
}

// Admission gives the observer for the clients that join.
func (m *Metrics) Admission() load.Observer { return m.admission }
