package envoy

import (
	"slices"
	"testing"
)

const inTiers = ", two relays in a row"

// tierScenarios are those of which the relay nearer to the Envoys knows only what the
// other one makes of them: silence, and what Envoys reject or look up.
func tierScenarios() []scenario {
	all := slices.Concat(silenceScenarios(), hostScenarios(), badScenarios()[:2], returningScenarios()[:1])
	for i := range all {
		s := &all[i]
		s.name += inTiers
		s.only, s.tiers = relayed, 2
	}
	return all
}

// TestTiers puts two relays in a row: the second one must not take the caution of the
// first for the word of a control plane.
func TestTiers_RES7_RES10_RES16_ACK3(t *testing.T) { playAll(t, tierScenarios()) }
