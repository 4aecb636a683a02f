package config_test

import "testing"

// TestRulesGuide executes every example of docs/rules.md (AGG-1 to AGG-3).
func TestRulesGuide(t *testing.T) {
	for _, e := range ruleDocument(t, "../docs/rules.md") {
		t.Run(exampleName(e), func(t *testing.T) { e.check(t) })
	}
}
