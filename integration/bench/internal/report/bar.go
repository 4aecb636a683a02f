package report

import "strconv"

// Bar is what a median must show.
type Bar struct {
	Variant string  `json:"variant"`
	Server  string  `json:"server"`
	Metric  string  `json:"metric"`
	Base    string  `json:"base,omitempty"`     // of a ratio to another server
	Limit   float64 `json:"limit"`              // the median is to be at most this,
	AtLeast bool    `json:"at_least,omitempty"` // or at least
}

// bar gives the one of a cell; nil: there is none. That something does not grow cannot be
// seen of the variant that growth is measured from.
func (t *Table) bar(m *Metric, r row, base string) *Bar {
	if m.Form == Growth && r.variant == t.Variants[0] {
		return nil
	}
	if !m.compares() {
		base = ""
	}
	for i := range t.Bars {
		if b := &t.Bars[i]; b.Variant == r.variant && b.Server == r.server && b.Metric == m.Name && b.Base == base {
			return b
		}
	}
	return nil
}

// text shows the bar, and whether a median meets it. It is "" of nil.
func (b *Bar) text(m *Metric, median float64) string {
	if b == nil {
		return ""
	}
	limit := strconv.FormatFloat(b.Limit, 'f', -1, 64)
	if m.Form == Bytes {
		limit = bytesText(b.Limit)
	}
	sign, met := "≤", median <= b.Limit
	if b.AtLeast {
		sign, met = "≥", median >= b.Limit
	}
	if met {
		return " " + sign + " " + limit + " ✓"
	}
	return " " + sign + " " + limit + " ✗"
}
