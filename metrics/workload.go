package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/internal/workload"
)

// workloadSeries counts what SPIFFE Workload APIs say.
type workloadSeries struct{ answered, failed prometheus.Counter }

var _ workload.Observer = (*workloadSeries)(nil)

func newWorkloadSeries(s *set) *workloadSeries {
	const subsystem = "spiffe"
	return &workloadSeries{
		answered: s.counter(subsystem, "updates_total", "Certificates with bundles, and tokens, that SPIFFE Workload APIs gave the relay.").WithLabelValues(),
		failed: s.counter(subsystem, "failures_total",
			"Failed attempts to have certificates, bundles or tokens of a SPIFFE Workload API, and answers that cannot be used.").WithLabelValues(),
	}
}

// WorkloadAnswered implements workload.Observer.
func (w *workloadSeries) WorkloadAnswered() { w.answered.Inc() }

// WorkloadFailed implements workload.Observer.
func (w *workloadSeries) WorkloadFailed() { w.failed.Inc() }

// Workloads gives the observer for SPIFFE Workload APIs.
func (m *Metrics) Workloads() workload.Observer { return m.workloads }
