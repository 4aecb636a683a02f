package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/retry"
)

const (
	// lookupInterval is how often a name is looked up, give or take a quarter: at least
	// every 30 seconds.
	lookupInterval = 22 * time.Second
	// lookupRetry is when a look-up that failed is repeated.
	lookupRetry = 5 * time.Second
	// lookupPause is between two look-ups of a name, however many streams fail.
	lookupPause = time.Second
)

// Resolver looks up the IP addresses of a name, as net.Resolver does.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// replicas are the servers of an upstream. It follows the addresses of names. Sessions tell
// each other through it that a server is gone, so that a thousand scopes do not find out by
// themselves. Its methods may be called from any goroutine.
type replicas struct {
	// Immutable after newReplicas.
	groups   []*group // by priority
	resolver Resolver
	timeout  time.Duration // of a look-up
	log      *slog.Logger
	panics   *logs.Panics
	ready    chan struct{} // closed once it is known where to begin

	ctx     context.Context // ends with close
	stop    context.CancelFunc
	opening sync.Once
	wg      sync.WaitGroup // a goroutine for each name

	changes atomic.Uint64 // how often replicas came or went; written under mu

	mu    sync.Mutex
	seats map[*seat]struct{} // of the sessions that run
}

// byPriority are all replicas by priority, as soon as it is known where to begin, or ctx ends:
// those of each priority in the order in which a session with a key prefers them.
func (a *replicas) byPriority(ctx context.Context, key string) [][]*replica {
	a.start()
	select {
	case <-a.ready:
	case <-ctx.Done():
	}
	p := seat{key: key}
	a.first(&p)
	all := make([][]*replica, len(a.groups))
	for _, x := range p.order {
		all[x.endpoint.priority] = append(all[x.endpoint.priority], x)
	}
	return all
}

// group has the endpoints of one priority.
type group struct {
	endpoints []*endpoint // immutable
	lookedAt  time.Time   // guarded by replicas.mu: when a session looked last which can be reached
}

// seat is where a session stands among the replicas. It belongs to the session's owner.
type seat struct {
	key  string          // SessionConfig.Key
	bell chan<- struct{} // one slot: replicas came or went

	seen  uint64     // replicas.changes when order was made
	order []*replica // all of them, best first; replaced as a whole
	homes []*replica // by priority; nil if the session does not run
}

// newReplicas makes the replicas of an upstream. byName is as for newEndpoint.
func newReplicas(cfg *Config, byName func(target string) bool) *replicas {
	a := &replicas{
		resolver: cfg.Dial.Resolver, timeout: cfg.ConnectTimeout, log: cfg.Logger, ready: make(chan struct{}),
		seats: make(map[*seat]struct{}),
	}
	if a.resolver == nil {
		a.resolver = net.DefaultResolver
	}
	a.ctx, a.stop = context.WithCancel(context.Background())
	for i, equal := range cfg.Endpoints {
		g := new(group)
		for _, target := range equal {
			g.endpoints = append(g.endpoints, newEndpoint(i, target, byName))
		}
		a.groups = append(a.groups, g)
	}
	a.open()
	return a
}

// open closes ready once it is known where to begin: at a priority whose names were all looked
// up, one at least not in vain, or anywhere if none is left to wait for. The caller holds mu, or
// is newReplicas.
func (a *replicas) open() {
	for _, g := range a.groups {
		if slices.ContainsFunc(g.endpoints, func(e *endpoint) bool { return !e.looked }) {
			return
		}
		if slices.ContainsFunc(g.endpoints, func(e *endpoint) bool { return !e.replicas[0].provisional() }) {
			break
		}
	}
	close(a.ready)
}

// known reports whether it is known where to begin. If not, the bells are rung when it is.
func (a *replicas) known() bool {
	select {
	case <-a.ready:
		return true
	default:
		return false
	}
}

// start begins to look up names. It may be called more than once.
func (a *replicas) start() {
	a.opening.Do(func() {
		for _, g := range a.groups {
			for _, e := range g.endpoints {
				if e.host != "" {
					a.wg.Go(func() { a.panics.Loop(a.ctx, logs.PartBackground, func() { a.watch(e) }) })
				}
			}
		}
	})
}

// close ends the look-ups. No session runs any more.
func (a *replicas) close() {
	a.stop()
	a.opening.Do(func() {}) // nothing is started from now on
	a.wg.Wait()
}

// watch looks a name up now and then, and after failures of its servers.
func (a *replicas) watch(e *endpoint) {
	failing := false
	for a.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(a.ctx, a.timeout)
		addresses, err := a.resolver.LookupNetIP(ctx, "ip", e.host)
		cancel()
		if a.ctx.Err() != nil {
			return
		}
		if err == nil && len(addresses) == 0 {
			err = errNoAddress
		}
		if err != nil && !failing {
			a.log.Warn("cannot look up the name of an endpoint, keeping the addresses that it had", "endpoint", e.target, "error", err)
		}
		failing = err != nil
		a.looked(e, addresses, err)
		next := retry.Spread(lookupInterval)
		if failing {
			next = lookupRetry
		}
		retry.Sleep(a.ctx, lookupPause)
		sleepUntil(a.ctx, next, e.wake)
	}
}

var errNoAddress = errors.New("the name has no address")

