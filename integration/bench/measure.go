//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
)

// cell is one measurement.
type cell struct {
	scenario *scenario
	variant  *variant
	run      int // counted from 0
	kind     server.Kind
}

func (c *cell) String() string {
	return fmt.Sprintf("%s, %s, run %d, %s", c.scenario.name, c.variant.name, c.run+1, c.kind)
}

// about is how long it takes, roughly.
func (c *cell) about() time.Duration {
	if c.kind == server.Baseline || c.kind == server.Relay {
		return c.variant.about
	}
	return c.variant.others.about
}

// cells are all measurements of a scenario in their order: in each run every variant and
// server has its turn, so that what else the machine does falls on all of them, and what a
// table compares was measured within minutes.
func (s *scenario) cells(o *options, variants []variant) []cell {
	var all []cell
	for run := range o.runs {
		for i := range variants {
			for _, kind := range server.Kinds() {
				if s.includes(o, &variants[i], kind, run) {
					all = append(all, cell{s, &variants[i], run, kind})
				}
			}
		}
	}
	return all
}

// table is one without results. Bars are for the sizes that a quick run does not have.
func (s *scenario) table(o *options, variants []variant) *report.Table {
	t := &report.Table{Scenario: s.name, Title: s.title, Text: s.text, Metrics: s.metrics}
	for _, v := range variants {
		t.Variants = append(t.Variants, v.name)
		for _, b := range v.bars {
			if b.Variant = v.name; !o.quick {
				t.Bars = append(t.Bars, b)
			}
		}
	}
	for _, kind := range server.Kinds() {
		t.Servers = append(t.Servers, string(kind))
	}
	return t
}

// measure runs a scenario. A measurement that fails is noted in the table, and the rest
// goes on; one that took too long is not tried again in the runs that follow. The error is
// that of ctx.
func (s *scenario) measure(ctx context.Context, o *options, p *progress) (*report.Table, error) {
	variants := s.variants(o)
	t := s.table(o, variants)
	tooLong := make(map[string]bool) // by variant and server
	for _, c := range s.cells(o, variants) {
		key := c.variant.name + string(c.kind)
		if tooLong[key] {
			p.skip(&c)
			continue
		}
		o.measuring = fmt.Sprintf("%s-%s-%d", s.name, c.variant.name, c.run+1)
		p.start()
		values, err := c.measure(ctx, o)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w", &c, context.Cause(ctx))
		}
		if err != nil {
			tooLong[key] = errors.Is(err, errTimeout)
			t.Failures = append(t.Failures, report.Failure{
				Variant: c.variant.name, Server: string(c.kind), Run: c.run + 1, Reason: strings.TrimSpace(err.Error()),
			})
			p.done(&c, "failed: "+err.Error())
			continue
		}
		t.Results = append(t.Results, report.Result{Variant: c.variant.name, Server: string(c.kind), Run: c.run + 1, Values: values})
		p.done(&c, t.Absolute(values))
	}
	return t, nil
}

var errTimeout = errors.New("it took too long, and is not tried again")

// measure makes one measurement: with servers of its own, which are gone when it returns.
// At the end every client must hold what the server has.
func (c *cell) measure(ctx context.Context, o *options) (values report.Values, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, errTimeout)
	defer cancel()
	defer func() {
		if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
			err = fmt.Errorf("%w: more than %s: %w", errTimeout, o.limit, err)
		}
	}()
	d, err := deploy(ctx, o, c.kind, c.variant)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if values, err = c.variant.measure(ctx, d); err != nil || d.cut {
		return values, err
	}
	if err := d.fleet.Check(); err != nil {
		return nil, fmt.Errorf("the clients do not hold what the server has: %w", err)
	}
	return values, nil
}
