package relay

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/relay/peers"
	"github.com/xdsrelay/xdsrelay/upstream"
)

const (
	// helpLook is how often the relay looks what peers are to be asked for, while an upstream is away.
	helpLook = 200 * time.Millisecond
	// helpAfter is how long an upstream is away before peers are asked, unless half of
	// server.unreachable_after is shorter: clients are told of the outage after the peers were asked.
	helpAfter = 2 * time.Second
	// helpAgain and helpMost bound the pauses before peers are asked again for what they all lack.
	helpAgain, helpMost = 2 * time.Second, 30 * time.Second
	// askedAtOnce is how many stores peers are asked for at a time.
	askedAtOnce = 16
	// lookPause is the time between two questions which upstreams peers have content of, and holdsFresh
	// how long an answer counts.
	lookPause, holdsFresh = 2 * time.Second, 15 * time.Second
	// troubled is how long after the last trouble of any upstream stores are looked through.
	troubled = 10 * time.Second
)

// help asks peers for what stores lack (peers.addresses). A nil *help asks nobody.
type help struct {
	// immutable
	client *peers.Client
	files  *credentials.TLSClient
	obs    peers.Observer
	log    *slog.Logger
	panics *logs.Panics
	slots  chan struct{}

	asking  sync.WaitGroup
	looking atomic.Bool

	// of the goroutine in run
	trouble time.Time // when an upstream was away last
	looked  time.Time

	mu    sync.Mutex
	holds map[string]time.Time // upstreams that a peer said it has content of, and when
}

// helped is what is known of the help for one session.
type helped struct {
	id     string      // immutable: what peers call the store; "": they are not asked for it
	asking atomic.Bool // the goroutine that set it owns what follows

	wants uint64        // cache.Peers.Wants when they were asked
	again time.Time     // when they are asked again for what they lacked; zero: they had all
	pause time.Duration // before that
}

// openPeers prepares both sides of the help between relays. The error names a TLS file.
func (r *Relay) openPeers(cfg *config.Config) error {
	p := &cfg.Peers
	if len(p.Addresses)+len(p.Identities) == 0 {
		return nil
	}
	id := rand.Text()
	r.hub.answers = true
	r.peers = &peerDoor{relay: r, cfg: p}
	r.peers.Server = &peers.Server{
		ID: id, Stores: holder{r.hub}, Observer: r.metrics.Peers(), Trusted: r.peers.trusts, MaxBytes: int(p.MaxBytes), End: downstream.EndStream,
		MessageSize: func() int { return int(r.now.Load().config.Server.MaxMessageSize) },
	}
	if len(p.Addresses) == 0 {
		return nil
	}
	keys := r.clientTLS(&p.TLS, cfg.Server.TLSRefresh)
	keys.Report = func(err error) {
		if err != nil {
			r.log.Error("the TLS files for peers are not usable, the old ones stay in use", "error", err)
		}
	}
	files, err := credentials.NewTLSClient(keys)
	if err != nil {
		return err
	}
	r.hub.help = &help{
		files: files, obs: r.metrics.Peers(), log: r.log, panics: r.panics, slots: make(chan struct{}, askedAtOnce),
		holds: make(map[string]time.Time),
		client: peers.NewClient(peers.ClientConfig{
			ID: id, Addresses: p.Addresses, Credentials: files.Credentials(), Authority: p.TLS.ServerName, UserAgent: upstream.UserAgent(),
			Resolver: r.dial.Resolver, Connect: r.dial.Connect, Options: r.dial.Options, Panics: r.panics, MaxBytes: int(p.MaxBytes),
		}),
	}
	return nil
}

// peerDoor is the listener at which relays ask (peers.listener). A nil one is none.
type peerDoor struct {
	*peers.Server

	relay *Relay
	cfg   *config.Peers
}

// here reports whether a stream came through it.
func (d *peerDoor) here(ctx context.Context) bool {
	if d == nil || d.cfg.Listener == "" {
		return false
	}
	client := identity.ClientOf(ctx)
	return client != nil && client.Listener.Name == d.cfg.Listener
}

// answer answers relays, and refuses clients at their listener, whatever they call (downstream.Server.AnswerPeers).
func (d *peerDoor) answer(g grpc.ServerStream) (exchange func(grpc.ServerStream) error, err error) {
	if exchange, err = d.Answer(g); exchange == nil && err == nil && d.here(g.Context()) {
		return nil, d.refuse(g)
	}
	return exchange, err
}

