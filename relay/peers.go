package relay

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/snapshot"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/internal/xds/payload"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/audit"
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
	client  *peers.Client
	secrets bool             // are taken
	hides   *payload.Secrets // what are secrets
	obs     peers.Observer
	log     *slog.Logger
	panics  *logs.Panics
	slots   chan struct{}

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

	tags  map[string]string // of the images that were taken, by the address of the peer
	holds int64             // what the store held then
	wants uint64            // cache.Peers.Wants when they were asked
	again time.Time         // when they are asked again for what they lacked; zero: they had all
	pause time.Duration     // before that
}

// openPeers prepares both sides of the help between relays. The error names a TLS file.
func (r *Relay) openPeers(cfg *config.Config) error {
	p := &cfg.Peers
	if p.Listen == "" && len(p.Addresses) == 0 {
		return nil
	}
	files, err := credentials.NewTLSServer(credentials.TLSServerConfig{
		CertFile: p.TLS.CertFile, KeyFile: p.TLS.KeyFile, ClientCAFile: p.TLS.CAFile, SPIFFE: r.clientsOf(p.TLS.SPIFFE),
		Refresh: cfg.Server.TLSRefresh.Std(), Panics: r.panics,
		Report: func(err error) {
			if err != nil {
				r.log.Error("the TLS files for peers are not usable, the old ones stay in use", "error", err)
			}
		},
	})
	if err != nil {
		return err
	}
	id := rand.Text()
	r.hub.peers = true
	r.peers = peerPort{files: files, pages: &peers.Server{
		ID: id, Scopes: holder{r.hub}, Secrets: p.Secrets, Identify: r.identifyPeer(p, files), Observer: r.metrics.Peers(), Log: r.log, Audit: r.auditPeer,
	}}
	if len(p.Addresses) == 0 {
		return nil
	}
	r.hub.help = &help{
		secrets: p.Secrets, hides: r.secrets, obs: r.metrics.Peers(), log: r.log, panics: r.panics, slots: make(chan struct{}, askedAtOnce),
		holds: make(map[string]time.Time),
		client: peers.NewClient(peers.ClientConfig{
			ID: id, Addresses: p.Addresses, Identities: p.Identities, TLS: files.Outgoing, UserAgent: upstream.UserAgent(),
			Resolver: r.dial.Resolver, Connect: r.dial.Connect, MaxBytes: int(p.MaxBytes),
		}),
	}
	return nil
}

// peerPort is the port at which relays ask (peers.listen).
type peerPort struct {
	files *credentials.TLSServer // nil: there are no peers
	pages http.Handler
	lis   net.Listener // before Run; nil: nobody may ask
}

// ServePeers has Run answer other relays on lis, and close it. It is to be called before Run.
func (r *Relay) ServePeers(lis net.Listener) { r.peers.lis = lis }

// securedPeers is the port's socket with what guards those of clients: bounds of connections, and turns of handshakes.
func (r *Relay) securedPeers() net.Listener {
	l := &identity.Listener{Name: "peers", Connections: r.connections, Handshake: func(ctx context.Context) identity.Handshake { return r.admission.Handshake(ctx) }}
	return l.Secure(l.Guard(r.peers.lis), r.peers.files.HTTPConfig())
}

// peersServer is the port's server, with the bounds of that of the admin port.
func (r *Relay) peersServer(pages http.Handler) *http.Server {
	s := newAdminServer("peers", pages, r.log)
	s.Handler, s.ConnContext = identity.Requests(s.Handler), identity.Context
	s.ErrorLog = slog.NewLogLogger(r.refusals.HTTPLog(), slog.LevelDebug)
	return s
}

// identifyPeer says which relay shows certificates, if it may ask. A file's CA must be for relays alone: a client of a
// CA that lets it choose a name could pass for a relay.
func (r *Relay) identifyPeer(p *config.Peers, files *credentials.TLSServer) func(shown []*x509.Certificate) (string, error) {
	return func(shown []*x509.Certificate) (string, error) {
		if len(shown) == 0 {
			return "", errors.New("it shows no certificate")
		}
		who := peers.Identity(p.Identities, shown[0])
		if who == "" {
			leaf := keyer.PeerFromCertificate(shown[0])
			return "", fmt.Errorf("the certificate of %s has no name of peers.identities, or several URIs", leaf.Identity())
		}
		if _, err := files.Clients().Verify(shown, x509.ExtKeyUsageClientAuth, time.Now()); err != nil {
			return "", fmt.Errorf("its certificate does not count any more: %w", err) // the connection is older than that
		}
		if p.TLS.SPIFFE != nil { // a SPIFFE ID is that of one workload
			return who, nil
		}
		if listener, taken := r.takenElsewhere(shown); taken {
			return "", fmt.Errorf("a client could pass for it: %s takes its certificate too, so peers.tls.ca_file needs a CA of its own", listener)
		}
		return who, nil
	}
}

