package metrics

import "github.com/prometheus/client_golang/prometheus"

// WithLog has xdsrelay_log_lost_lines_total show what lost gives: how many lines the log has
// lost so far (LIM-4). Any goroutine may call lost.
func WithLog(lost func() uint64) Option {
	return func(o *options) { o.lost = lost }
}

// logLines shows the lines that the log lost.
func logLines(s *set, lost func() uint64) {
	*s = append(*s, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: "log", Name: "lost_lines_total",
		Help: "Lines that the log lost because it could not be written, or not fast enough.",
	}, func() float64 { return float64(lost()) }))
}
