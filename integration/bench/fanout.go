//go:build linux

package main

import (
	"context"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
)

// payloadSize is the size of payloads where nothing else is said.
const payloadSize = 1 << 10

// fanOut is one update to many clients.
func fanOut() scenario {
	return scenario{
		name: "fanout", title: "One update to everybody",
		text: "Incremental clients follow all resources, of 1 KiB. " +
			"One resource changes, and the next one as soon as all clients have that and the server is at rest with their acknowledgements.",
		metrics: fanOutMetrics(),
		variants: func(o *options) []variant {
			var all []variant
			for _, clients := range o.or(o.clients, []int{100, 1000, 5000, mostClients}, []int{100, 1000}) {
				resources := 1000
				if clients > 1000 {
					resources = 100
				}
				for _, resources := range o.or(o.resources, []int{resources}, []int{resources}) {
					all = append(all, fanOutTo(clients, resources))
				}
			}
			return all
		},
	}
}

func fanOutTo(clients, resources int) variant {
	return variant{
		name: thousands(clients) + " clients, " + thousands(resources) + " resources",
		run: func(ctx context.Context, o *options, kind server.Kind) (report.Values, error) {
			u := &updates{items: resources, count: min(100, max(10, 50_000/clients)), least: 3, limit: 10 * time.Second}
			if o.quick {
				u.count = 10
			}
			set := content.Set{TypeURL: content.ClusterType, Count: resources, Size: payloadSize}
			d, err := deploy(ctx, o, kind, false, u.items, u.total(), set)
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
