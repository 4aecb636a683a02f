package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/contain"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/relay/loadreport"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// xdstpScope is the scope of xdstp names: they mean the same for every client
// (NAME-2), so no client's node plays a part.
const xdstpScope = ""

// lookAgain is the shortest pause between two looks at a session that nobody uses and that
// has to stay: without one, looking would be all that the relay does (LIM-2).
const lookAgain = time.Second

// sessionKey names a session.
type sessionKey struct {
	plane, scope string
	of           *plane // that of the name when it began: another one may take the name over
	basis        string // the rules that brought the client here whose node it shows (rules.Decision)
	forwarded    string // stands for the client's metadata that goes upstream (forwarded.key)
	resolved     bool   // the names that the relay resolves by itself, of no upstream
}

// text tells a session from others of its upstream.
func (k sessionKey) text() string { return fmt.Sprintf("%q %q %q", k.scope, k.basis, k.forwarded) }

// session is one upstream for one scope: a store, and what fills it.
type session struct {
	key    sessionKey
	store  *cache.Store
	client *supply
	loads  *loadreport.Scope // nil: it takes no load reports
	stop   context.CancelFunc
	done   chan struct{} // closed when client has ended
	guard  guard
	meta   map[string][]string // of its clients, which goes upstream (ACC-6)
	turned turned              // who is told when its state changes
	disk   onDisk              // its snapshot
	helped helped              // what peers were asked for

	// guarded by hub.mu
	shown   shown
	node    *corev3.Node // what shown gives
	users   int          // streams that were routed here
	closer  *time.Timer  // looks whether it can be closed; nil while it has users
	lingers int          // how often closer was set
	// discarded: the store was inconsistent after a panic, and another session has its place.
	discarded bool
}

// hub keeps one session per upstream and scope, from the first stream that needs
// it until a linger after the last (AGG-3).
type hub struct {
	// immutable after newHub
	ctx   context.Context // of the sessions
	cache *cache.Cache
	loads *loadreport.Scopes
	own   *plane // the relay itself: of the names that it resolves
	log   *slog.Logger

	panics  *contain.Panics
	suspect func(*cache.Store) // has a store checked after a panic; it never blocks
	condemn func(*cache.Store) // has a store rebuilt; likewise

	snapshots *snapshots // nil: none are kept
	help      *help      // nil: there are no peers
	answers   bool       // peers may ask
	orders    *orders    // of operators

	running sync.WaitGroup

	mu       sync.Mutex
	node     *corev3.Node      // the relay's own
	planes   map[string]*plane // replaced as a whole
	retired  map[*plane]bool   // those that the configuration has not any more, as long as they have sessions
	linger   time.Duration
	sessions map[sessionKey]*session
	closed   bool
}

var errClosed = errors.New("the relay is shutting down")

// acquire gives the session of an upstream and scope, and starts it if there is none.
// as is what the control plane is shown if it is started, and meta goes with its streams:
// the key stands for it. It is nil where nothing of a client is forwarded.
func (h *hub) acquire(key sessionKey, as func() shown, meta map[string][]string) (*session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errClosed
	}
	s := h.sessions[key]
	if s == nil {
		var err error
		if s, err = h.start(key, as(), meta); err != nil {
			return nil, err
		}
		h.sessions[key] = s
	}
	s.users++
	if s.closer != nil {
		s.closer.Stop()
		s.closer = nil
	}
	return s, nil
}

// start runs a session. The caller holds mu.
func (h *hub) start(key sessionKey, as shown, meta map[string][]string) (*session, error) {
	p := h.planeOf(key)
	s := &session{
		key: key, meta: meta, shown: as, node: as.node(forwarding(h.node, key.forwarded)), store: h.cache.Open(p.sourceOf(key)),
		done: make(chan struct{}), guard: guard{node: as.client}, disk: onDisk{id: h.snapshots.idOf(key, p)},
	}
	cache.OperatorOf(s.store).Freeze(h.orders.of(key), nil)
	if h.help != nil || h.answers {
		s.helped.id = storeID(key, p)
	}
	client, err := h.open(s, p.upstream, s.node)
	if err != nil {
		return nil, err
	}
	s.loads = h.loadsOf(s, p)
	s.client = newSupply(client, h.log.With("upstream", key.plane, "scope", key.scope))
	s.client.panics, s.client.reopen = h.panics, func() (feed, error) { return h.reopen(s) }
	ctx, stop := context.WithCancel(h.ctx)
	s.stop = stop
	p.sessions++
	h.running.Go(func() {
		defer close(s.done)
		if h.panics.Do(contain.Background, func() { h.snapshots.restore(s) }) != nil {
			h.condemn(s.store) // it may have a part of the snapshot
		}
		_ = s.client.Run(ctx) // ctx's
		if h.ctx.Err() == nil {
			_ = h.panics.Do(contain.Background, func() { h.snapshots.save(s) })
			_ = h.panics.Do(contain.Store, s.store.Close) // at the relay's end the cache goes with it, and need not be emptied
		}
	})
	h.log.Info("session started", "upstream", key.plane, "scope", key.scope)
	return s, nil
}

// planeOf is whose session a key names.
func (h *hub) planeOf(key sessionKey) *plane {
	if key.resolved {
		return h.own
	}
	return key.of
}