// sleepUntil waits for so long, or for ctx or a value in rung.
func sleepUntil(ctx context.Context, d time.Duration, rung <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-rung:
	case <-timer.C:
	}
}

// looked takes up the result of a look-up. A name that has no address, or cannot be looked up,
// keeps those that it had.
func (a *replicas) looked(e *endpoint, addresses []netip.Addr, err error) {
	a.mu.Lock()
	changed := err == nil && e.set(addresses, a.changes.Load()+1)
	now := len(e.replicas)
	if changed {
		a.changed()
	}
	if e.looked = true; !a.known() {
		a.open()
		a.ring()
	}
	a.mu.Unlock()
	if changed {
		a.log.Info("addresses of an endpoint changed", "endpoint", e.target, "addresses", now)
	}
}

// changed has the sessions look at the replicas again. The caller holds mu.
func (a *replicas) changed() {
	a.changes.Add(1)
	a.ring()
}

func (a *replicas) ring() {
	for p := range a.seats {
		notify.Signal(p.bell)
	}
}

// tell has all sessions look at the upstream's replicas again.
func (a *replicas) tell() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ring()
}

// lookAgain has the name of a replica looked up again: it failed, and others may have taken its
// place.
func (a *replicas) lookAgain(x *replica) {
	notify.Signal(x.endpoint.wake)
}

// found notes whether a replica could be reached, for the other sessions.
func (a *replicas) found(x *replica, reachable bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !reachable {
		x.failed = time.Now()
		x.answers.failed()
		a.lookAgain(x)
		return
	}
	if since, _ := x.answers.silence(); !since.IsZero() {
		return // it takes connections, and answers nothing
	}
	x.failed = time.Time{}
	if x.outdone() {
		x.endpoint.turn(a.changes.Load() + 1)
		a.changed()
	}
}

// failedWithin says whether a replica was found unreachable in the last d and not reached
// since.
func (a *replicas) failedWithin(x *replica, d time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !x.failed.IsZero() && time.Since(x.failed) < d
}

// failedSince reports whether a replica was found unreachable after a moment and not reached since.
func (a *replicas) failedSince(x *replica, at time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return x.failed.After(at)
}

// longestAgo is the first of the replicas that were not found unreachable, or were so longest ago.
func (a *replicas) longestAgo(order []*replica) *replica {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.MinFunc(order, func(x, y *replica) int { return x.failed.Compare(y.failed) })
}

// first makes the first order of a session, which does not run yet.
func (a *replicas) first(p *seat) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sort(p)
}

// peers gives the other replicas of x's priority that were not found unreachable in the last d,
// to one session in that time.
func (a *replicas) peers(x *replica, d time.Duration) (others []*replica) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.groups[x.endpoint.priority]
	if time.Since(g.lookedAt) < d {
		return nil
	}
	g.lookedAt = time.Now()
	for _, e := range g.endpoints {
		for _, o := range e.replicas {
			if o != x && (o.failed.IsZero() || time.Since(o.failed) >= d) {
				others = append(others, o)
			}
		}
	}
	return others
}

// join says that a session begins to run, and gives it its homes.
func (a *replicas) join(p *seat) {
	a.start()
	a.mu.Lock()
	defer a.mu.Unlock()
	p.homes = make([]*replica, len(a.groups))
	a.seats[p] = struct{}{}
	a.sort(p)
}

// leave takes back join.
func (a *replicas) leave(p *seat) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.seats, p)
	for _, x := range p.homes {
		x.homes--
	}
	p.homes = nil
}

// renew makes the order anew if replicas came or went, and reports whether they did.
func (a *replicas) renew(p *seat) bool {
	if a.changes.Load() == p.seen {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sort(p)
	return true
}

// sort makes a session's order: by priority, in a priority the session's home first and the
// others by preference, spare ones last. The caller holds mu.
func (a *replicas) sort(p *seat) {
	p.order = nil
	for i, g := range a.groups {
		var used, spare []*replica
		for _, e := range g.endpoints {
			for _, x := range e.replicas {
				if x.used() {
					used = append(used, x)
				} else {
					spare = append(spare, x)
				}
			}
		}
		preferred(used, p.key)
		preferred(spare, p.key)
		if p.homes != nil {
			x := a.settle(used, &p.homes[i], p.seen)
			at := slices.Index(used, x)
			used = slices.Insert(slices.Delete(used, at, at+1), 0, x)
		}
		p.order = slices.Concat(p.order, used, spare)
	}
	p.seen = a.changes.Load()
}

// settle gives a session its home among replicas of one priority. The caller holds mu.
func (a *replicas) settle(list []*replica, at **replica, seen uint64) *replica {
	was := *at
	x := home(list, was, seen)
	if x != was {
		if was != nil {
			was.homes--
		}
		x.homes++
		*at = x
	}
	return x
}

// names are those of all replicas, for operators.
func (a *replicas) names() (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.groups {
		for _, e := range g.endpoints {
			for _, x := range e.replicas {
				all = append(all, x.name)
			}
		}
	}
	return all
}

// list gives the replicas in the order of their priorities.
func (a *replicas) list() (all []Replica) {
	var p seat
	a.first(&p)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range p.order {
		silent, _ := x.answers.silence()
		all = append(all, Replica{x.name, x.endpoint.priority, !x.used(), x.failed, silent, x.answers.last()})
	}
	return all
}
