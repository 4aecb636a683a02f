//go:build linux

package main

import (
	"context"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
)

// slow is updates beside clients that do not read.
func slow() scenario {
	return scenario{
		name: "slow", title: "A slow tenth of the fleet",
		text: "One update at a time to incremental clients that follow resources of 1 KiB; then again while every tenth does not read. " +
			"Shown is what the others wait for then, over what all waited for before, in the same run. At the end the tenth reads again, and has everything.",
		servers: []server.Kind{server.Relay, server.Linear, server.Snapshot},
		metrics: []report.Metric{
			{Name: "p99", Title: "p99, slow ÷ all reading", Form: report.Factor},
			{Name: "last", Title: "last client, slow ÷ all reading", Form: report.Factor},
		},
		variants: func(o *options) []variant {
			var all []variant
			for _, clients := range o.or(o.clients, []int{1000}, []int{100}) {
				for _, resources := range o.or(o.resources, []int{100}, []int{100}) {
					all = append(all, slowTenth(clients, resources))
				}
			}
			return all
		},
	}
}

func slowTenth(clients, resources int) variant {
	return variant{
		name: thousands(clients) + " clients",
		run: func(ctx context.Context, o *options, kind server.Kind) (report.Values, error) {
			u := &updates{items: resources, count: 100, least: 100, limit: time.Minute}
			if o.quick {
				u.count, u.least = 10, 10
			}
			set := content.Set{TypeURL: content.ClusterType, Count: resources, Size: payloadSize}
			d, err := deploy(ctx, o, kind, false, u.items, u.total()+u.count, set)
			if err != nil {
				return nil, err
			}
			return d.with(func() (report.Values, error) {
				if err := d.add(ctx, clients, d.everything); err != nil {
					return nil, err
				}
				return d.slow(ctx, u, clients)
			})
		},
	}
}

func (d *deployment) slow(ctx context.Context, u *updates, clients int) (report.Values, error) {
	all, err := d.measure(ctx, u)
	if err != nil {
		return nil, err
	}
	if err := d.fleet.Pause(10); err != nil {
		return nil, err
	}
	others, err := d.run(ctx, u, u.total(), u.count)
	if err != nil {
		return nil, err
	}
	if err := d.fleet.Resume(); err != nil {
		return nil, err
	}
	if err := d.fleet.Await(ctx); err != nil {
		return nil, err
	}
	before, after := all.values(clients), others.values(clients)
	return report.Values{"p99": after["p99"] / before["p99"], "last": after["last"] / before["last"]}, nil
}
