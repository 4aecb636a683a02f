package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Servers that others are compared with.
const (
	baseline = "baseline"
	relay    = "relay"
)

// Section writes all of a scenario: what it is, the ratios to the baseline, how the others
// compare with the relay, and what failed.
func (t *Table) Section() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s\n\n%s", t.Title, t.Text, t.Markdown(baseline))
	if slices.ContainsFunc(t.rows(), func(r row) bool { return r.server == relay }) {
		if others := t.Markdown(relay, baseline, relay); others != "" {
			fmt.Fprintf(&b, "\n%s", others)
		}
	}
	if len(t.Failures) > 0 {
		b.WriteString("\nFailed:\n\n")
	}
	for _, f := range t.Failures {
		fmt.Fprintf(&b, "- %s, %s, run %d: %s\n", f.Variant, f.Server, f.Run, strings.ReplaceAll(f.Reason, "\n", "; "))
	}
	return b.String()
}

// Absolute writes what was measured once, for people who watch a benchmark run.
func (t *Table) Absolute(v Values) string {
	var parts []string
	for _, m := range t.Metrics {
		value, ok := v[m.Name]
		if !ok {
			continue
		}
		text := number(value)
		switch m.Form {
		case Ratio:
			text = time.Duration(value * float64(time.Second)).String()
		case Bytes, Weight:
			text = bytesText(value)
		default:
		}
		parts = append(parts, m.Title+" "+text)
	}
	return strings.Join(parts, ", ")
}
