//go:build linux

package main

import (
	"context"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/fleet"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
)

// Names that a client of the idle scenario asks for: first, and then further ones.
const (
	idleNames    = 10
	furtherNames = 90
)

// idle is what clients cost that have what they want.
func idle() scenario {
	return scenario{
		name: "idle", title: "Clients at rest",
		text: "Incremental clients, each on a connection of its own, with ten endpoints, by name; then each asks for 90 more. " +
			"Memory is what the server's process has resident more than before, after garbage collections, per client and per further name.",
		metrics: []report.Metric{
			{Name: "client ratio", Title: "memory per client", Form: report.Weight},
			{Name: "client", Title: "per client", Form: report.Bytes},
			{Name: "name", Title: "per further name", Form: report.Bytes},
		},
		variants: func(o *options) []variant {
			return o.grid(choice{[]int{5000}, []int{500}}, both(1000), idleClients)
		},
	}
}

func idleClients(clients, resources int) variant {
	resources = max(resources, idleNames+furtherNames)
	return variant{
		name:  thousands(clients) + " clients, " + thousands(resources) + " resources",
		about: 3 * time.Second,
		bars:  []report.Bar{toBaseline("client ratio", 1.15), atMost("name", 300)},
		sets:  []content.Set{{TypeURL: content.EndpointType, Count: resources, Size: 256}},
		measure: func(ctx context.Context, d *deployment) (report.Values, error) {
			return d.idle(ctx, clients, resources)
		},
	}
}

func (d *deployment) idle(ctx context.Context, clients, resources int) (report.Values, error) {
	names := func(client, from, n int) fleet.Subscription {
		items := make([]int, n)
		for i := range items {
			items[i] = (client*idleNames + from + i) % resources
		}
		return fleet.Subscription{TypeURL: d.sets[0].TypeURL, Items: items}
	}
	// The first client has them all, so that a relay has them before memory is measured.
	if err := d.add(ctx, 1, func(int) []fleet.Subscription {
		return []fleet.Subscription{names(0, 0, resources)}
	}); err != nil {
		return nil, err
	}
	none, err := d.resident()
	if err != nil {
		return nil, err
	}
	if err := d.add(ctx, clients, func(client int) []fleet.Subscription {
		return []fleet.Subscription{names(client, 0, idleNames)}
	}); err != nil {
		return nil, err
	}
	few, err := d.resident()
	if err != nil {
		return nil, err
	}
	if err := d.memoryProfile(ctx, "rest"); err != nil {
		return nil, err
	}
	if err := d.further(ctx, func(client int) fleet.Subscription { return names(client, idleNames, furtherNames) }); err != nil {
		return nil, err
	}
	many, err := d.resident()
	if err != nil {
		return nil, err
	}
	err = d.memoryProfile(ctx, "further")
	perClient := float64(few-none) / float64(clients)
	return report.Values{
		"client": perClient, "client ratio": perClient,
		"name": float64(many-few) / float64(clients*furtherNames),
	}, err
}

// further has every client ask for more, and waits until it has it.
func (d *deployment) further(ctx context.Context, more func(client int) fleet.Subscription) error {
	if err := d.fleet.Subscribe(more); err != nil {
		return err
	}
	if err := d.fleet.Await(ctx); err != nil {
		return err
	}
	return d.quiet(ctx)
}
