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
func (r *replicas) byPriority(ctx context.Context, key string) [][]*replica {
	r.start()
	select {
	case <-r.ready:
	case <-ctx.Done():
	}
	p := seat{key: key}
	r.first(&p)
	all := make([][]*replica, len(r.groups))
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
func (r *replicas) open() {
	for _, g := range r.groups {
		if slices.ContainsFunc(g.endpoints, func(e *endpoint) bool { return !e.looked }) {
			return
		}
		if slices.ContainsFunc(g.endpoints, func(e *endpoint) bool { return !e.replicas[0].provisional() }) {
			break
		}
	}
	close(r.ready)
}

// known reports whether it is known where to begin. If not, the bells are rung when it is.
func (r *replicas) known() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// start begins to look up names. It may be called more than once.
func (r *replicas) start() {
	r.opening.Do(func() {
		for _, g := range r.groups {
			for _, e := range g.endpoints {
				if e.host != "" {
					r.wg.Go(func() { r.panics.Loop(r.ctx, logs.PartBackground, func() { r.watch(e) }) })
				}
			}
		}
	})
}

// close ends the look-ups. No session runs any more.
func (r *replicas) close() {
	r.stop()
	r.opening.Do(func() {}) // nothing is started from now on
	r.wg.Wait()
}

// watch looks a name up now and then, and after failures of its servers.
func (r *replicas) watch(e *endpoint) {
	failing := false
	for r.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
		addresses, err := r.resolver.LookupNetIP(ctx, "ip", e.host)
		cancel()
		if r.ctx.Err() != nil {
			return
		}
		if err == nil && len(addresses) == 0 {
			err = errNoAddress
		}
		if err != nil && !failing {
			r.log.Warn("cannot look up the name of an endpoint, keeping the addresses that it had", "endpoint", e.target, "error", err)
		}
		failing = err != nil
		r.looked(e, addresses, err)
		next := retry.Spread(lookupInterval)
		if failing {
			next = lookupRetry
		}
		retry.Sleep(r.ctx, lookupPause)
		sleepUntil(r.ctx, next, e.wake)
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
func (r *replicas) looked(e *endpoint, addresses []netip.Addr, err error) {
	r.mu.Lock()
	changed := err == nil && e.set(addresses, r.changes.Load()+1)
	now := len(e.replicas)
	if changed {
		r.changed()
	}
	if e.looked = true; !r.known() {
		r.open()
		r.ring()
	}
	r.mu.Unlock()
	if changed {
		r.log.Info("addresses of an endpoint changed", "endpoint", e.target, "addresses", now)
	}
}

// changed has the sessions look at the replicas again. The caller holds mu.
func (r *replicas) changed() {
	r.changes.Add(1)
	r.ring()
}

func (r *replicas) ring() {
	for p := range r.seats {
		notify.Signal(p.bell)
	}
}

// tell has all sessions look at the upstream's replicas again.
func (r *replicas) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring()
}

// lookAgain has the name of a replica looked up again: it failed, and others may have taken its
// place.
func (r *replicas) lookAgain(x *replica) {
	notify.Signal(x.endpoint.wake)
}

// found notes whether a replica could be reached, for the other sessions.
func (r *replicas) found(x *replica, reachable bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !reachable {
		x.failed = time.Now()
		x.answers.failed()
		r.lookAgain(x)
		return
	}
	if since, _ := x.answers.silence(); !since.IsZero() {
		return // it takes connections, and answers nothing
	}
	x.failed = time.Time{}
	if x.outdone() {
		x.endpoint.turn(r.changes.Load() + 1)
		r.changed()
	}
}

// failedWithin says whether a replica was found unreachable in the last d and not reached
// since.
func (r *replicas) failedWithin(x *replica, d time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !x.failed.IsZero() && time.Since(x.failed) < d
}

// failedSince reports whether a replica was found unreachable after a moment and not reached since.
func (r *replicas) failedSince(x *replica, at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return x.failed.After(at)
}

// longestAgo is the first of the replicas that were not found unreachable, or were so longest ago.
func (r *replicas) longestAgo(order []*replica) *replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.MinFunc(order, func(x, y *replica) int { return x.failed.Compare(y.failed) })
}

// first makes the first order of a session, which does not run yet.
func (r *replicas) first(p *seat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sort(p)
}

// peers gives the other replicas of x's priority that were not found unreachable in the last d,
// to one session in that time.
func (r *replicas) peers(x *replica, d time.Duration) (others []*replica) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.groups[x.endpoint.priority]
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
func (r *replicas) join(p *seat) {
	r.start()
	r.mu.Lock()
	defer r.mu.Unlock()
	p.homes = make([]*replica, len(r.groups))
	r.seats[p] = struct{}{}
	r.sort(p)
}

// leave takes back join.
func (r *replicas) leave(p *seat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seats, p)
	for _, x := range p.homes {
		x.homes--
	}
	p.homes = nil
}

// renew makes the order anew if replicas came or went, and reports whether they did.
func (r *replicas) renew(p *seat) bool {
	if r.changes.Load() == p.seen {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sort(p)
	return true
}

// sort makes a session's order: by priority, in a priority the session's home first and the
// others by preference, spare ones last. The caller holds mu.
func (r *replicas) sort(p *seat) {
	p.order = nil
	for i, g := range r.groups {
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
			x := r.settle(used, &p.homes[i], p.seen)
			at := slices.Index(used, x)
			used = slices.Insert(slices.Delete(used, at, at+1), 0, x)
		}
		p.order = slices.Concat(p.order, used, spare)
	}
	p.seen = r.changes.Load()
}

// settle gives a session its home among replicas of one priority. The caller holds mu.
func (r *replicas) settle(list []*replica, at **replica, seen uint64) *replica {
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
func (r *replicas) names() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.groups {
		for _, e := range g.endpoints {
			for _, x := range e.replicas {
				all = append(all, x.name)
			}
		}
	}
	return all
}

// list gives the replicas in the order of their priorities.
func (r *replicas) list() (all []Replica) {
	var p seat
	r.first(&p)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range p.order {
		silent, _ := x.answers.silence()
		all = append(all, Replica{x.name, x.endpoint.priority, !x.used(), x.failed, silent, x.answers.last()})
	}
	return all
}
