package metrics

import "github.com/prometheus/client_golang/prometheus"

// Access counts the clients that the rules of access.verify refuse. Its methods may be called
// from any goroutine.
type Access struct {
	unverified *prometheus.CounterVec // rule
	rules      ruled[prometheus.Counter]
	shadow     *prometheus.CounterVec // rule
	shadowed   ruled[prometheus.Counter]
	leftOut    prometheus.Counter
}

func newAccess(s *set) *Access {
	return &Access{
		unverified: s.counter("access", "unverified_total",
			"Streams and polls of clients that may not present their node by a rule of access.verify.", labelRule),
		shadow: s.counter("access", "shadow_total",
			"Names and nodes about which a rule that is not enforced would have decided otherwise.", labelRule),
		leftOut: s.counter("audit", "left_out_total",
			"Lines that the audit lacks, because one identity or address had as many as log.per_minute allows, or the file did not take them.").WithLabelValues(),
	}
}

// Rules sets the rules in force. New rules get series at zero. The series of all other rules
// end.
func (a *Access) Rules(names []string) {
	a.rules.replace(names,
		func(name string) prometheus.Counter { return a.unverified.WithLabelValues(name) },
		func(name string) { a.unverified.DeleteLabelValues(name) })
}

// ShadowRules sets the rules that are not enforced, as Rules does.
func (a *Access) ShadowRules(names []string) {
	a.shadowed.replace(names,
		func(name string) prometheus.Counter { return a.shadow.WithLabelValues(name) },
		func(name string) { a.shadow.DeleteLabelValues(name) })
}

// Shadow counts what a rule that is not enforced would have decided otherwise.
func (a *Access) Shadow(rule string) {
	a.shadowed.with(rule, func(of prometheus.Counter) { of.Inc() })
}

// AuditLeftOut counts a line that the audit lacks.
func (a *Access) AuditLeftOut() { a.leftOut.Inc() }

// Unverified counts a client that a rule refuses. It ignores a rule that is not in force any
// more.
func (a *Access) Unverified(rule string) {
	a.rules.with(rule, func(of prometheus.Counter) { of.Inc() })
}
