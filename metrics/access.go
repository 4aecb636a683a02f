package metrics

import "github.com/prometheus/client_golang/prometheus"

// Access counts the clients that the rules of access.verify refuse. Its methods may be called
// from any goroutine.
type Access struct {
	unverified *prometheus.CounterVec // rule
	rules      ruled[prometheus.Counter]
}

func newAccess(s *set) *Access {
	return &Access{unverified: s.counter("access", "unverified_total",
		"Streams and polls of clients that may not present their node by a rule of access.verify.", labelRule)}
}

// Rules sets the rules in force. New rules get series at zero. The series of all other rules
// end.
func (a *Access) Rules(names []string) {
	a.rules.replace(names,
		func(name string) prometheus.Counter { return a.unverified.WithLabelValues(name) },
		func(name string) { a.unverified.DeleteLabelValues(name) })
}

// Unverified counts a client that a rule refuses. It ignores a rule that is not in force any
// more.
func (a *Access) Unverified(rule string) {
	a.rules.with(rule, func(of prometheus.Counter) { of.Inc() })
}