// refuse gives the status that ends a client's stream.
func (d *peerDoor) refuse(g grpc.ServerStream) error {
	who := downstream.PeerOf(g.Context())
	d.relay.log.Warn("a client came by the listener of peers.listener, which is for relays that may ask (peers.identities)",
		"listener", d.cfg.Listener, "peer", who.Addr, "identity", who.Identity())
	return status.Error(codes.PermissionDenied, "this listener of the relay is for other relays (peers.listener), and serves no clients: connect to another one")
}

// trusts reports whether a stream is one of a relay that may ask.
func (d *peerDoor) trusts(ctx context.Context) bool {
	who := downstream.PeerOf(ctx)
	if !d.here(ctx) || !peers.Trusts(d.cfg.Identities, &who) {
		return false
	}
	shown := identity.ClientOf(ctx).TLS
	if shown == nil {
		return false
	}
	other, taken := d.relay.takenElsewhere(d.cfg.Listener, shown.State.PeerCertificates)
	if taken {
		d.relay.log.Warn("a relay may not ask, because a client could pass for it: another listener takes its certificate too. The listener of peers.listener needs a CA, or a trust domain, of its own",
			"peer", who.Addr, "identity", who.Identity(), "listener", other)
	}
	return !taken
}

// takenElsewhere names a listener beside one that takes a certificate, the first of shown. Files and Workload APIs change
// while the relay runs: this looks at what counts now.
func (r *Relay) takenElsewhere(beside string, shown []*x509.Certificate) (listener string, taken bool) {
	takes := func(files *credentials.TLSServer) bool {
		roots := files.Clients()
		if roots == nil {
			return false
		}
		_, err := roots.Verify(shown, x509.ExtKeyUsageClientAuth, time.Now())
		return err == nil
	}
	for _, p := range r.ports {
		if p.Name != beside && p.secure != nil && takes(p.secure.TLSServer) {
			return p.Name, true
		}
	}
	return "admin", r.admin.tls != nil && takes(r.admin.tls)
}

// close closes the connections to peers. run has ended.
func (h *help) close() {
	if h != nil {
		h.client.Close()
		h.files.Close()
	}
}

// runHelp asks peers until ctx ends.
func (r *Relay) runHelp(ctx context.Context) {
	h := r.hub.help
	if h == nil {
		return
	}
	defer h.asking.Wait()
	retry.Every(ctx, helpLook, func(now time.Time) { r.helpAll(ctx, now) })
}

// helpAll has peers asked for all stores that need it.
func (r *Relay) helpAll(ctx context.Context, now time.Time) {
	h, after := r.hub.help, r.helpAfter()
	present, retired := r.hub.census()
	away := make(map[*plane]bool)
	for _, p := range slices.AppendSeq(retired, maps.Values(present)) {
		if away[p] = p.awayFor(after, now); away[p] || p.denies() || p.denying(now) {
			h.trouble = now
		}
	}
	if now.Sub(h.trouble) > troubled {
		return
	}
	h.look(ctx, now)
	for _, s := range r.hub.list() {
		s.store.Peers().Helped(s.helped.id != "" && away[s.key.of])
		switch {
		case s.helped.id == "" || !s.disk.ready.Load():
		case !away[s.key.of]:
			p := s.store.Peers()
			p.Asked(p.Wants()) // its control plane spoke: clients are told what that said
		case !s.helped.asking.Swap(true):
			if s.helped.due(s.store, now) {
				h.asking.Go(func() { h.askFor(ctx, s) })
			} else {
				s.helped.asking.Store(false)
			}
		}
	}
}

// helpAfter is how long an upstream is away before peers are asked.
func (r *Relay) helpAfter() time.Duration {
	if told := r.now.Load().config.Server.UnreachableAfter.Std(); told > 0 {
		return min(helpAfter, told/2)
	}
	return helpAfter
}

// awayFor reports whether no endpoint of a plane has answered for so long. A server that lets the
// relay not in has answered.
func (p *plane) awayFor(after time.Duration, now time.Time) bool {
	if p.outages == nil || p.denies() {
		return false
	}
	o := p.outage()
	since := o.Since
	if since.IsZero() && o.Answered.IsZero() {
		if since = p.reaching.failing(); since.IsZero() && !p.everReached() {
			since = p.reaching.sought()
		}
	}
	return !since.IsZero() && now.Sub(since) >= after
}

// due reports whether peers are to be asked now.
func (x *helped) due(store *cache.Store, now time.Time) bool {
	p := store.Peers()
	return p.Awaited() || p.Wants() != x.wants || (!x.again.IsZero() && now.After(x.again))
}

