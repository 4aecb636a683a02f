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
		text: "One update at a time to incremental clients that follow resources of 1 KiB: to nine tenths of them while those are all there are, " +
			"and again once the last tenth has joined, had everything, and stopped to read. " +
			"All allow a server 64 KiB on their way, which the tenth has used up before the second part begins. " +
			"Shown is what the nine tenths wait for beside it, over what they waited for without it, in the same run: " +
			"p99 and the last client of each update, in the median of the updates. " +
			"At the end the tenth reads again, and has everything.",
		// The baseline's senders wait for a client that does not read, with all that are behind it.
		servers: []server.Kind{server.Relay, server.Linear, server.Snapshot},
		metrics: []report.Metric{
			{Name: "p99", Title: "p99 beside ÷ without", Form: report.Factor},
			{Name: "last", Title: "last client, beside ÷ without", Form: report.Factor},
		},
		variants: func(o *options) []variant {
			return o.grid(choice{[]int{1000}, []int{100}}, both(100), slowTenth(o))
		},
	}
}

// smallWindow is what a client of the slow scenario allows a server to send before it
// reads, and filling the number of updates of 1 KiB that are more.
const (
	smallWindow = 64 << 10
	filling     = smallWindow/payloadSize + 1
)

func slowTenth(o *options) func(clients, resources int) variant {
	return func(clients, resources int) variant {
		u := &updates{items: resources, count: 100, least: 100, limit: time.Minute}
		if o.quick {
			u.count, u.least = 10, 10
		}
		return variant{
			name:  thousands(clients) + " clients, " + thousands(resources) + " resources",
			about: 20 * time.Second,
			bars:  []report.Bar{atMost("p99", 1.1)},
			sets:  []content.Set{{TypeURL: content.ClusterType, Count: resources, Size: payloadSize}},
			items: u.items, updates: warmUp + u.count + filling + u.count, window: smallWindow,
			measure: func(ctx context.Context, d *deployment) (report.Values, error) { return d.slow(ctx, u, clients) },
		}
	}
}

func (d *deployment) slow(ctx context.Context, u *updates, clients int) (report.Values, error) {
	reading := clients - clients/10
	if err := d.add(ctx, reading, d.everything); err != nil {
		return nil, err
	}
	if _, err := d.run(ctx, u, 0, warmUp); err != nil {
		return nil, err
	}
	without, err := d.run(ctx, u, warmUp, u.count)
	if err != nil {
		return nil, err
	}
	if err := d.add(ctx, clients-reading, d.everything); err != nil {
		return nil, err
	}
	if err := d.fleet.Pause(reading); err != nil {
		return nil, err
	}
	all := &updates{items: u.items, least: filling}
	if _, err := d.run(ctx, all, warmUp+u.count, filling); err != nil {
		return nil, err
	}
	beside, err := d.run(ctx, u, warmUp+u.count+filling, u.count)
	if err != nil {
		return nil, err
	}
	if err := d.fleet.Resume(); err != nil {
		return nil, err
	}
	if err := d.fleet.Await(ctx); err != nil {
		return nil, err
	}
	before, after := without.values(reading), beside.values(reading)
	return report.Values{"p99": after["p99"] / before["p99"], "last": after["last"] / before["last"]}, nil
}
