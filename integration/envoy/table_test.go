package envoy

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// differencesDoc has the table, between these lines.
const (
	differencesDoc = "../../docs/differences.md"
	tableBegin     = "<!-- real Envoys: written by `go test ./integration/envoy -run Table -update` -->"
	tableEnd       = "<!-- end of the real Envoys -->"
)

// allScenarios are the rows of the table.
func allScenarios() []scenario {
	return slices.Concat(steadyScenarios(), swapScenarios(), changedScenarios(), badScenarios(), offerScenarios(), nackWaitScenarios(), silenceScenarios(),
		hostScenarios(), returningScenarios(), ttlScenarios(), wildcardScenarios(), demandScenarios(), otherScenarios(), accessScenarios(), globScenarios(), warmingScenarios(), outageScenarios(),
		failoverScenarios(), restartScenarios(), grayScenarios(), guardScenarios(), onPurposeScenarios(), rollbackScenarios(), pairScenarios(), rolloutScenarios(), tierScenarios())
}

// TestTable holds the table in docs/differences.md to what the scenarios come to: each one
// has to come out as the lists of known faults say, or it fails.
func TestTable(t *testing.T) {
	doc, err := os.ReadFile(differencesDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), tableBegin+"\n")
	was, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		t.Fatalf("%s has no lines %q and %q", differencesDoc, tableBegin, tableEnd)
	}
	now := table()
	switch {
	case was == now:
	case !*update:
		t.Errorf("%s has the table\n%s\nthe scenarios come to\n%s", differencesDoc, was, now)
	default:
		if err := os.WriteFile(differencesDoc, []byte(before+tableBegin+"\n"+now+tableEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// table has a row for each scenario and a column for each form, and below it what the
// noes in it stand for.
func table() string {
	var b strings.Builder
	b.WriteString("\n| scenario |")
	for _, f := range everyForm {
		b.WriteString(" " + f.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(everyForm)) + "\n")
	all := allScenarios()
	slices.SortStableFunc(all, func(a, b scenario) int { return cmp.Compare(a.difference(), b.difference()) })
	for _, s := range all {
		fmt.Fprintf(&b, "| %s (%s) |", s.name, strings.ReplaceAll(s.proves, " ", ", "))
		for _, f := range everyForm {
			b.WriteString(" " + s.cell(f) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	listFaults(&b, "Directly at the control plane:", directFaults())
	listFaults(&b, "Through the relay, not yet:", relayFaults())
	return b.String()
}

// difference is where a scenario stands in the table: first those in which the relay is worse in some form, then those in
// which it is better.
func (s *scenario) difference() int {
	order := 3
	for _, f := range s.forms {
		switch s.cell(f) {
		case "yes · no":
			return 0
		case "no · yes":
			order = 1
		case "– · yes":
			if s.only == relayed {
				order = min(order, 2)
			}
		}
	}
	return order
}

// cell is what comes of a scenario in one form: directly, and through the relay.
func (s *scenario) cell(f form) string {
	if !slices.ContainsFunc(s.forms, func(g form) bool { return g.name == f.name }) {
		return "–"
	}
	var parts []string
	for _, at := range []side{direct, relayed} {
		switch {
		case !slices.Contains(s.sides(f), at):
			parts = append(parts, "–")
		case knownFault(s.name, f.name, at) != nil:
			parts = append(parts, "no")
		default:
			parts = append(parts, "yes")
		}
	}
	return strings.Join(parts, " · ")
}

func listFaults(b *strings.Builder, title string, faults []fault) {
	if len(faults) == 0 {
		return
	}
	b.WriteString(title + "\n\n")
	for _, k := range faults {
		b.WriteString("- " + k.scenario)
		if k.requirement != "" {
			b.WriteString(" (" + k.requirement + ")")
		}
		b.WriteString(": " + k.seen + ".\n")
	}
	b.WriteString("\n")
}

// TestKnownFaults holds the lists of faults to the scenarios: a fault of no scenario, or
// of a form that the scenario is not played in, would be listed for ever.
func TestKnownFaults(t *testing.T) {
	all := allScenarios()
	for _, list := range [][]fault{directFaults(), relayFaults()} {
		for _, k := range list {
			i := slices.IndexFunc(all, func(s scenario) bool { return s.name == k.scenario })
			if i < 0 {
				t.Errorf("there is no scenario %q, of %s", k.scenario, k.list())
				continue
			}
			played := func(f form) bool {
				return slices.ContainsFunc(all[i].forms, func(g form) bool { return g.name == f.name })
			}
			if !slices.ContainsFunc(k.forms, played) {
				t.Errorf("%q is played in none of the forms in %s", k.scenario, k.list())
			}
		}
	}
}
