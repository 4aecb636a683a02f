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
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds/payload"
	"github.com/xdsrelay/xdsrelay/relay/load"
	"github.com/xdsrelay/xdsrelay/relay/loadreport"
	"github.com/xdsrelay/xdsrelay/upstream"
	"google.golang.org/protobuf/proto"
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
	key        sessionKey
	store      *cache.Store
	client     *supply
	loads      *loadreport.Scope // nil: it takes no load reports
	stop       context.CancelFunc
	done       chan struct{} // closed when client has ended
	comparison comparison
	meta       map[string][]string // of its clients, which goes upstream (ACC-6)
	turned     turned              // who is told when its state changes
	disk       onDisk              // its snapshot
	helped     helped              // what peers were asked for

	// guarded by hub.mu
	shown   shown
	node    *corev3.Node // what shown gives
	started time.Time
	polled  bool          // by clients that poll: each comes back before long
	users   int           // streams that were routed here
	closer  *time.Timer   // looks whether it can be closed; nil while it has users
	lingers int           // how often closer was set
	used    time.Duration // how old it was when it was last used; of a session that nobody uses
	of      quota.Client  // who began to use it, as long as anybody does
	at      int           // its place among hub.room.idle, from 1 on; 0: it is not there
	// discarded: the store was inconsistent after a panic, and another session has its place.
	discarded bool
}

// hub keeps one session per upstream and scope, from the first stream that needs
// it until a linger after the last, which is no longer than a part of its life (AGG-3).
type hub struct {
	// immutable after newHub
	ctx   context.Context // of the sessions
	cache *cache.Cache
	loads *loadreport.Scopes
	own   *plane // the relay itself: of the names that it resolves
	log   *slog.Logger

	panics  *logs.Panics
	suspect func(*cache.Store) // has a store checked after a panic; it never blocks
	condemn func(*cache.Store) // has a store rebuilt; likewise

	snapshots *snapshots       // nil: none are kept
	help      *help            // nil: there are no peers
	peers     bool             // there are peers, which ask, or are asked
	orders    *orders          // of operators
	secrets   *payload.Secrets // what is never shown, stored or held
	admission *load.Admission

	running sync.WaitGroup

	mu       sync.Mutex
	node     *corev3.Node      // the relay's own
	planes   map[string]*plane // replaced as a whole
	retired  map[*plane]bool   // those that the configuration has not any more, as long as they have sessions
	linger   time.Duration
	sessions map[sessionKey]*session
	room     room
	closed   bool
}

var errClosed = errors.New("the relay is shutting down")

// acquire gives the session of an upstream and scope, and starts it if there is none.
// as gives what the control plane is shown if it is started, and meta goes with its streams:
// the key stands for it. It is nil where nothing of a client is forwarded.
func (h *hub) acquire(who claim, key sessionKey, as func() shown, meta map[string][]string) (*session, error) {
	var made *appearance
	for {
		s, own, err := h.enter(who, key, made, meta)
		if s != nil || err != nil {
			return s, err
		}
		made = appear(as(), own, key)
	}
}

// claim says for whom a session is to begin.
type claim struct {
	kind claimKind
	from quota.Client // of the client; zero: the relay itself
	addr string       // of the client's connection; "": it is not known
}

// where is where a session's client comes from.
func (c *claim) where() (from load.From) {
	if c.from != (quota.Client{}) {
		from.Party = c.from
	}
	if c.addr != "" {
		from.Connection = c.addr
	}
	return from
}

type claimKind int

// The kinds of claims. Who is served already goes on being served: memory that is short is no reason against it.
// For a client that a reload leads elsewhere limits.scopes is none either.
const (
	newcomer claimKind = iota
	served
	moved
)

// appearance is what a session that is to begin shows its control plane. It is made without the
// hub's lock: a client's node may be large, and others wait for the lock (LIM-2).
type appearance struct {
	shown shown
	own   *corev3.Node // the relay's own node that it was made from
	node  *corev3.Node
	size  int // of node
}

func appear(as shown, own *corev3.Node, key sessionKey) *appearance {
	node := as.node(forwarding(own, key.forwarded))
	return &appearance{as, own, node, proto.Size(node)}
}

// enter gives a session to one user more. If there is none, it is started with what was made for it.
// Without that, or if the relay's own node is another one by now, there is no session and no error:
// the appearance is to be made from the node that enter returns.
func (h *hub) enter(who claim, key sessionKey, made *appearance, meta map[string][]string) (*session, *corev3.Node, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, nil, errClosed
	}
	s := h.sessions[key]
	if s == nil {
		if who.kind == newcomer && !key.ofAll() && h.admission.Scope() != nil {
			return nil, nil, downstream.ErrNoMemory
		}
		if made == nil || made.own != h.node {
			return nil, h.node, nil
		}
		var err error
		if s, err = h.begin(who, key, made, meta); err != nil {
			return nil, nil, err
		}
	} else if err := h.seat(who, s); err != nil {
		return nil, nil, err
	}
	s.users++
	h.wake(s)
	return s, nil, nil
}

// begin starts a session for a client, if there is room and the client has not its share. The caller holds mu.
func (h *hub) begin(who claim, key sessionKey, made *appearance, meta map[string][]string) (_ *session, err error) {
	if err := h.room.admit(who, key, h.sessions); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			h.room.left(who.from, key)
		}
	}()
	if err := h.makeRoom(key); err != nil && who.kind != moved {
		return nil, err
	}
	s, err := h.start(who, key, made, meta)
	if err != nil {
		return nil, err
	}
	s.of = who.from
	h.sessions[key] = s
	return s, nil
}

