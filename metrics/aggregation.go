package metrics

import "github.com/prometheus/client_golang/prometheus"

// Aggregation counts the decisions of the aggregation rules. Its methods may be called from
// any goroutine.
type Aggregation struct {
	decisions, failures *prometheus.CounterVec // rule
	rules               ruled[ruleSeries]
}

type ruleSeries struct{ decisions, failures prometheus.Counter }

func newAggregation(s *set) *Aggregation {
	return &Aggregation{
		decisions: s.counter("aggregation", "decisions_total",
			"Decisions of the rule: one for each stream and type, or one for each name if a rule looks at names.", labelRule),
		failures: s.counter("aggregation", "rule_failures_total",
			"Decisions that isolated or refused a client because the rule failed for it.", labelRule),
	}
}

// Rules sets the rules in force. New rules get series at zero. The series of all other
// rules end.
func (a *Aggregation) Rules(names []string) {
	a.rules.replace(names,
		func(name string) ruleSeries {
			return ruleSeries{a.decisions.WithLabelValues(name), a.failures.WithLabelValues(name)}
		},
		func(name string) {
			a.decisions.DeleteLabelValues(name)
			a.failures.DeleteLabelValues(name)
		})
}

// Decided counts a decision, and whether the rule failed. It ignores a rule that is not in
// force any more: a stream may not know the new rules yet.
func (a *Aggregation) Decided(rule string, failed bool) {
	a.rules.with(rule, func(of ruleSeries) {
		of.decisions.Inc()
		if failed {
			of.failures.Inc()
		}
	})
}
