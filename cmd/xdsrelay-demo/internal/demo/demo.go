package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
)

// demo is one run.
type demo struct {
	// immutable after Run has begun to play
	options Options
	began   time.Time
	plane   *gocontrolplane.ControlPlane
	world   *world
	relay   *embedded
	fleet   *fleet
	news    chan struct{} // one slot: draw now

	// owned by the goroutine that plays
	rest     time.Duration // for the phases after Connect
	away     time.Duration
	recovery time.Duration // from the control plane's return until all clients had its state; 0 if they did not

	meter meter // owned by the goroutine that draws

	mu        sync.Mutex // guards what follows
	phase     Phase
	wanted    int
	awaySince time.Time // zero: the control plane is there
	upstream  view      // the most that was seen
	events    []Event
}

// view is how the control plane sees the relay.
type view struct{ streams, subscriptions int }

// Run plays the demo. It ends by itself, or early when ctx does, and gives the
// summary then; whether the clients converged is in there. The error says why it
// could not be played or, beside a summary, not be ended well.
func Run(ctx context.Context, options Options) (*Summary, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	limit, err := openFiles()
	if err != nil {
		return nil, err
	}
	asked := options.Clients
	options.Clients = affordable(asked, options.ClientsPerConnection, limit)

	d := &demo{options: options, began: time.Now(), plane: gocontrolplane.New(), news: make(chan struct{}, 1)}
	d.world = &world{plane: d.plane, published: &published{}}
	if options.Clients < asked {
		d.say("the limit of %s open files allows for %s clients, not %s", count(int(limit)), count(options.Clients), count(asked))
	}
	return d.run(ctx)
}

// run starts everything, plays, and ends everything. What runs in the background
// outlives ctx, so that an interrupted demo can still be summed up.
func (d *demo) run(parent context.Context) (summary *Summary, err error) {
	background := context.WithoutCancel(parent)
	ctx, fail := context.WithCancelCause(parent)
	defer fail(nil)

	defer d.plane.Close()
	if err := d.world.fill(); err != nil {
		return nil, err
	}
	if err := d.plane.Start(ctx, addressOr(d.options.ControlPlane)); err != nil {
		return nil, err
	}
	d.relay, err = startRelay(background, d.options, d.plane.Addr(), func(err error) {
		fail(fmt.Errorf("the relay ended: %w", err))
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.relay.close()) }()
	d.fleet = newFleet(background, d.options, d.relay.xds, d.world.published)
	defer func() { err = errors.Join(err, d.fleet.close()) }()
	stop := sync.OnceFunc(d.draw())
	defer stop()

	d.say("control plane on %s, relay on %s", d.plane.Addr(), d.relay.xds)
	d.say("the relay's admin port: http://%s/", d.relay.admin)
	if err := d.play(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil && parent.Err() == nil {
		return nil, context.Cause(ctx)
	}
	summary = d.check(background, parent.Err() != nil)
	if d.options.Stay != nil && ctx.Err() == nil {
		stop()
		d.options.Stay(summary, Addresses{d.plane.Addr(), d.relay.xds, d.relay.admin})
		<-ctx.Done()
		if parent.Err() == nil {
			return summary, context.Cause(ctx)
		}
	}
	return summary, nil
}

// say tells what happened.
func (d *demo) say(format string, args ...any) {
	d.mu.Lock()
	d.events = append(d.events, Event{At: time.Since(d.began), Text: fmt.Sprintf(format, args...)})
	d.mu.Unlock()
	d.redraw()
}

func (d *demo) redraw() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// refresh is how often the screen is drawn if nothing happens.
const refresh = 250 * time.Millisecond

// draw draws until the function that it gives is called, which draws once more
// and returns when nobody draws.
func (d *demo) draw() (stop func()) {
	if d.options.Screen == nil {
		return func() {}
	}
	end := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() {
		ticker := time.NewTicker(refresh)
		defer ticker.Stop()
		for {
			d.options.Screen.Draw(d.snapshot())
			select {
			case <-ticker.C:
			case <-d.news:
			case <-end:
				d.options.Screen.Draw(d.snapshot())
				return
			}
		}
	})
	return func() {
		close(end)
		drawing.Wait()
	}
}

// snapshot looks at everything.
func (d *demo) snapshot() Snapshot {
	stats := d.look()
	now := time.Now()
	s := Snapshot{
		Elapsed: now.Sub(d.began), Duration: d.options.Duration,
		Connected: int(d.fleet.connected.Load()), Complete: int(d.fleet.complete.Load()), Joined: int(d.fleet.joined.Load()),
		Subscriptions: d.fleet.subscriptions(),
		Streams:       len(stats.Streams), UpstreamSubscriptions: stats.Subscribed(),
		Received: stats.Resources, Delivered: int(d.fleet.resources.Load()),
	}
	d.mu.Lock()
	s.Phase, s.Wanted, s.Events = d.phase, d.wanted, slices.Clip(d.events)
	if !d.awaySince.IsZero() {
		s.AwayFor = now.Sub(d.awaySince)
	}
	d.mu.Unlock()
	var recent *distribution
	s.UpdateRate, s.DeliveryRate, recent = d.meter.add(sample{
		phase: s.Phase, at: s.Elapsed,
		updates: int(d.world.updates.Load()), delivered: s.Delivered, propagation: d.fleet.propagation.now(),
	})
	if s.AwayFor == 0 { // else what was on its way when the control plane was killed
		s.P50, s.P99 = recent.quantile(0.5), recent.quantile(0.99)
	}
	return s
}

// look gives what the control plane sees now, and remembers the most of it.
func (d *demo) look() gocontrolplane.Stats {
	stats := d.plane.Stats()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.upstream.streams = max(d.upstream.streams, len(stats.Streams))
	d.upstream.subscriptions = max(d.upstream.subscriptions, stats.Subscribed())
	return stats
}
