package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Servers that others are compared with.
const (
	floor = "floor"
	relay = "relay"
)

// Section writes all of a scenario: what it is, the ratios to the floor, and how the
// others compare with the relay.
func (t *Table) Section() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s\n\n%s", t.Title, t.Text, t.Markdown(floor))
	if !slices.ContainsFunc(t.rows(), func(r row) bool { return r.server == relay }) {
		return b.String()
	}
	if others := t.Markdown(relay, floor, relay); others != "" {
		fmt.Fprintf(&b, "\n%s", others)
	}
	return b.String()
}

// Absolute writes what was measured once, for whoever watches a benchmark run.
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
