package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/metrics"
)

// prefetcher pins the members of the list collections that clients have (LIST-2), so that
// they are here when clients ask for them. It reads directories in a goroutine of its own: no
// client and no upstream waits for it, and what changes meanwhile is merged.
type prefetcher struct {
	// immutable
	cache  *cache.Cache
	router *router
	counts *metrics.References
	log    *slog.Logger
	bell   chan struct{} // one slot: renew was called
	turns  chan struct{} // turn's

	mu     sync.Mutex
	wanted bool // guarded by mu; what renew gave last
	afresh bool // guarded by mu; everything is to be forgotten first

	// owned by run
	enabled bool // members are fetched; else directories are read for what is wrong with them (LIST-4)

	graph  *references
	held   map[sessionKey]*holding
	logged time.Time // when it did last
	unsaid int       // faulty resources since then that were not logged
}

// holding is a session that is held open while something is pinned on it.
type holding struct {
	session *session
	nodes   int
}

// maxReferences is how many references are followed, one after the other: a directory can list
// another one.
const maxReferences = 5

// newPrefetcher makes one that fetches members if it is enabled.
func newPrefetcher(c *cache.Cache, r *router, counts *metrics.References, log *slog.Logger, enabled bool) *prefetcher {
	return &prefetcher{
		cache: c, router: r, counts: counts, log: log, bell: notify.New(), turns: make(chan struct{}), wanted: enabled, enabled: enabled,
		graph: newReferences(maxReferences), held: make(map[sessionKey]*holding),
	}
}

// renew has everything read again, since names may live elsewhere by the plan that is in
// force now. Any goroutine may call it.
func (p *prefetcher) renew(enabled bool) {
	p.mu.Lock()
	p.wanted = enabled
	p.mu.Unlock()
	notify.Signal(p.bell)
}

// renewAll is renew for when sessions were discarded.
func (p *prefetcher) renewAll() {
	p.mu.Lock()
	p.afresh = true
	p.mu.Unlock()
	p.renew(p.wantedNow())
}

func (p *prefetcher) wantedNow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wanted
}

// begunAfresh reports, once, whether everything is to be forgotten.
func (p *prefetcher) begunAfresh() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	afresh := p.afresh
	p.afresh = false
	return afresh
}

// run works until ctx ends. What it has pinned then ends with its store.
func (p *prefetcher) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.cache.ReferencesChanged():
			p.take()
		case <-p.bell:
			if p.begunAfresh() {
				p.forgetAll(p.router.hub.panics)
			}
			p.beginAnew()
			p.take()
		case <-p.turns:
		}
	}
}

// turn waits until run's loop has turned, or ctx ends (SUR-5).
func (p *prefetcher) turn(ctx context.Context) {
	notify.Deliver(ctx, p.turns, struct{}{}, nil, func() bool { return false })
}

// beginAnew forgets what refers to what, and has the stores tell it again. What is pinned
// is remembered, so that in the next take it stays where it is still led to.
func (p *prefetcher) beginAnew() {
	p.mu.Lock()
	p.enabled = p.wanted
	p.mu.Unlock()
	before, stores := p.graph, make(map[*cache.Store]bool)
	p.graph = newReferences(maxReferences)
	for key, was := range before.nodes {
		n := p.graph.node(key)
		n.session, n.pinned = was.session, was.pinned
		n.judged, n.counted, n.complaint, n.tooFar = was.judged, was.counted, was.complaint, was.tooFar
		p.graph.look(n)
		stores[key.store] = true
	}
	for _, s := range p.router.hub.all() {
		stores[s.store] = true
	}
	for s := range stores {
		s.TellReferences()
	}
}

// forgetAll lets go of everything that is pinned and held, and forgets what refers to what.
func (p *prefetcher) forgetAll(panics *logs.Panics) {
	before, held := p.graph, p.held
	p.graph, p.held = newReferences(maxReferences), make(map[sessionKey]*holding)
	for _, n := range before.nodes {
		if n.pinned {
			_ = panics.Do(logs.PartPrefetcher, func() {
				n.key.store.Unpin(n.key.typeURL, cache.Name{Spelling: n.key.name, Key: n.key.name})
			})
		}
	}
	for _, h := range held {
		p.router.hub.release(h.session)
	}
	for _, s := range p.router.hub.all() {
		s.store.TellReferences()
	}
}

// take looks at everything that has changed before it pins or lets go of anything: a
// name that moves from one directory to another stays (LIST-3).
func (p *prefetcher) take() {
	for _, r := range p.cache.TakeReferences() {
		p.apply(r)
	}
	moved := p.graph.settle()
	p.pin(moved)
	p.judgeDistance(moved)
	for _, n := range moved {
		p.graph.forget(n, p.drop)
	}
}

// judgeDistance finds what leads further than is followed.
func (p *prefetcher) judgeDistance(moved []*node) {
	for _, n := range moved {
		if n.distance != p.graph.limit || n.tooFar == n.number {
			continue
		}
		far := func(t *node) bool { return t.distance > p.graph.limit }
		if slices.ContainsFunc(n.targets, far) {
			n.tooFar = n.number
			p.complain(n, map[metrics.ReferenceFault]int{metrics.FaultChain: 1}, errTooFar)
		}
	}
}