// askFor asks one peer after the other for what the store of a session lacks, until nothing is
// missing. Then clients are told of the outage that still wait.
func (h *help) askFor(ctx context.Context, s *session) {
	defer s.helped.asking.Store(false)
	defer h.panics.Catch(logs.PartBackground, nil)
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return
	}
	p, x := s.store.Peers(), &s.helped
	wants := p.Wants()
	defer func() { p.Asked(wants) }()
	missing, taken := p.Missing(), 0
	for _, peer := range h.client.Peers(ctx) {
		if len(missing) == 0 || ctx.Err() != nil {
			break
		}
		if n := h.ask(ctx, s, peer, missing); n > 0 {
			taken += n
			missing = p.Missing()
		}
	}
	switch {
	case len(missing) == 0:
		x.again, x.pause = time.Time{}, 0
	case taken > 0 || wants != x.wants:
		x.pause = helpAgain
	default:
		x.pause = min(max(2*x.pause, helpAgain), helpMost)
	}
	if x.wants = wants; x.pause > 0 {
		x.again = time.Now().Add(x.pause)
	}
}

// ask asks one peer, and returns how much the store took of what it gave.
func (h *help) ask(ctx context.Context, s *session, peer *peers.Peer, missing []cache.PeerWants) (taken int) {
	log := h.log.With("peer", peer.Address, "upstream", s.key.plane, "scope", s.key.scope)
	answer, err := peer.Ask(ctx, s.helped.id, missing)
	if h.failed(log, peer, err) {
		return 0
	}
	taken = s.store.Peers().Take(answer.Parts, answer.AsOf)
	if taken == 0 {
		h.obs.Asked(peers.ResultNothing)
		log.Debug("a peer lacks what is missing")
		return 0
	}
	h.obs.Asked(peers.ResultContent)
	h.obs.Taken(taken)
	log.Info("took from a peer what no control plane can be asked for", "resources", taken, "as_of", answer.AsOf)
	return taken
}

// failed counts and logs why a peer gave no answer, if it did not.
func (h *help) failed(log *slog.Logger, peer *peers.Peer, err error) bool {
	refused := errors.Is(err, peers.ErrRefused)
	if peer.Refused(refused) && refused {
		log.Warn("a peer does not let this relay ask: peers.addresses needs the port of its peers.listener, and its peers.identities the URI of the certificate in peers.tls")
	}
	switch {
	case status.Code(err) == codes.ResourceExhausted:
		h.obs.Asked(peers.ResultFailed)
		log.Warn("a peer's answer is too large", "error", err)
	case refused:
		h.obs.Asked(peers.ResultIgnored)
	case errors.Is(err, peers.ErrSelf), errors.Is(err, context.Canceled):
	case err != nil:
		h.obs.Asked(peers.ResultFailed)
		log.Debug("a peer does not answer", "error", err)
	}
	return err != nil
}

// look asks the peers which upstreams they have content of, in the background and not too often.
func (h *help) look(ctx context.Context, now time.Time) {
	if now.Sub(h.looked) < lookPause || h.looking.Swap(true) {
		return
	}
	h.looked = now
	h.asking.Go(func() {
		defer h.looking.Store(false)
		defer h.panics.Catch(logs.PartBackground, nil)
		for _, peer := range h.client.Peers(ctx) {
			held, err := peer.Look(ctx)
			if h.failed(h.log.With("peer", peer.Address), peer, err) {
				continue
			}
			h.mu.Lock()
			for _, name := range held {
				h.holds[name] = time.Now()
			}
			h.mu.Unlock()
		}
	})
}

// has reports whether a peer said lately that it has content of an upstream.
func (h *help) has(upstream string) bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	at, known := h.holds[upstream]
	return known && time.Since(at) <= holdsFresh
}

// holder is the relay as its peers ask for its stores.
type holder struct{ hub *hub }

// Find implements peers.Stores.
func (h holder) Find(id string) (*cache.Store, time.Time) {
	all := h.hub.list()
	i := slices.IndexFunc(all, func(s *session) bool { return s.helped.id == id })
	if i < 0 || id == "" {
		return nil, time.Time{}
	}
	s := all[i]
	asOf := s.client.connectedAt(time.Now())
	if n, at := s.store.Snapshots().Restored(); n > 0 && at.Before(asOf) {
		asOf = at
	}
	return s.store, asOf
}

// Holds implements peers.Stores.
func (h holder) Holds() []string {
	found := make(map[string]bool)
	for _, s := range h.hub.list() {
		if !found[s.key.plane] && s.helped.id != "" && s.store.Peers().Holds() {
			found[s.key.plane] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
