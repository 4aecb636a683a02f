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
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
)

// churn is updates that come whether the clients have the last ones or not.
func churn() scenario {
	return scenario{
		name: "churn", title: "Sustained churn",
		text: "Incremental clients follow resources of 1 KiB, which change in turn, so many times a second for ten seconds, on a schedule. " +
			"Staleness is how long after its time on the schedule a client has an update, or a later one of the same resource, over all updates and clients. " +
			"Made is the share of the updates that were made at all within twice that time: a server may stall who makes them. " +
			"Converged is from the last one until all clients have everything.",
		metrics: []report.Metric{
			{Name: "p50", Title: "staleness p50", Form: report.Ratio},
			{Name: "p99", Title: "staleness p99", Form: report.Ratio},
			{Name: "cpu", Title: "CPU per update", Form: report.Ratio},
			{Name: "made", Title: "updates made", Form: report.Factor},
			{Name: "converged", Title: "converged after, seconds", Form: report.Factor},
			{Name: "sent", Title: "resources sent per update and client", Form: report.Factor},
		},
		variants: func(o *options) []variant {
			var all []variant
			for _, clients := range o.or(o.clients, []int{1000}, []int{100}) {
				for _, resources := range o.or(o.resources, []int{1000}, []int{100}) {
					for _, rate := range []int{1000, 10_000} {
						all = append(all, churnAt(rate, clients, resources))
					}
				}
			}
			return all
		},
	}
}

func churnAt(rate, clients, resources int) variant {
	return variant{
		name: thousands(rate) + "/s, " + thousands(clients) + " clients, " + thousands(resources) + " resources",
		run: func(ctx context.Context, o *options, kind server.Kind) (report.Values, error) {
			seconds := 10
			if o.quick {
				seconds = 1
			}
			s := &fleet.Schedule{Items: resources, Interval: time.Second / time.Duration(rate), Updates: rate * seconds}
			set := content.Set{TypeURL: content.ClusterType, Count: resources, Size: payloadSize}
			d, err := deploy(ctx, o, kind, false, s.Items, s.Updates, set)
			if err != nil {
				return nil, err
			}
			return d.with(func() (report.Values, error) {
				if err := d.add(ctx, clients, d.everything); err != nil {
					return nil, err
				}
				return d.churn(ctx, s, clients)
			})
		},
	}
}

// soon is how long after its announcement a schedule starts.
const soon = 100 * time.Millisecond

func (d *deployment) churn(ctx context.Context, s *fleet.Schedule, clients int) (report.Values, error) {
	d.aim(s, s.Updates)
	counted := d.fleet.Counts()
	made, converged := 0, time.Duration(0)
	used, err := d.using(ctx, func() error {
		s.Start = clock.New().Now() + int64(soon)
		d.fleet.Follow(s)
		n, ended, err := d.plane.Churn(d.sets[0].TypeURL, s, s.Due(2*s.Updates))
		if err != nil {
			return err
		}
		d.aim(s, n)
		err = d.fleet.Await(ctx)
		made, converged = n, d.fleet.Latencies(ended).Max()
		return err
	})
	if err != nil {
		return nil, err
	}
	staleness := d.fleet.Staleness()
	if want := uint64(made) * uint64(clients); staleness.Count() != want {
		return nil, fmt.Errorf("%d updates arrived, or were merged into others, expected %d", staleness.Count(), want)
	}
	sent := d.fleet.Counts().Resources - counted.Resources
	return report.Values{
		"p50": staleness.Quantile(0.5).Seconds(), "p99": staleness.Quantile(0.99).Seconds(),
		"cpu":  used.server.Seconds() / float64(made),
		"made": float64(made) / float64(s.Updates), "converged": converged.Seconds(),
		"sent": float64(sent) / float64(made) / float64(clients),
	}, nil
}

// aim has the clients wait for the revisions that the first made updates of a schedule end
// with.
func (d *deployment) aim(s *fleet.Schedule, made int) {
	by := make(map[int][]int)
	for item := range s.Items {
		revision := s.Revision(item, made)
		by[revision] = append(by[revision], d.names.First(0)+item)
	}
	for revision, numbers := range by {
		d.fleet.Target(numbers, revision)
	}
}
