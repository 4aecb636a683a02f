package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Markdown writes the table, ratios being to the server base, and without the servers
// in without. It is "" if nothing is left.
func (t *Table) Markdown(base string, without ...string) string {
	metrics := t.Metrics
	if len(without) > 0 { // the second table of a scenario: absolute values are in the first
		metrics = nil
		for _, m := range t.Metrics {
			if m.compares() {
				metrics = append(metrics, m)
			}
		}
	}
	var b strings.Builder
	lines := 0
	b.WriteString("| | server |")
	for _, m := range metrics {
		title := m.Title
		if m.compares() {
			title += " ÷ " + base
		}
		fmt.Fprintf(&b, " %s |", title)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---:|", len(metrics)) + "\n")
	for _, r := range t.rows() {
		if slices.Contains(without, r.server) {
			continue
		}
		lines++
		fmt.Fprintf(&b, "| %s | %s |", r.variant, r.server)
		for _, m := range metrics {
			cell := "–"
			if s, ok := t.Shown(m, r.variant, r.server, base); ok {
				cell = m.text(s) + t.bar(&m, r, base).text(&m, s.Median)
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	if lines == 0 || len(metrics) == 0 {
		return ""
	}
	return b.String()
}

// compares tells whether the metric is shown as a ratio to another server.
func (m *Metric) compares() bool { return m.Form == Ratio || m.Form == Weight }

// text shows a median with the smallest and the largest, unless they look the same.
func (m Metric) text(s Spread) string {
	show := number
	if m.Form == Bytes {
		show = bytesText
	}
	if m.Cut > 0 && s.Median >= m.Cut {
		return "not within " + number(m.Cut)
	}
	median, low, high := show(s.Median), show(s.Min), show(s.Max)
	if low == high {
		return median
	}
	return fmt.Sprintf("%s (%s … %s)", median, low, high)
}

// number shows three digits, or more in front of the point.
func number(v float64) string {
	switch size := math.Abs(v); {
	case size == math.Trunc(size) && size < 1e6, size >= 100:
		return fmt.Sprintf("%.0f", v)
	case size >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// bytesText shows bytes in the unit that leaves up to four digits.
func bytesText(v float64) string {
	switch size := math.Abs(v); {
	case size >= 10<<20:
		return number(v/(1<<20)) + " MiB"
	case size >= 10<<10:
		return number(v/(1<<10)) + " KiB"
	default:
		return fmt.Sprintf("%.0f B", v)
	}
}