// auditPeer writes who was given the image of a scope, with its secrets, or was refused.
func (r *Relay) auditPeer(address, who, scope string, refused error) {
	e := &audit.Event{What: "peer", Address: address, Identity: who, Account: who, Listener: "peers", Scope: scope, Decision: audit.Allow}
	if refused != nil {
		e.Decision, e.Reason = audit.Deny, refused.Error()
	}
	r.trail.Note(e)
}

// takenElsewhere names a listener for clients or operators that takes a certificate, the first of shown. Files change
// while the relay runs: this looks at what counts now.
func (r *Relay) takenElsewhere(shown []*x509.Certificate) (listener string, taken bool) {
	takes := func(files *credentials.TLSServer) bool {
		roots := files.Clients()
		if roots == nil {
			return false
		}
		_, err := roots.Verify(shown, x509.ExtKeyUsageClientAuth, time.Now())
		return err == nil
	}
	for _, p := range r.ports {
		if p.secure != nil && takes(p.secure.TLSServer) {
			return "the listener " + p.Name, true
		}
	}
	return "the admin port", r.admin.tls != nil && takes(r.admin.tls)
}

// close ends the use of TLS files.
func (p *peerPort) close() {
	if p.files != nil {
		p.files.Close()
	}
}

// close closes the connections to peers. run has ended.
func (h *help) close() {
	if h != nil {
		h.client.Close()
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

// askFor asks one peer after the other for the image of a session's scope, until the store lacks nothing.
// Then clients are told of the outage that still wait.
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
	if p.Holds() < x.holds { // an image that did not change has something of use again
		x.tags = nil
	}
	lacks, taken := p.Lacks(), 0
	for _, peer := range h.client.Peers(ctx) {
		if !lacks || ctx.Err() != nil {
			break
		}
		if n := h.ask(ctx, s, peer); n > 0 {
			taken += n
			lacks = p.Lacks()
		}
	}
	x.holds = p.Holds()
	switch {
	case !lacks:
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
func (h *help) ask(ctx context.Context, s *session, peer *peers.Peer) (taken int) {
	log := h.log.With("peer", peer.Address, "upstream", s.key.plane, "scope", s.key.scope)
	x := &s.helped
	whole := true
	tag, err := peer.Ask(ctx, x.id, x.tags[peer.Address], func(image *cache.Image, asOf time.Time) {
		if !h.secrets {
			snapshot.LeaveSecrets(image, h.hides)
		}
		if taken, whole = s.store.Peers().Take(image, asOf); taken > 0 {
			log.Info("took from a peer what no control plane can be asked for", "resources", taken, "as_of", asOf)
		}
	})
	if h.failed(log, peer, err) {
		return taken
	}
	if x.tags == nil {
		x.tags = make(map[string]string)
	}
	if x.tags[peer.Address] = tag; !whole {
		delete(x.tags, peer.Address) // it has more, once the control plane is not being asked
	}
	if taken == 0 {
		h.obs.Asked(peers.ResultNothing)
		log.Debug("a peer lacks what is missing")
		return 0
	}
	h.obs.Asked(peers.ResultContent)
	h.obs.Taken(taken)
	return taken
}

// failed counts and logs why a peer gave no answer, if it did not.
func (h *help) failed(log *slog.Logger, peer *peers.Peer, err error) bool {
	trouble := peers.ResultFailed
	switch {
	case err == nil:
		trouble = ""
	case errors.Is(err, peers.ErrSelf), errors.Is(err, context.Canceled):
		return true
	case errors.Is(err, peers.ErrRefused):
		trouble = peers.ResultRefused
	}
	news := peer.Trouble(trouble)
	switch {
	case trouble == "":
		return false
	case news:
		log.Warn("a peer gives nothing", "error", err)
	default:
		log.Debug("a peer gives nothing", "error", err)
	}
	h.obs.Asked(trouble)
	return true
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

// Find implements peers.Scopes.
func (h holder) Find(id string) (*cache.Store, *snapshot.Header) {
	all := h.hub.list()
	i := slices.IndexFunc(all, func(s *session) bool { return s.helped.id == id })
	if i < 0 || id == "" {
		return nil, nil
	}
	s, now := all[i], time.Now()
	return s.store, &snapshot.Header{ID: id, Upstream: s.key.plane, Scope: s.key.scope, Written: now, Secrets: h.hub.secrets, AsOf: s.client.connectedAt(now)}
}

// Holds implements peers.Scopes.
func (h holder) Holds() []string {
	found := make(map[string]bool)
	for _, s := range h.hub.list() {
		if !found[s.key.plane] && s.helped.id != "" && s.store.Peers().Holds() > 0 {
			found[s.key.plane] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
