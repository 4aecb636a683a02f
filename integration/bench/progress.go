//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// progress tells who watches how far a benchmark is.
type progress struct {
	log   io.Writer
	began time.Time
	cell  time.Time     // when the one at hand began
	cells []cell        // that are left
	took  []measurement // until now
	ended int
	total int
}

// measurement is how long a server took for a variant.
type measurement struct {
	variant, server string
	took            time.Duration
}

// begin says what there is to do.
func begin(o *options, scenarios []scenario, log io.Writer) *progress {
	p := &progress{log: log, began: time.Now()}
	for i := range scenarios {
		s := &scenarios[i]
		p.cells = append(p.cells, s.cells(o, s.variants(o))...)
	}
	p.total = len(p.cells)
	_, _ = fmt.Fprintf(log, "%d measurements, about %s\n", p.total, minutes(p.left()))
	return p
}

func (p *progress) start() { p.cell = time.Now() }

// done says how one came out.
func (p *progress) done(c *cell, result string) {
	took := time.Since(p.cell)
	p.took = append(p.took, measurement{c.scenario.name + c.variant.name, string(c.kind), took})
	p.end()
	_, _ = fmt.Fprintf(p.log, "[%d/%d, %s, about %s left] %s: %s (%.1f s)\n",
		p.ended, p.total, minutes(time.Since(p.began)), minutes(p.left()), c, result, took.Seconds())
}

// skip says that one does not take place.
func (p *progress) skip(c *cell) {
	p.end()
	_, _ = fmt.Fprintf(p.log, "[%d/%d] %s: left out, it took too long before\n", p.ended, p.total, c)
}

func (p *progress) end() {
	p.ended++
	p.cells = p.cells[1:]
}

// left estimates how long the rest takes: each as long as the same took before, or as is
// usual.
func (p *progress) left() time.Duration {
	sum := time.Duration(0)
	for i := range p.cells {
		c := &p.cells[i]
		at := slices.IndexFunc(p.took, func(m measurement) bool {
			return m.variant == c.scenario.name+c.variant.name && m.server == string(c.kind)
		})
		if at < 0 {
			sum += c.about()
			continue
		}
		sum += p.took[at].took
	}
	return sum
}

// minutes writes a duration as people do.
func minutes(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
