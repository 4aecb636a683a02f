package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Aggregation counts what the aggregation rules decide. Its methods may be called from
// any goroutine.
type Aggregation struct {
	decisions, failures *prometheus.CounterVec // rule

	mu    sync.RWMutex
	rules map[string]ruleSeries // guarded by mu; those that have series
}

type ruleSeries struct{ decisions, failures prometheus.Counter }

func newAggregation(s *set) *Aggregation {
	return &Aggregation{
		decisions: s.counter("aggregation", "decisions_total",
			"Decisions of the rule, one for each stream and type, and for each name where a rule looks at names.", labelRule),
		failures: s.counter("aggregation", "rule_failures_total",
			"Decisions that isolated or refused a client because the rule could not be evaluated for it.", labelRule),
		rules: make(map[string]ruleSeries),
	}
}

// Rules says which rules there are. They have series, at zero if they are new; those of
// all others are removed.
func (a *Aggregation) Rules(names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := make(map[string]ruleSeries, len(names))
	for _, name := range names {
		now[name] = ruleSeries{a.decisions.WithLabelValues(name), a.failures.WithLabelValues(name)}
	}
	for name := range a.rules {
		if _, stays := now[name]; !stays {
			a.decisions.DeleteLabelValues(name)
			a.failures.DeleteLabelValues(name)
		}
	}
	a.rules = now
}

// Decided counts a decision, and whether the rule failed. What a rule decides that is
// gone, for a stream that does not know it yet, is not counted.
func (a *Aggregation) Decided(rule string, failed bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	of, there := a.rules[rule]
	if !there {
		return
	}
	of.decisions.Inc()
	if failed {
		of.failures.Inc()
	}
}
