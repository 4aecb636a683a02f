package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
)

// workloadSeries counts what SPIFFE Workload APIs say.
type workloadSeries struct{ answered, failed prometheus.Counter }

var _ credentials.WorkloadObserver = (*workloadSeries)(nil)

func newWorkloadSeries(s *set) *workloadSeries {
	const subsystem = "spiffe"
	return &workloadSeries{
		answered: s.counter(subsystem, "updates_total", "Certificates with bundles, and tokens, that SPIFFE Workload APIs gave the relay.").WithLabelValues(),
		failed: s.counter(subsystem, "failures_total",
			"Failed attempts to have certificates, bundles or tokens of a SPIFFE Workload API, and answers that cannot be used.").WithLabelValues(),
	}
}

// WorkloadAnswered implements credentials.WorkloadObserver.
func (w *workloadSeries) WorkloadAnswered() { w.answered.Inc() }

// WorkloadFailed implements credentials.WorkloadObserver.
func (w *workloadSeries) WorkloadFailed() { w.failed.Inc() }

// Workloads gives the observer for SPIFFE Workload APIs.
func (m *Metrics) Workloads() credentials.WorkloadObserver { return m.workloads }
