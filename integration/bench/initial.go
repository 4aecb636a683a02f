//go:build linux

package main

import (
	"context"
	"runtime"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/clock"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/fleet"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
)

// initialState is a large state for a few clients that come at once.
func initialState() scenario {
	return scenario{
		name: "initial", title: "The first state",
		text: "One incremental client is sent all resources, of 1 KiB, for which a relay asks its control plane. " +
			"Then the others come at once, as many as the line says. Memory is the most that the server's process had resident from its start on, and that over the bytes of the payloads.",
		metrics: []report.Metric{
			{Name: "cold", Title: "the first client", Form: report.Ratio},
			{Name: "last", Title: "last of the others", Form: report.Ratio},
			{Name: "cpu", Title: "CPU for them", Form: report.Ratio},
			{Name: "peak", Title: "peak memory", Form: report.Bytes},
			{Name: "copies", Title: "over the payloads", Form: report.Factor},
		},
		variants: func(o *options) []variant {
			return o.grid(both(10), choice{[]int{10_000, largeCollection}, []int{1000}}, initialTo)
		},
	}
}

func initialTo(clients, resources int) variant {
	v := variant{
		name:  thousands(resources) + " resources to " + thousands(clients) + " clients",
		about: 2 * time.Second,
		sets:  []content.Set{{TypeURL: content.ClusterType, Count: resources, Size: payloadSize}},
		// To look at so much takes clients longer than a server needs to send it.
		loops: runtime.GOMAXPROCS(0),
		measure: func(ctx context.Context, d *deployment) (report.Values, error) {
			return d.initial(ctx, clients, resources)
		},
	}
	if resources == largeCollection {
		v.others = others{3, 10 * time.Second}
		v.bars = []report.Bar{toBaseline("last", 1.5), atMost("peak", float64(2*resources*payloadSize+100<<20))}
	}
	return v
}

func (d *deployment) initial(ctx context.Context, clients, resources int) (report.Values, error) {
	cold, err := d.join(ctx, 1, d.everything)
	if err != nil {
		return nil, err
	}
	var last time.Duration
	used, err := d.using(ctx, func() (err error) {
		last, err = d.join(ctx, clients, d.everything)
		return err
	})
	if err != nil {
		return nil, err
	}
	memory, err := d.server.Memory()
	return report.Values{
		"cold": cold.Seconds(), "last": last.Seconds(),
		"cpu":  used.server.Seconds(),
		"peak": float64(memory.Peak), "copies": float64(memory.Peak) / float64(resources*payloadSize),
	}, err
}

// join has n clients join, and tells how long it took until the last one had what it
// asked for.
func (d *deployment) join(ctx context.Context, n int, subscribe func(int) []fleet.Subscription) (time.Duration, error) {
	began := clock.New().Now()
	if err := d.add(ctx, n, subscribe); err != nil {
		return 0, err
	}
	return d.fleet.Latencies(began).Max(), nil
}
