package resolve

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Config is what a Resolver is made of.
type Config struct {
	Settings

	Store    cache.Session // of names in resolved form (cache.Source.Resolved)
	Sources  Sources
	Observer Observer     // nil: nobody
	Log      *slog.Logger // nil: nowhere
	// Panics has the end of Run end all that it can, also after a panic (SUR-6); nil: none is
	// caught. A panic in Run is its caller's.
	Panics *logs.Panics
}

// Settings are what of a Config may change while the Resolver runs.
type Settings struct {
	// AlternativeAfter is how long an upstream has to be unreachable before
	// alternatives are asked (LOC-5).
	AlternativeAfter time.Duration
}

// Resolver fills the store of names that the relay resolves by itself.
type Resolver struct {
	// immutable after New
	config Config // but for its Settings, which only begin as they are there
	log    *slog.Logger
	bell   chan struct{} // one slot: a tap was rung
	turns  chan struct{} // Turn's
	begun  atomic.Bool   // Run was called

	mu      sync.Mutex
	rung    []*tap    // guarded by mu: there may be something to take, or its upstream has turned
	renewed *Settings // guarded by mu: what Renew gave, not taken up yet

	origins origins

	// owned by Run's goroutine
	settings Settings
	taps     map[identity]*tap
	nodes    set[*node]
	globs    set[*glob]
	visited  map[*tap]struct{} // with something to be said or let go
	serial   uint64
	outs     map[string]*cache.Resolved // by type: what is to be applied
	received time.Time                  // when the oldest of the changes in it came; zero: nobody knows
	brings   []bring
}

// set is what is wanted of a kind, and what of it is to be looked at.
type set[N any] struct {
	all   map[leadKey]N
	queue []N
}

// New makes a Resolver. It does nothing until Run is called.
func New(cfg Config) *Resolver {
	if cfg.Observer == nil {
		cfg.Observer = NopObserver{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Resolver{
		config: cfg, settings: cfg.Settings, log: cfg.Log, bell: notify.New(), turns: make(chan struct{}),
		taps: make(map[identity]*tap), visited: make(map[*tap]struct{}), outs: make(map[string]*cache.Resolved),
		nodes: set[*node]{all: make(map[leadKey]*node)}, globs: set[*glob]{all: make(map[leadKey]*glob)},
	}
}

// Run fills the store until ctx ends, whose error it returns. It can be called once.
func (r *Resolver) Run(ctx context.Context) error {
	r.begun.Store(true)
	defer func() {
		for _, t := range r.taps {
			_ = r.config.Panics.Do(logs.PartResolver, t.close) // the others are closed nevertheless
		}
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Stop()
		if at := r.next(); !at.IsZero() {
			timer.Reset(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.config.Store.DemandChanged():
			r.demand()
		case <-r.bell:
		case <-timer.C:
		case <-r.turns:
			continue
		}
		r.work(time.Now())
	}
}

// Turn waits until the loop of Run has turned, or ctx ends (SUR-5). gone is asked now and then whether
// Run is to end, so that its loop need not turn.
func (r *Resolver) Turn(ctx context.Context, gone func() bool) {
	if !r.begun.Load() {
		return
	}
	notify.Deliver(ctx, r.turns, struct{}{}, nil, gone)
}

// next is when the next upstream is to be given up, zero if none is.
func (r *Resolver) next() time.Time {
	var first time.Time
	for _, t := range r.taps {
		first = notify.Earlier(first, t.giveUp())
	}
	return first
}

// ring notes that there may be something new about a tap. Any goroutine may call it.
func (r *Resolver) ring(t *tap) {
	r.mu.Lock()
	if !t.rung {
		t.rung = true
		r.rung = append(r.rung, t)
	}
	r.mu.Unlock()
	r.wakeUp()
}

// wakeUp has Run look at what is new.
func (r *Resolver) wakeUp() {
	notify.Signal(r.bell)
}

// rings takes the taps that were rung.
func (r *Resolver) rings() []*tap {
	r.mu.Lock()
	defer r.mu.Unlock()
	rung := r.rung
	r.rung = nil
	for _, t := range rung {
		t.rung = false
	}
	return rung
}

// visit notes that there is something to be said to a tap's store, or to let go of.
func (r *Resolver) visit(t *tap) { r.visited[t] = struct{}{} }

// demand takes what the resolved store wants to know and what not any more.
func (r *Resolver) demand() {
	subs, _ := r.config.Store.TakeDemand(wire.StreamID{}) // which the relay itself needs not begin anew
	for _, sub := range subs {
		for _, key := range sub.Unsubscribe {
			r.close(leadKey{sub.TypeURL, key})
		}
		for _, key := range sub.Subscribe {
			r.open(leadKey{sub.TypeURL, key})
		}
	}
}

// open begins with a name or a glob.
func (r *Resolver) open(key leadKey) {
	name, err := keyer.Parse(key.key)
	if err != nil {
		return // who routed it here has parsed it
	}
	if !name.IsGlob() {
		n := &node{resolver: r, leadKey: key, name: name}
		r.nodes.all[key] = n
		n.touch()
		return
	}
	g := &glob{resolver: r, leadKey: key, name: name, places: r.placesOf(name)}
	r.globs.all[key] = g
	g.touch()
}

// close ends one.
func (r *Resolver) close(key leadKey) {
	if n := r.nodes.all[key]; n != nil {
		n.end()
		delete(r.nodes.all, key)
	}
	if g := r.globs.all[key]; g != nil {
		g.end()
		delete(r.globs.all, key)
	}
}

// work takes what is new, follows it up, and applies what comes of it.
func (r *Resolver) work(now time.Time) {
	r.renew()
	rung := r.rings()
	for _, t := range rung {
		if r.taps[t.upstream.identity()] == t && t.take() {
			r.ring(t)
		}
	}
	for _, t := range r.taps {
		t.turn(now)
	}
	r.look()
	r.apply(now)
	for t := range r.visited {
		delete(r.visited, t)
		if t.subscribe() {
			r.ring(t)
		}
		t.releaseUnused()
	}
}

// look looks again for everything whose leads, or whose upstreams, have changed.
func (r *Resolver) look() {
	for _, g := range r.globs.queue {
		if g.queued = false; !g.ended {
			g.look()
		}
	}
	r.globs.queue = nil
	for _, n := range r.nodes.queue {
		if n.queued = false; !n.ended {
			n.look()
		}
	}
	r.nodes.queue = nil
}

// out is what is to be told of a type.
func (r *Resolver) out(typeURL string) *cache.Resolved {
	out := r.outs[typeURL]
	if out == nil {
		out = &cache.Resolved{TypeURL: typeURL}
		r.outs[typeURL] = out
	}
	return out
}

// changed notes when a change came from upstream that is about to be applied.
func (r *Resolver) changed(at time.Time) {
	if !at.IsZero() && (r.received.IsZero() || at.Before(r.received)) {
		r.received = at
	}
}

// apply tells the resolved store what was found out, all at once: clients must not see
// a part of what came together (ADS-3).
func (r *Resolver) apply(now time.Time) {
	var all []*cache.Resolved
	for _, typeURL := range slices.Sorted(maps.Keys(r.outs)) {
		if out := r.outs[typeURL]; !out.Empty() {
			all = append(all, out)
		}
	}
	clear(r.outs)
	received := r.received
	r.received = time.Time{}
	if len(all) == 0 {
		return
	}
	if received.IsZero() {
		received = now
	}
	store := r.config.Store
	before := store.Sequence()
	store.ApplyResolved(all, received)
	r.origins.note(before, store.Sequence(), r.brings)
	r.brings = nil
}
