package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/internal/contain"
)

// panicSeries counts the panics that the relay caught (SUR-6).
type panicSeries struct {
	panics  *prometheus.CounterVec // part
	rebuilt prometheus.Counter
}

var _ contain.Observer = (*panicSeries)(nil)

func newPanicSeries(s *set) *panicSeries {
	p := &panicSeries{
		panics:  s.counter("", "panics_total", "Panics that the relay caught.", labelPart),
		rebuilt: s.counter("cache", "stores_rebuilt_total", "Stores that were inconsistent after a panic.").WithLabelValues(),
	}
	for _, part := range contain.Parts() {
		p.panics.WithLabelValues(string(part))
	}
	return p
}

// Panicked implements contain.Observer.
func (p *panicSeries) Panicked(part contain.Part) { p.panics.WithLabelValues(string(part)).Inc() }

// Panics gives the observer for panics.
func (m *Metrics) Panics() contain.Observer { return m.panics }

// Rebuilt tells that a store was inconsistent after a panic.
func (m *Metrics) Rebuilt() { m.panics.rebuilt.Inc() }