// start runs a session. The caller holds mu.
func (h *hub) start(who claim, key sessionKey, as *appearance, meta map[string][]string) (*session, error) {
	p := h.planeOf(key)
	s := &session{
		key: key, meta: meta, shown: as.shown, node: as.node, store: h.cache.Open(p.sourceOf(key)),
		started: time.Now(), done: make(chan struct{}), comparison: comparison{node: as.shown.client}, disk: onDisk{id: h.snapshots.idOf(key, p)},
	}
	s.store.Operator().Freeze(h.orders.of(key), nil)
	if cause := p.reaching.cause.Load(); cause != nil {
		s.store.Session().SetOutage(*cause) // or clients were told by other stores before this one knows (ABS-2)
	}
	if h.peers {
		s.helped.id = storeID(key, p)
	}
	client, err := h.open(s, p.upstream, s.node, as.size)
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
		if h.panics.Do(logs.PartBackground, func() { h.snapshots.restore(s) }) != nil {
			h.condemn(s.store) // it may have a part of the snapshot
		}
		if key.ofAll() || h.await(ctx, who.where(), s) == nil {
			_ = s.client.Run(ctx) // ctx's
		}
		if h.ctx.Err() == nil {
			_ = h.panics.Do(logs.PartBackground, func() { h.snapshots.save(s) })
			_ = h.panics.Do(logs.PartStore, s.store.Close) // at the relay's end the cache goes with it, and need not be emptied
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

// open makes a feed of a session's store. The node's size is 0 if it is not known. The caller holds mu.
func (h *hub) open(s *session, from origin, node *corev3.Node, size int) (feed, error) {
	p := h.planeOf(s.key)
	f, err := from.open(upstream.SessionConfig{
		Node: node, NodeSize: size, Scope: s.key.scope, Key: s.key.text(), Store: s.store.Session(), Observer: observeTurns(p.observer, &s.turned), Metadata: s.meta,
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

// pause gives a session back between two polls.
func (h *hub) pause(s *session) {
	h.mu.Lock()
	s.polled = true
	h.mu.Unlock()
	h.release(s)
}

// release gives a session back.
func (h *hub) release(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.users--; s.users == 0 && !s.discarded {
		h.room.left(s.of, s.key)
	}
	switch {
	case s.users > 0 || h.closed:
	case s.discarded:
		h.part(s)
	case s.useless():
		h.end(s)
	default:
		h.rest(s)
	}
}

// leastLinger is how long a session waits for the next client at least.
const leastLinger = time.Second

// lingerPart is the part of its life that a session lingers at most.
const lingerPart = 4

// closeLater looks after the linger, or after a part of the session's life if that is less. A client
// that presents one node after the other, each for a moment, must not make the relay keep all that these
// asked for (LIM-3). The caller holds mu.
func (h *hub) closeLater(s *session) {
	wait := h.linger
	if !s.polled {
		wait = min(wait, max(time.Since(s.started)/lingerPart, leastLinger))
	}
	h.lookIn(s, wait)
}

// lookIn looks after a while. The caller holds mu.
func (h *hub) lookIn(s *session, wait time.Duration) {
	if s.closer != nil {
		s.closer.Stop()
	}
	h.room.idle.add(s)
	s.lingers++
	linger := s.lingers
	s.closer = time.AfterFunc(wait, h.panics.Func(logs.PartBackground, func() { h.closeUnused(s, linger) }))
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
	if h.stays(s) {
		h.lookIn(s, max(h.linger, lookAgain))
		return
	}
	h.end(s)
}

// end ends a session that nobody uses. The caller holds mu.
func (h *hub) end(s *session) {
	h.quit(s)
	h.log.Info("session closed", "upstream", s.key.plane, "scope", s.key.scope)
	h.part(s)
}

// quit stops a session and gives its key free. The caller holds mu.
func (h *hub) quit(s *session) {
	h.wake(s)
	delete(h.sessions, s.key)
	s.stop()
	if s.loads != nil {
		s.loads.Close()
	}
}

// part takes a session off its plane. The caller holds mu.
func (h *hub) part(s *session) {
	p := h.planeOf(s.key)
	p.sessions--
	h.closeRetired(p)
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
		h.quit(s)
		if s.users == 0 {
			h.part(s)
		} else {
			h.room.left(s.of, key)
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
	return h.open(s, h.planeOf(s.key).upstream, s.node, 0)
}

// shed ends the sessions that nobody uses, but those that closeUnused would keep.
func (h *hub) shed() {
	h.mu.Lock()
	unused := make(map[*session]int)
	for _, s := range h.sessions {
		if s.users == 0 && !s.betweenPolls() {
			unused[s] = s.lingers
		}
	}
	h.mu.Unlock()
	for s, lingers := range unused {
		h.closeUnused(s, lingers)
	}
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
		return cmp.Or(cmp.Compare(a.key.plane, b.key.plane), cmp.Compare(a.key.scope, b.key.scope), cmp.Compare(a.key.basis, b.key.basis), cmp.Compare(a.key.forwarded, b.key.forwarded))
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
