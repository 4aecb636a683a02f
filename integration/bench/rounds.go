//go:build linux

package main

import (
	"context"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/fleet"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
)

// warmUp is how many updates come before those that are measured.
const warmUp = 2

// updates is how updates are made one after the other: each is awaited.
type updates struct {
	items int           // of the first set, from the first on, one after the other
	count int           // how many are measured
	least int           // so many in any case, even if
	limit time.Duration // they take longer than this
}

// rounds is what some updates took.
type rounds struct {
	count          int
	last, p50, p99 []float64 // of each round, in seconds
	used           usage
}

// values are the metrics of fan-out.
func (r *rounds) values(clients int) report.Values {
	deliveries := float64(r.count * clients)
	v := report.Values{
		"cpu":         r.used.server.Seconds() / deliveries,
		"cpu_plane":   r.used.plane.Seconds() / deliveries,
		"cpu_clients": r.used.clients.Seconds() / deliveries,
	}
	for name, of := range map[string][]float64{"last": r.last, "p50": r.p50, "p99": r.p99} {
		s, _ := report.SpreadOf(of)
		v[name] = s.Median
	}
	return v
}

// run makes the updates from number first on, and waits each time until all clients
// that read have it.
func (d *deployment) run(ctx context.Context, u *updates, first, count int) (*rounds, error) {
	if err := d.quiet(ctx); err != nil {
		return nil, err
	}
	r := &rounds{}
	var err error
	r.used, err = d.using(ctx, func() error {
		began := time.Now()
		for n := first; n < first+count; n++ {
			if r.count >= u.least && time.Since(began) > u.limit {
				break
			}
			if err := d.round(ctx, u, n, r); err != nil {
				return err
			}
		}
		return nil
	})
	return r, err
}

// round makes one update.
func (d *deployment) round(ctx context.Context, u *updates, n int, r *rounds) error {
	sequence := fleet.Schedule{Items: u.items}
	item, revision := sequence.At(n)
	d.fleet.Target([]int{d.names.First(0) + item}, revision)
	began, err := d.plane.Update(d.sets[0].TypeURL, item, revision)
	if err != nil {
		return err
	}
	if err := d.fleet.Await(ctx); err != nil {
		return err
	}
	latencies := d.fleet.Latencies(began)
	r.count++
	r.last = append(r.last, latencies.Max().Seconds())
	r.p50 = append(r.p50, latencies.Quantile(0.5).Seconds())
	r.p99 = append(r.p99, latencies.Quantile(0.99).Seconds())
	return d.quiet(ctx) // acknowledgements are not to meet the next update
}

// singly is a variant in which one update after the other goes to clients that follow
// everything.
type singly struct {
	name      string
	clients   int
	state     bool // the clients speak the state of the world
	updates   updates
	quick     int // the number of updates of a quick run
	set       content.Set
	perUpdate bool // what the server uses is told per update, not per delivery
}

func (x singly) variant(o *options) variant {
	if o.quick {
		x.updates.count = x.quick
	}
	return variant{
		name: x.name, sets: []content.Set{x.set}, state: x.state,
		items: x.updates.items, updates: warmUp + x.updates.count,
		measure: x.measure,
	}
}

func (x *singly) measure(ctx context.Context, d *deployment) (report.Values, error) {
	if err := d.add(ctx, x.clients, d.everything); err != nil {
		return nil, err
	}
	if _, err := d.run(ctx, &x.updates, 0, warmUp); err != nil {
		return nil, err
	}
	before, err := d.server.Stats()
	if err != nil {
		return nil, err
	}
	r, err := d.run(ctx, &x.updates, warmUp, x.updates.count)
	if err != nil {
		return nil, err
	}
	after, err := d.server.Stats()
	v := r.values(x.clients)
	if x.perUpdate {
		v["cpu"] = r.used.server.Seconds() / float64(r.count)
	}
	if x.state {
		payloads := r.count * x.clients * x.set.Count * x.set.Size
		v["built"] = float64(after.Allocated-before.Allocated) / float64(payloads)
	}
	return v, err
}
