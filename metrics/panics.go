package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// panicSeries counts the panics that the relay caught (SUR-6).
type panicSeries struct {
	panics  *prometheus.CounterVec // part
	rebuilt prometheus.Counter
}

var _ logs.PanicObserver = (*panicSeries)(nil)

func newPanicSeries(s *set) *panicSeries {
	p := &panicSeries{
		panics:  s.counter("", "panics_total", "Panics that the relay caught.", labelPart),
		rebuilt: s.counter("cache", "stores_rebuilt_total", "Stores that were inconsistent after a panic.").WithLabelValues(),
	}
	for _, part := range logs.Parts() {
		p.panics.WithLabelValues(string(part))
	}
	return p
}

// Panicked implements logs.PanicObserver.
func (p *panicSeries) Panicked(part logs.Part) { p.panics.WithLabelValues(string(part)).Inc() }

// Panics gives the observer for panics.
func (m *Metrics) Panics() logs.PanicObserver { return m.panics }

// Rebuilt tells that a store was inconsistent after a panic.
func (m *Metrics) Rebuilt() { m.panics.rebuilt.Inc() }
