//go:build linux

package main

import (
	"context"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
)

// stateOfTheWorld is one update to clients that are sent everything each time.
func stateOfTheWorld() scenario {
	return scenario{
		name: "sotw", title: "The state of the world",
		text:    "Clients of the state of the world follow clusters of 1 KiB. One changes, and all clients are sent all of them.",
		metrics: fanOutMetrics(),
		variants: func(o *options) []variant {
			var all []variant
			for _, clients := range o.or(o.clients, []int{1000}, []int{100}) {
				for _, resources := range o.or(o.resources, []int{100}, []int{100}) {
					all = append(all, listsTo(clients, resources))
				}
			}
			return all
		},
	}
}

func listsTo(clients, resources int) variant {
	return variant{
		name: thousands(clients) + " clients, " + thousands(resources) + " resources",
		run: func(ctx context.Context, o *options, kind server.Kind) (report.Values, error) {
			u := &updates{items: resources, count: 50, least: 3, limit: 10 * time.Second}
			if o.quick {
				u.count = 10
			}
			set := content.Set{TypeURL: content.ClusterType, Count: resources, Size: payloadSize}
			d, err := deploy(ctx, o, kind, true, u.items, u.total(), set)
			if err != nil {
				return nil, err
			}
			return d.with(func() (report.Values, error) {
				if err := d.add(ctx, clients, d.everything); err != nil {
					return nil, err
				}
				r, err := d.measure(ctx, u)
				if err != nil {
					return nil, err
				}
				return r.values(clients), nil
			})
		},
	}
}
