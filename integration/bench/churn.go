//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/clock"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/fleet"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
)

const (
	churnSeconds = 10
	// giveUp is how long after the last update clients may lack something. The baseline sends
	// every single update to everybody, which at high rates is more than a machine can do:
	// it would take minutes until the last one is there.
	giveUp = 30 * time.Second
)

// churn is updates that come whether the clients have the last ones or not.
func churn() scenario {
	return scenario{
		name: "churn", title: "Sustained churn",
		text: fmt.Sprintf("Incremental clients follow resources of 1 KiB, which change in turn, so many times a second for %d seconds, on a schedule. "+
			"Staleness is how long after its time on the schedule a client has an update, or a later one of the same resource, over all updates that were made and all clients. "+
			"Made is the share of the updates that were made at all within twice that time: a server may stall who makes them. "+
			"Converged is from the last one until all clients have everything; a server that has not made it after %.0f seconds is cut off, "+
			"and what its clients lack counts as stale, and its CPU as used, until then: it is more in truth, and so what others have as a ratio to it is less.",
			churnSeconds, giveUp.Seconds()),
		metrics: []report.Metric{
			{Name: "p50", Title: "staleness p50", Form: report.Ratio},
			{Name: "p99", Title: "staleness p99", Form: report.Ratio},
			{Name: "cpu", Title: "CPU per update", Form: report.Ratio},
			{Name: "made", Title: "updates made", Form: report.Factor},
			{Name: "converged", Title: "converged after, seconds", Form: report.Factor, Cut: giveUp.Seconds()},
			{Name: "sent", Title: "resources sent per update and client", Form: report.Factor},
		},
		variants: func(o *options) []variant {
			clients, resources := choice{[]int{1000}, []int{100}}, choice{[]int{1000}, []int{100}}
			return append(o.grid(clients, resources, churnAt(o, 1000)), o.grid(clients, resources, churnAt(o, 10_000))...)
		},
	}
}

func churnAt(o *options, rate int) func(clients, resources int) variant {
	return func(clients, resources int) variant {
		updates := rate * churnSeconds
		if o.quick {
			updates = rate / 4
		}
		v := variant{
			name:  thousands(rate) + "/s, " + thousands(clients) + " clients, " + thousands(resources) + " resources",
			about: 30 * time.Second,
			sets:  []content.Set{{TypeURL: content.ClusterType, Count: resources, Size: payloadSize}},
			items: resources, updates: updates,
			measure: func(ctx context.Context, d *deployment) (report.Values, error) {
				if err := d.add(ctx, clients, d.everything); err != nil {
					return nil, err
				}
				return d.churn(ctx, &fleet.Schedule{Items: resources, Interval: time.Second / time.Duration(rate), Updates: updates}, clients)
			},
		}
		if rate == 1000 {
			v.others = others{3, 25 * time.Second}
			v.bars = []report.Bar{toBaseline("p99", 1.5), toBaseline("cpu", 1), atMost("converged", 1)}
		}
		return v
	}
}

// soon is how long after its announcement a schedule starts.
const soon = 100 * time.Millisecond

func (d *deployment) churn(ctx context.Context, s *fleet.Schedule, clients int) (report.Values, error) {
	d.aim(s, s.Updates)
	counted := d.fleet.Counts()
	made, converged := 0, time.Duration(0)
	used, err := d.using(ctx, func() (err error) {
		s.Start = clock.New().Now() + int64(soon)
		d.fleet.Follow(s)
		var ended int64
		if made, ended, err = d.plane.Churn(d.sets[0].TypeURL, s, s.Due(2*s.Updates)); err != nil {
			return err
		}
		d.aim(s, made)
		converged, err = d.converge(ctx, ended, giveUp)
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
		"cpu":         used.server.Seconds() / float64(made),
		"cpu_clients": used.clients.Seconds() / float64(made),
		"made":        float64(made) / float64(s.Updates), "converged": converged.Seconds(),
		"sent": float64(sent) / float64(made) / float64(clients),
	}, nil
}

// converge waits until all clients have what changed until a time, and tells how long
// after that it was. It gives up when that takes longer than limit.
func (d *deployment) converge(ctx context.Context, ended int64, limit time.Duration) (time.Duration, error) {
	patient, cancel := context.WithTimeoutCause(ctx, limit, errGivenUp)
	defer cancel()
	err := d.fleet.Await(patient)
	if errors.Is(context.Cause(patient), errGivenUp) && err != nil {
		d.cut = true
		d.fleet.CutOff()
		return limit, nil
	}
	return d.fleet.Latencies(ended).Max(), err
}

var errGivenUp = errors.New("given up")

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
