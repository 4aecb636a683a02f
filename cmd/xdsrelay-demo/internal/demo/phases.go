package demo

import (
	"context"
	"errors"
	"time"
)

// How the time after Connect is shared among the phases. The rest is Check's,
// which is over as soon as all clients agree.
const (
	updatesShare = 0.50
	awayShare    = 0.22
	returnShare  = 0.25
)

// play goes through the phases before Check, or until ctx ends. The error is
// what makes going on pointless.
func (d *demo) play(ctx context.Context) error {
	for phase, perform := range []func(context.Context) error{
		Connect: d.connect, Updates: d.update, Away: d.leave, Return: d.comeBack,
	} {
		if over(ctx) {
			break
		}
		d.mu.Lock()
		d.phase = Phase(phase)
		d.mu.Unlock()
		if err := perform(ctx); err != nil {
			return err
		}
	}
	return nil
}

// over tells whether there is no more time, which is no error.
func over(ctx context.Context) bool { return ctx.Err() != nil }

// spend gives a phase its share of the time.
func (d *demo) spend(ctx context.Context, share float64) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(share*float64(d.rest)))
}

// connectLimit is how long clients may take to connect at least; something is
// wrong then.
const connectLimit = 30 * time.Second

// connect starts the clients and waits for them to hold everything.
func (d *demo) connect(ctx context.Context) error {
	d.want(d.options.Clients)
	limit, cancel := context.WithTimeout(ctx, max(connectLimit, d.options.Duration))
	defer cancel()
	t := d.world.truth()
	if err := d.fleet.grow(limit, d.options.Clients, t, false); err != nil {
		return err
	}
	late := d.fleet.converge(limit, t)
	if over(ctx) {
		return nil
	}
	if len(late) > 0 {
		d.say("%s of %s clients did not get all they asked for", count(len(late)), count(len(d.fleet.clients)))
	} else {
		d.say("%s clients hold all %d clusters, and the endpoints of %d or so", count(len(d.fleet.clients)), clusterCount, picks)
	}
	d.look()
	// However long it took, the other phases are to be seen.
	d.rest = max(d.options.Duration-time.Since(d.began), d.options.Duration/2)
	return nil
}

// update changes resources, and then lets the last changes arrive: the control
// plane is killed next, and what it had not sent yet nobody could have.
func (d *demo) update(ctx context.Context) error {
	changing, cancel := d.spend(ctx, updatesShare)
	defer cancel()
	p := paceFor(d.options.Clients)
	d.say("endpoints change %.0f times a second, clusters every %.1f s", 1/p.every.Seconds(), (p.every * time.Duration(p.clusters)).Seconds())
	if err := d.churn(changing); err != nil {
		return err
	}
	arriving, cancel := d.spend(ctx, awayShare)
	defer cancel()
	d.fleet.converge(arriving, d.world.truth())
	return nil
}

// leave kills the control plane and has clients join nevertheless.
func (d *demo) leave(ctx context.Context) error {
	ctx, cancel := d.spend(ctx, awayShare)
	defer cancel()
	d.plane.Stop()
	since := time.Now()
	defer func() { d.away = time.Since(since) }()
	d.mu.Lock()
	d.awaySince = since
	d.mu.Unlock()
	d.say("the control plane is killed: its streams are cut, its port is closed")

	const before = 0.05 // of the time, so that it is seen that nobody minds
	settled, stop := d.spend(ctx, before)
	<-settled.Done()
	stop()
	n := joiners(d.options.Clients)
	d.want(len(d.fleet.clients) + n)
	t := d.world.truth()
	if err := d.fleet.grow(ctx, n, t, true); err != nil {
		return err
	}
	late := d.fleet.converge(ctx, t)
	switch {
	case len(late) == 0:
		d.say("%s clients joined and were served from the cache", count(n))
	case !interrupted(ctx):
		d.say("%s clients do not hold what the control plane had", count(len(late)))
	}
	<-ctx.Done()
	return nil
}

// interrupted tells whether a phase ended for another reason than its time.
func interrupted(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.Canceled)
}

// comeBack starts the control plane with another state, waits for the clients to
// have it, and goes on changing it.
func (d *demo) comeBack(ctx context.Context) error {
	ctx, cancel := d.spend(ctx, returnShare)
	defer cancel()
	changed, err := d.world.meanwhile()
	if err != nil {
		return err
	}
	if err := d.plane.Restart(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	since := time.Now()
	d.mu.Lock()
	d.awaySince = time.Time{}
	d.mu.Unlock()
	d.say("the control plane is back: %d clusters fewer, %d new, endpoints of %d changed", lateCount, lateCount, changed)
	if late := d.fleet.converge(ctx, d.world.truth()); len(late) > 0 {
		return nil // Check says of whom
	}
	d.recovery = time.Since(since)
	d.say("every client has that, %s after it came back", short(d.recovery))
	return d.churn(ctx)
}

// check waits until all clients hold what the control plane has, and sums up.
func (d *demo) check(ctx context.Context, interrupted bool) *Summary {
	d.mu.Lock()
	d.phase = Check
	d.mu.Unlock()
	limit := 2 * time.Second
	if !interrupted { // who interrupts does not want to wait
		limit = max(limit, d.options.Duration/6)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := d.world.truth()
	rest := d.fleet.converge(ctx, t)
	s := d.sumUp(rest, t)
	s.Interrupted = interrupted
	if s.Converged {
		d.say("all %s clients hold exactly what the control plane has", count(s.Clients.Total))
	} else {
		d.say("%s of %s clients do not hold what the control plane has", count(len(rest)), count(s.Clients.Total))
	}
	return s
}

func (d *demo) want(clients int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = clients
}

// churn changes resources until ctx ends.
func (d *demo) churn(ctx context.Context) error {
	p := paceFor(d.options.Clients)
	ticker := time.NewTicker(p.every)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := d.world.changeEndpoints(); err != nil {
			return err
		}
		if n%p.clusters == 0 {
			if err := d.world.changeCluster(); err != nil {
				return err
			}
		}
	}
}

// pace is how often resources change: endpoints every so often, and a cluster
// after so many of them.
type pace struct {
	every    time.Duration
	clusters int
}

// paceFor gives a pace at which about four thousand resources a second reach
// clients, whatever their number: two cores do that beside all else, and the
// times that are measured are not those of a queue.
func paceFor(clients int) pace {
	const endpointBudget, clusterBudget = 3000, 1000
	followers := max(1, float64(clients*picks)/(clusterCount+lateCount))
	perSecond := min(max(endpointBudget/followers, 2), 50)
	clustersPerSecond := min(max(clusterBudget/float64(clients), 0.2), 2)
	return pace{
		every:    time.Duration(float64(time.Second) / perSecond),
		clusters: max(1, int(perSecond/clustersPerSecond)),
	}
}