// open makes a feed of a session's store. The caller holds mu.
func (h *hub) open(s *session, from origin, node *corev3.Node) (feed, error) {
	p := h.planeOf(s.key)
	f, err := from.open(upstream.SessionConfig{
		Node: node, Scope: s.key.scope, Key: s.key.text(), Store: s.store.Session(), Observer: observeTurns(p.observer, &s.turned), Metadata: s.meta,
		Panics: h.panics, Suspect: func() { h.suspect(s.store) },
	})
	if err != nil {
		return nil, fmt.Errorf("scope %q: %w", s.key.scope, err)
	}
	return f, nil
}

// sourceOf is what fills the store of a session.
func (p *plane) sourceOf(key sessionKey) cache.Source {
	source := p.source
	if key.scope != xdstpScope {
		source.Scope = fmt.Sprintf("%q %q %q", key.plane, key.scope, key.basis)
	}
	if key.forwarded != "" {
		source.Scope += " " + key.forwarded
	}
	return source
}

// release gives a session back.
func (h *hub) release(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.users--
	switch {
	case s.users > 0 || h.closed:
	case s.discarded:
		h.part(s)
	case s.useless():
		h.end(s)
	default:
		h.closeLater(s)
	}
}

// closeLater looks after the linger. The caller holds mu.
func (h *hub) closeLater(s *session) { h.lookIn(s, h.linger) }

// lookIn looks after a while. The caller holds mu.
func (h *hub) lookIn(s *session, wait time.Duration) {
	s.lingers++
	linger := s.lingers
	s.closer = time.AfterFunc(wait, h.panics.Func(contain.Background, func() { h.closeUnused(s, linger) }))
}

// closeUnused ends a session that nobody has used for the linger. What it holds
// is gone then; so while its control plane is away it stays, since then nobody
// could fill it again (OPS-1), and so does one that an operator froze. xdstp names belong to no client: their session
// stays as long as anything of it is cached (SUB-11). Where clients' metadata is forwarded
// theirs belongs to those with the same.
// linger says after which one: its end may have met a stream that came and went.
func (h *hub) closeUnused(s *session, linger int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.users > 0 || s.lingers != linger || h.closed || s.discarded {
		return
	}
	// A session that nobody uses does not reconnect (UPS-2), and is idle then.
	away := s.client.Status().State == upstream.StateConnecting || !h.planeOf(s.key).outage().Since.IsZero()
	frozen := cache.OperatorOf(s.store).Frozen() // a new session would begin with what is held
	if s.store.Session().Wanted() > 0 && (away || frozen || s.key.scope == xdstpScope && s.key.forwarded == "") {
		h.lookIn(s, max(h.linger, lookAgain))
		return
	}
	h.end(s)
}

// end ends a session that nobody uses. The caller holds mu.
func (h *hub) end(s *session) {
	if s.closer != nil {
		s.closer.Stop()
		s.closer = nil
	}
	delete(h.sessions, s.key)
	s.stop()
	if s.loads != nil {
		s.loads.Close()
	}
	h.log.Info("session closed", "upstream", s.key.plane, "scope", s.key.scope)
	h.part(s)
}

// part takes a session off its plane. The caller holds mu.
func (h *hub) part(s *session) {
	p := h.planeOf(s.key)
	p.sessions--
	h.bury(p)
}

// discard ends a session before its clients have left, and makes room for another one. It returns
// nil if there is none.
func (h *hub) discard(which func(*session) bool) *session {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, s := range h.sessions {
		if !which(s) {
			continue
		}
		s.discarded = true
		if s.closer != nil {
			s.closer.Stop()
			s.closer = nil
		}
		delete(h.sessions, key)
		s.stop()
		if s.loads != nil {
			s.loads.Close()
		}
		if s.users == 0 {
			h.part(s)
		}
		return s
	}
	return nil
}

// reopen makes a session's next feed after one that panicked. A resolver needs a new store.
func (h *hub) reopen(s *session) (feed, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.key.resolved {
		h.condemn(s.store)
		return nil, errUseless
	}
	return h.open(s, h.planeOf(s.key).upstream, s.node)
}

// close ends all sessions and waits for them.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	for key, s := range h.sessions {
		if s.closer != nil {
			s.closer.Stop()
		}
		s.stop()
		delete(h.sessions, key)
	}
	h.mu.Unlock()
	h.running.Wait()
	h.loads.Wait(context.Background()) // they end with ctx
}

// all lists the sessions by upstream and scope.
func (h *hub) all() []*session {
	list := h.list()
	slices.SortFunc(list, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.key.plane, b.key.plane), cmp.Compare(a.key.scope, b.key.scope))
	})
	return list
}

// list lists the sessions in no order.
func (h *hub) list() []*session {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]*session, 0, len(h.sessions))
	for _, s := range h.sessions {
		list = append(list, s)
	}
	return list
}

// users is the number of streams that were routed to a session.
func (h *hub) users(s *session) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.users
}

// features is what the relay can do as a client of control planes. Of resource ttl
// it spares its own clients that cannot do it the heartbeats, and tells them what
// expired (TTL-2). Resources that a state-of-the-world server wraps it takes out (RES-13).
func features() []string {
	return append(wire.WrappingFeatures(), "xds.config.supports-resource-ttl")
}
