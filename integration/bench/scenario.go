//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
)

// scenario is one table of measurements.
type scenario struct {
	name    string
	title   string
	text    string // what is done, for the documentation
	metrics []report.Metric
	servers []server.Kind // that can take part; nil: all
	aside   bool          // it runs only if the command line asks for it: it takes long
	// variants gives the table's groups of lines.
	variants func(o *options) []variant
}

// variant is one size of a scenario.
type variant struct {
	name  string
	about time.Duration // what a run of the baseline, or of the relay, takes; roughly
	// others is how go-control-plane's caches take part, unless the command line says
	// which servers do: where they are what the relay is compared with.
	others others
	bars   []report.Bar // their variant is this one

	sets      []content.Set
	state     bool // the clients speak the state of the world
	window    int  // see fleet.Config
	strangers bool // others than the clients of the fleet come
	loops     int  // likewise, at least; 0: as many as the command line says
	// Of how many updates of the first set the clients are to know, over its first items,
	// see fleet.Schedule.
	items, updates int

	measure func(ctx context.Context, d *deployment) (report.Values, error)
}

// others is in how many runs servers take part that need long, and how long one takes.
type others struct {
	runs  int
	about time.Duration
}

// allRuns is for those that a bar compares with.
const allRuns = 1 << 30

// scenarios are all there are, in the order in which they run.
func scenarios() []scenario {
	return []scenario{
		fanOut(),
		initialState(),
		collections(),
		churn(),
		idle(),
		stateOfTheWorld(),
		reconnect(),
		slow(),
		attacks(),
	}
}

// fanOutMetrics are what is shown of updates that are awaited one by one.
func fanOutMetrics() []report.Metric {
	return []report.Metric{
		{Name: "last", Title: "last client", Form: report.Ratio},
		{Name: "p50", Title: "p50", Form: report.Ratio},
		{Name: "p99", Title: "p99", Form: report.Ratio},
		{Name: "cpu", Title: "CPU per delivery", Form: report.Ratio},
	}
}

// toBaseline is what the relay may take, as a ratio to the baseline.
func toBaseline(metric string, limit float64) report.Bar {
	return report.Bar{Server: string(server.Relay), Metric: metric, Base: string(server.Baseline), Limit: limit}
}

// atMost is what the relay may come to.
func atMost(metric string, limit float64) report.Bar {
	return report.Bar{Server: string(server.Relay), Metric: metric, Limit: limit}
}

// choice is numbers of clients or of resources, for a whole run and for a quick one.
type choice struct{ whole, quick []int }

// both is a choice that is the same for either.
func both(n int) choice { return choice{[]int{n}, []int{n}} }

// grid makes a variant of each combination of clients and resources: of those that the
// command line asks for, else of the scenario's own.
func (o *options) grid(clients, resources choice, of func(clients, resources int) variant) []variant {
	var all []variant
	for _, r := range o.or(o.resources, resources) {
		for _, c := range o.or(o.clients, clients) {
			all = append(all, of(c, r))
		}
	}
	return all
}

// or gives what was given on the command line, else what a scenario has by itself.
func (o *options) or(given []int, own choice) []int {
	switch {
	case given != nil:
		return given
	case o.quick:
		return own.quick
	default:
		return own.whole
	}
}

// includes tells whether a server takes part in a run, counted from 0.
func (s *scenario) includes(o *options, v *variant, kind server.Kind, run int) bool {
	switch {
	case s.servers != nil && !slices.Contains(s.servers, kind):
		return false
	case o.servers != nil:
		return slices.Contains(o.servers, kind)
	default:
		return kind == server.Baseline || kind == server.Relay || run < v.others.runs
	}
}

// thousands writes a number as people do.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
