package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() *Table {
	t := &Table{
		Title: "A title", Text: "A text.",
		Variants: []string{"few", "many"}, Servers: []string{"baseline", "relay", "linear"},
		Metrics: []Metric{
			{Name: "last", Title: "last client", Form: Ratio},
			{Name: "memory", Title: "memory", Form: Bytes},
			{Name: "growth", Title: "by size", Form: Growth, Of: "last"},
		},
	}
	// Absolute values double with each run, as on a machine that others begin to use:
	// ratios within a run do not.
	for run, pace := range []float64{1, 2, 4} {
		for _, v := range []struct {
			variant, server string
			last            float64
		}{
			{"few", "baseline", 1}, {"few", "relay", 1.5}, {"few", "linear", 30},
			{"many", "baseline", 10}, {"many", "relay", 12 + float64(run)}, {"many", "linear", 600},
		} {
			t.Results = append(t.Results, Result{Variant: v.variant, Server: v.server, Run: run + 1, Values: Values{
				"last": v.last * pace, "memory": 20 << 20,
			}})
		}
	}
	return t
}

func TestSectionShowsRatiosWithinARun(t *testing.T) {
	want := `### A title

A text.

| | server | last client ÷ baseline | memory | by size |
|---|---|---:|---:|---:|
| few | baseline | 1 | 20 MiB | 1 |
| few | relay | 1.50 | 20 MiB | 1 |
| few | linear | 30 | 20 MiB | 1 |
| many | baseline | 1 | 20 MiB | 10 |
| many | relay | 1.30 (1.20 … 1.40) | 20 MiB | 8.67 (8 … 9.33) |
| many | linear | 60 | 20 MiB | 20 |

| | server | last client ÷ relay |
|---|---|---:|
| few | linear | 20 |
| many | linear | 46.2 (42.9 … 50) |
`
	if diff := cmp.Diff(want, sample().Section()); diff != "" {
		t.Errorf("another section (-want +got):\n%s", diff)
	}
}

func TestBarsStandBesideWhatIsMeasured(t *testing.T) {
	table := sample()
	table.Bars = []Bar{
		{Variant: "few", Server: "relay", Metric: "last", Base: "baseline", Limit: 1.5},
		{Variant: "many", Server: "relay", Metric: "last", Base: "baseline", Limit: 1.25},
		{Variant: "many", Server: "relay", Metric: "memory", Limit: 30 << 20},
		{Variant: "many", Server: "relay", Metric: "growth", Limit: 9},
		{Variant: "few", Server: "relay", Metric: "growth", Limit: 9}, // the first one: it says nothing
		{Variant: "many", Server: "linear", Metric: "last", Base: "relay", Limit: 5, AtLeast: true},
		{Variant: "few", Server: "linear", Metric: "last", Base: "relay", Limit: 25, AtLeast: true},
	}
	section := table.Section()
	for _, want := range []string{
		"| few | relay | 1.50 ≤ 1.5 ✓ | 20 MiB | 1 |",
		"| many | relay | 1.30 (1.20 … 1.40) ≤ 1.25 ✗ | 20 MiB ≤ 30 MiB ✓ | 8.67 (8 … 9.33) ≤ 9 ✓ |",
		"| many | linear | 60 | 20 MiB | 20 |",
		"| few | linear | 20 ≥ 25 ✗ |",
		"| many | linear | 46.2 (42.9 … 50) ≥ 5 ✓ |",
	} {
		if !strings.Contains(section, want) {
			t.Errorf("%q is not in the section:\n%s", want, section)
		}
	}
}

func TestSectionTellsWhatWasGivenUpOrFailed(t *testing.T) {
	table := &Table{
		Variants: []string{"one"}, Servers: []string{"baseline", "relay"},
		Metrics:  []Metric{{Name: "after", Title: "after", Form: Factor, Cut: 30}},
		Results:  []Result{{Variant: "one", Server: "baseline", Run: 1, Values: Values{"after": 30}}},
		Failures: []Failure{{Variant: "one", Server: "relay", Run: 1, Reason: "broken\ntwice"}},
	}
	section := table.Section()
	for _, want := range []string{"| one | baseline | not within 30 |", "| one | relay | – |", "Failed:\n\n- one, relay, run 1: broken; twice\n"} {
		if !strings.Contains(section, want) {
			t.Errorf("%q is not in the section:\n%s", want, section)
		}
	}
}

// A run that lacks the other server, or a metric, takes no part in the ratio.
func TestShownWithoutTheOther(t *testing.T) {
	table := sample()
	table.Results = table.Results[1:] // the baseline's first run
	s, ok := table.Shown(table.Metrics[0], "few", "relay", "baseline")
	if !ok || s.Runs != 2 || s.Median != 1.5 {
		t.Errorf("the ratio is %+v, expected 1.5 of two runs", s)
	}
	for i := range table.Results {
		delete(table.Results[i].Values, "last")
	}
	if _, ok := table.Shown(table.Metrics[0], "few", "relay", "baseline"); ok {
		t.Error("there is a ratio of what was not measured")
	}
}

func TestSpread(t *testing.T) {
	if _, ok := SpreadOf(nil); ok {
		t.Error("there is a spread of nothing")
	}
	for _, c := range []struct {
		values []float64
		want   Spread
	}{
		{[]float64{3}, Spread{Median: 3, Min: 3, Max: 3, Runs: 1}},
		{[]float64{9, 1, 2}, Spread{Median: 2, Min: 1, Max: 9, Runs: 3}},
		{[]float64{4, 1, 2, 9}, Spread{Median: 3, Min: 1, Max: 9, Runs: 4}},
	} {
		if got, ok := SpreadOf(c.values); !ok || got != c.want {
			t.Errorf("the spread of %v is %+v, expected %+v", c.values, got, c.want)
		}
	}
}

func TestBytesAndNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0 B", 291.4: "291 B", 37 << 10: "37 KiB", 15.04 * (1 << 20): "15.0 MiB"} {
		if got := bytesText(v); got != want {
			t.Errorf("%v bytes are written %q, expected %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 1.004: "1.00", 12.34: "12.3", 1234.5: "1234", 5000: "5000"} {
		if got := number(v); got != want {
			t.Errorf("%v is written %q, expected %q", v, got, want)
		}
	}
}
