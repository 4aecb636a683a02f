package metrics

import "testing"

// AGG-2: rules come and go with reloads of the configuration, and their series with them.
func TestAggregation_AGG2(t *testing.T) {
	m, reg := setUp(t)
	a := m.Aggregation()
	a.Decided("sidecars", false)
	a.Decided("sidecars", true)
	a.Decided("otherwise", false)
	a.Decided("unheard of", true)
	expect(t, reg, map[string]float64{
		`aggregation_decisions_total{rule="sidecars"}`:     2,
		`aggregation_rule_failures_total{rule="sidecars"}`: 1,
		`aggregation_decisions_total{rule="otherwise"}`:    1,
	})
	a.Rules([]string{"gateways", "otherwise"})
	a.Decided("sidecars", true) // by a stream that has yet to hear of it
	a.Decided("gateways", false)
	expect(t, reg, map[string]float64{
		`aggregation_decisions_total{rule="otherwise"}`: 1,
		`aggregation_decisions_total{rule="gateways"}`:  1,
	})
	a.Rules([]string{"sidecars", "otherwise"})
	expect(t, reg, map[string]float64{`aggregation_decisions_total{rule="otherwise"}`: 1})
}
