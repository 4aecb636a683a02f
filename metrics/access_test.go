package metrics

import "testing"

// Rules come and go with reloads of the configuration, and their series with them.
func TestAccess_ACC5(t *testing.T) {
	m, reg := setUp(t)
	m.Refusals().Unverified("own-node")
	m.Refusals().Unverified("unheard of")
	expect(t, reg, map[string]float64{`access_unverified_total{rule="own-node"}`: 1})
	m.Access().Rules([]string{"role"})
	m.Refusals().Unverified("own-node") // by a stream that has yet to hear of it
	m.Refusals().Unverified("role")
	m.Refusals().Unverified("role")
	m.Access().ShadowRules([]string{"role"})
	m.Access().Shadow("role")
	m.Access().Shadow("no-vault") // by a stream that has yet to hear of it
	m.Access().AuditLeftOut()
	expect(t, reg, map[string]float64{`access_unverified_total{rule="role"}`: 2, `access_shadow_total{rule="role"}`: 1, `audit_left_out_total`: 1})
}
