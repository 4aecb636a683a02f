//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/clock"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/fleet"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
)

// reconnect is everybody at once, with the versions of what they hold.
func reconnect() scenario {
	return scenario{
		name: "reconnect", title: "Everybody reconnects",
		text: "Incremental clients that follow resources of 256 bytes are cut off, and connect again at once, presenting the current versions of all. " +
			"A client is settled when it is sent one resource of another type, which it asks for on the same stream behind that. " +
			"Memory is what the server's process has resident more after that than before the first connection, after garbage collections.",
		metrics: []report.Metric{
			{Name: "last", Title: "all settled", Form: report.Ratio},
			{Name: "cpu", Title: "CPU per client", Form: report.Ratio},
			{Name: "again", Title: "resources sent again", Form: report.Count},
			{Name: "upstream", Title: "requests upstream", Form: report.Count},
			{Name: "client ratio", Title: "memory per client", Form: report.Weight},
			{Name: "client", Title: "per client", Form: report.Bytes},
		},
		variants: func(o *options) []variant {
			return o.grid(choice{[]int{5000}, []int{200}}, choice{[]int{1000}, []int{100}}, comeBack)
		},
	}
}

func comeBack(clients, resources int) variant {
	return variant{
		name:  thousands(clients) + " clients, " + thousands(resources) + " resources",
		about: 6 * time.Second,
		bars:  []report.Bar{toBaseline("last", 1.5), atMost("again", 0), atMost("upstream", 0)},
		sets: []content.Set{
			{TypeURL: content.ClusterType, Count: resources, Size: 256},
			{TypeURL: content.EndpointType, Count: 1, Size: 256},
		},
		measure: func(ctx context.Context, d *deployment) (report.Values, error) { return d.reconnect(ctx, clients) },
	}
}

func (d *deployment) reconnect(ctx context.Context, clients int) (report.Values, error) {
	probe := []int{d.names.First(1)}
	versions, err := fleet.Versions(d.sets[0], d.sets[0].Count)
	if err != nil {
		return nil, err
	}
	with := func(versions []byte) func(int) []fleet.Subscription {
		return func(int) []fleet.Subscription {
			return []fleet.Subscription{
				{TypeURL: d.sets[0].TypeURL, Versions: versions},
				{TypeURL: d.sets[1].TypeURL, Items: probe},
			}
		}
	}
	if err := d.add(ctx, 1, with(nil)); err != nil {
		return nil, err
	}
	none, err := d.resident()
	if err != nil {
		return nil, err
	}
	if err := d.add(ctx, clients-1, with(nil)); err != nil {
		return nil, err
	}
	d.fleet.Disconnect()
	if err := d.quiet(ctx); err != nil {
		return nil, err
	}
	v, err := d.comeBack(ctx, clients, probe, with(versions))
	if err != nil {
		return nil, err
	}
	some, err := d.resident()
	v["client"] = float64(some-none) / float64(clients)
	v["client ratio"] = v["client"]
	return v, err
}

func (d *deployment) comeBack(ctx context.Context, clients int, probe []int, subscribe func(int) []fleet.Subscription) (report.Values, error) {
	counted := d.fleet.Counts()
	seen, err := d.plane.Stats()
	if err != nil {
		return nil, err
	}
	began := clock.New().Now()
	used, err := d.using(ctx, func() error {
		d.fleet.Reconnect(probe, subscribe)
		return d.fleet.Await(ctx)
	})
	if err != nil {
		return nil, err
	}
	last := d.fleet.Latencies(began).Max()
	again := d.fleet.Counts().Resources - counted.Resources - clients // each was sent the probe
	v := report.Values{
		"last": last.Seconds(), "again": float64(again),
		"cpu": used.server.Seconds() / float64(clients),
	}
	if d.plane == d.server {
		return v, nil
	}
	stats, err := d.plane.Stats()
	if err != nil {
		return nil, err
	}
	if stats.Streams != seen.Streams {
		return nil, fmt.Errorf("the relay opened %d streams upstream while its clients reconnected", stats.Streams-seen.Streams)
	}
	v["upstream"] = float64(stats.Requests - seen.Requests)
	return v, nil
}
