package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// WithLog has xdsrelay_log_lost_lines_total show what lost gives: how many lines the log has
// lost so far (LIM-4). Any goroutine may call lost.
func WithLog(lost func() uint64) Option {
	return func(o *options) { o.lost = lost }
}

// newLogLines shows the lines that the log lacks.
func newLogLines(s *set, lost func() uint64) *prometheus.CounterVec {
	*s = append(*s, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: "log", Name: "lost_lines_total",
		Help: "Lines that the log lost because it could not be written, or not fast enough.",
	}, func() float64 { return float64(lost()) }))
	left := s.counter("log", "left_out_lines_total", "Lines beyond log.per_minute.", labelMessage)
	left.WithLabelValues(logs.Others)
	return left
}

// LogLineLeftOut counts a line that the log lacks because it has as many with the same message in this
// minute as it may have. Any goroutine may call it.
func (m *Metrics) LogLineLeftOut(message string) { m.leftOut.WithLabelValues(message).Inc() }
