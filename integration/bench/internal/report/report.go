// Package report makes tables of what benchmarks measured. Absolute times say more
// about a machine than about a program, so a table shows what a server took as a ratio
// to what another one took in the same run, as the median over the runs with the
// smallest and the largest. Absolute values are in the JSON form only.
package report

import "slices"

// Form is how a metric is shown.
type Form string

// The forms.
const (
	Ratio  Form = "ratio"  // seconds, shown as the ratio to another server
	Weight Form = "weight" // bytes, shown like Ratio
	Growth Form = "growth" // seconds, shown as the ratio to the same server in the table's first variant
	Factor Form = "factor" // a ratio already
	Bytes  Form = "bytes"
	Count  Form = "count"
)

// Metric is one thing that was measured.
type Metric struct {
	Name  string `json:"name"`
	Title string `json:"title"` // of its column
	Form  Form   `json:"form"`
	Of    string `json:"of,omitempty"` // of Growth: the name of the metric that it shows
	// Cut is where a measurement is given up: of a value that reaches it nothing is known but that.
	Cut float64 `json:"cut,omitempty"`
}

// Values are what was measured, by the metric's name: seconds, bytes or numbers. What
// was not measured is not there.
type Values map[string]float64

// Result is what one server came to in one run of one variant of a scenario.
type Result struct {
	Variant string `json:"variant"`
	Server  string `json:"server"`
	Run     int    `json:"run"`
	Values  Values `json:"values"`
}

// Failure is why there is no result.
type Failure struct {
	Variant string `json:"variant"`
	Server  string `json:"server"`
	Run     int    `json:"run"`
	Reason  string `json:"reason"`
}

// Table is the results of a scenario.
type Table struct {
	Scenario string    `json:"scenario"`
	Title    string    `json:"title"`
	Text     string    `json:"text"`     // what was done
	Variants []string  `json:"variants"` // in the order of the lines
	Servers  []string  `json:"servers"`  // likewise
	Metrics  []Metric  `json:"metrics"`
	Bars     []Bar     `json:"bars,omitempty"`
	Results  []Result  `json:"results"`
	Failures []Failure `json:"failures,omitempty"`
}

// Spread is the median of several runs, and their extremes.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Runs   int     `json:"runs"`
}

// SpreadOf gives the spread of values; ok is false without any. Of an even number the
// median is the mean of the two in the middle.
func SpreadOf(values []float64) (s Spread, ok bool) {
	n := len(values)
	if n == 0 {
		return Spread{}, false
	}
	sorted := slices.Sorted(slices.Values(values))
	return Spread{
		Median: (sorted[(n-1)/2] + sorted[n/2]) / 2,
		Min:    sorted[0], Max: sorted[n-1], Runs: n,
	}, true
}

// value gives what was measured in one run.
func (t *Table) value(variant, server string, run int, metric string) (float64, bool) {
	i := slices.IndexFunc(t.Results, func(r Result) bool {
		return r.Variant == variant && r.Server == server && r.Run == run
	})
	if i < 0 {
		return 0, false
	}
	v, ok := t.Results[i].Values[metric]
	return v, ok
}

// ratios gives a server's value over that of another, or of itself in another variant,
// of each run that has both.
func (t *Table) ratios(variant, server, metric, otherVariant, other string) []float64 {
	var ratios []float64
	for _, r := range t.Results {
		if r.Variant != variant || r.Server != server {
			continue
		}
		own, ok := r.Values[metric]
		base, have := t.value(otherVariant, other, r.Run, metric)
		if ok && have && base > 0 {
			ratios = append(ratios, own/base)
		}
	}
	return ratios
}

// values gives what a server came to in each run.
func (t *Table) values(variant, server, metric string) []float64 {
	var values []float64
	for _, r := range t.Results {
		if v, ok := r.Values[metric]; ok && r.Variant == variant && r.Server == server {
			values = append(values, v)
		}
	}
	return values
}

// Shown gives what a table shows of a metric, ratios being to the server base.
func (t *Table) Shown(m Metric, variant, server, base string) (Spread, bool) {
	switch m.Form {
	case Ratio, Weight:
		return SpreadOf(t.ratios(variant, server, m.Name, variant, base))
	case Growth:
		return SpreadOf(t.ratios(variant, server, m.Of, t.Variants[0], server))
	default:
		return SpreadOf(t.values(variant, server, m.Name))
	}
}

// row is a line of a table.
type row struct{ variant, server string }

// rows gives the lines: of what was measured, if without result.
func (t *Table) rows() []row {
	have := make(map[row]bool)
	for _, r := range t.Results {
		have[row{r.Variant, r.Server}] = true
	}
	for _, f := range t.Failures {
		have[row{f.Variant, f.Server}] = true
	}
	var rows []row
	for _, variant := range t.Variants {
		for _, server := range t.Servers {
			if next := (row{variant, server}); have[next] {
				rows = append(rows, next)
			}
		}
	}
	return rows
}
