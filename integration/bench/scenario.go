//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
)

// scenario is one table of measurements.
type scenario struct {
	name    string
	title   string
	text    string // what is done, for the documentation
	metrics []report.Metric
	servers []server.Kind // nil: all
	// variants gives the table's groups of lines.
	variants func(o *options) []variant
}

// variant is one size of a scenario.
type variant struct {
	name string
	run  func(ctx context.Context, o *options, kind server.Kind) (report.Values, error)
}

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

// timeout is how long one server may take for one run of one variant.
const timeout = 10 * time.Minute

// measure runs a scenario. In each run every server has its turn, so that what else the
// machine does falls on all of them.
func (s *scenario) measure(ctx context.Context, o *options, progress func(string)) (*report.Table, error) {
	t := &report.Table{Scenario: s.name, Title: s.title, Text: s.text, Metrics: s.metrics}
	for _, v := range s.variants(o) {
		for run := range o.runs {
			o.measuring = fmt.Sprintf("%s-%s-%d", s.name, v.name, run+1)
			for _, kind := range o.servers {
				if !s.includes(kind) {
					continue
				}
				began := time.Now()
				values, err := s.once(ctx, o, &v, kind)
				if err != nil {
					return nil, fmt.Errorf("%s, %s, run %d, %s: %w", s.name, v.name, run+1, kind, err)
				}
				t.Results = append(t.Results, report.Result{Variant: v.name, Server: string(kind), Run: run + 1, Values: values})
				progress(fmt.Sprintf("%s, %s, run %d, %s: %s (%.1f s)", s.name, v.name, run+1, kind,
					t.Absolute(values), time.Since(began).Seconds()))
			}
		}
	}
	return t, nil
}

func (s *scenario) includes(kind server.Kind) bool {
	return s.servers == nil || slices.Contains(s.servers, kind)
}

func (s *scenario) once(ctx context.Context, o *options, v *variant, kind server.Kind) (report.Values, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	values, err := v.run(ctx, o, kind)
	if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		err = errors.Join(errTimeout, err)
	}
	return values, err
}

var errTimeout = fmt.Errorf("it took longer than %s", timeout)

// with runs a measurement on a deployment, checks at the end that every client holds what
// the server has, and closes it all.
func (d *deployment) with(measure func() (report.Values, error)) (values report.Values, err error) {
	defer func() { err = errors.Join(err, d.close()) }()
	if values, err = measure(); err != nil {
		return nil, err
	}
	if err := d.fleet.Check(); err != nil {
		return nil, fmt.Errorf("the clients do not hold what the server has: %w", err)
	}
	return values, nil
}

// thousands writes a number as people do.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