// apply notes what became of one entry.
func (p *prefetcher) apply(r cache.Reference) {
	key := nodeKey{r.Store, r.TypeURL, r.Name, r.Wildcard}
	n := p.graph.nodes[key]
	if n == nil {
		if !r.Watched {
			return // it was pinned, and is not any more
		}
		n = p.graph.node(key)
	}
	n.unlisted = r.Resource == nil
	p.graph.watch(n, r.Watched)
	switch {
	case r.Resource == nil:
		n.number, n.versions = 0, nil
		p.graph.refer(n, nil)
	case r.Number != n.number && (r.Watched || n.pinned):
		n.number = r.Number
		p.read(n, r)
	}
}

// errForwarding says that a name is asked for with its client's metadata, which nobody but
// the client has (ACC-6).
var errForwarding = errors.New("the upstream needs the client's metadata")

// target finds or makes the node of a name that something refers to.
func (p *prefetcher) target(typeURL string, name keyer.Name) (*node, error) {
	now := p.router.now.Load()
	at, key, err := now.home(name)
	if err != nil {
		return nil, err
	}
	if len(now.forward[at.plane]) > 0 && !at.resolved {
		return nil, errForwarding
	}
	h := p.held[at]
	if h == nil {
		s, err := p.router.hub.acquire(claim{}, at, asItself, nil)
		if err != nil {
			return nil, err
		}
		h = &holding{session: s}
		p.held[at] = h
	}
	n := p.graph.node(nodeKey{store: h.session.store, typeURL: typeURL, name: key})
	if n.session == nil {
		n.session = h.session
		h.nodes++
	}
	p.graph.look(n) // or it would stay if nothing referred to it in the end
	return n, nil
}

// drop gives back the session of a node that is forgotten.
func (p *prefetcher) drop(n *node) {
	if n.session == nil {
		return
	}
	h := p.held[n.session.key]
	if h.nodes--; h.nodes == 0 {
		delete(p.held, n.session.key)
		p.router.hub.release(h.session)
	}
}

// errand is what one store is to be told about the names of one type.
type errand struct{ pin, unpin, unlist []cache.Name }

// pin has the stores pin what is to be pinned, and let go of the rest.
func (p *prefetcher) pin(moved []*node) {
	type table struct {
		store   *cache.Store
		typeURL string
	}
	errands := make(map[table]*errand)
	for _, n := range moved {
		if n.led() == n.pinned {
			continue
		}
		k := table{n.key.store, n.key.typeURL}
		e := errands[k]
		if e == nil {
			e = new(errand)
			errands[k] = e
		}
		name := cache.Name{Spelling: n.key.name, Key: n.key.name}
		switch n.pinned = !n.pinned; {
		case n.pinned:
			e.pin = append(e.pin, name)
		case n.unlisted:
			e.unlist = append(e.unlist, name)
		default:
			e.unpin = append(e.unpin, name)
		}
	}
	for k, e := range errands {
		inTurns(e.pin, func(names []cache.Name) { k.store.Pin(k.typeURL, names...) })
		inTurns(e.unpin, func(names []cache.Name) { k.store.Unpin(k.typeURL, names...) })
		inTurns(e.unlist, func(names []cache.Name) { k.store.Unlist(k.typeURL, names...) })
	}
}

// turn is how many names a store is told of at once: it is locked for that long.
const turn = 1000

func inTurns(names []cache.Name, tell func([]cache.Name)) {
	for some := range slices.Chunk(names, turn) {
		tell(some)
	}
}

// complainPause is the least time between two log lines about faults.
const complainPause = time.Second

// complain counts what is wrong with a directory, and logs it in a
// line: what was not logged of it before, and not more often than that.
func (p *prefetcher) complain(n *node, faults map[metrics.ReferenceFault]int, first error) {
	if len(faults) == 0 {
		n.complaint = ""
		return
	}
	words := make([]string, 0, len(faults))
	for _, f := range slices.Sorted(maps.Keys(faults)) {
		words = append(words, fmt.Sprintf("%d %s", faults[f], f))
	}
	text := strings.Join(words, ", ")
	complaint := text + ": " + first.Error()
	if n.judged == n.number && n.counted == complaint {
		return // it is the same content, read again
	}
	n.judged, n.counted = n.number, complaint
	for f, times := range faults {
		p.counts.Faulty(f, times)
	}
	now := time.Now()
	switch {
	case n.complaint == complaint:
	case now.Sub(p.logged) < complainPause:
		p.unsaid++
	default:
		n.complaint = complaint
		p.log.Warn("a list collection has faults", "type", n.key.typeURL,
			"name", fmt.Sprintf("%.256s", n.key.name), "faults", text, "first", first, "not_logged_before", p.unsaid)
		p.logged, p.unsaid = now, 0
	}
}
