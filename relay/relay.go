package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/connections"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds/payload"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/metrics"
	"github.com/xdsrelay/xdsrelay/relay/admin"
	"github.com/xdsrelay/xdsrelay/relay/audit"
	"github.com/xdsrelay/xdsrelay/relay/load"
	"github.com/xdsrelay/xdsrelay/relay/loadreport"
	"github.com/xdsrelay/xdsrelay/relay/refusals"
	"github.com/xdsrelay/xdsrelay/upstream"
	"google.golang.org/grpc"
)

// Options are what a relay is given beside its configuration.
type Options struct {
	Log      *slog.Logger                   // nil: nowhere
	Registry *prometheus.Registry           // nil: one of its own
	Version  string                         // shown to control planes and on the admin port
	Replica  string                         // which of several relays it is, to control planes; "": the host's name
	Level    *slog.LevelVar                 // of Log, for Reload to set; nil: log.level needs a restart
	Audit    io.Writer                      // of audit.to: stderr; nil: os.Stderr. It never blocks
	LogLost  func() uint64                  // how many lines Log has lost so far; nil: it loses none
	Memory   int64                          // bytes that the process may take; 0: no limit
	Dial     upstream.Dial                  // how control planes are reached; the zero value: by the system
	Disk     files.Disk                     // where cache.dir is; nil: the machine's
	Reload   func(anyway bool) error        // reads the configuration again, and gives it to Reload or ReloadAnyway; nil: nobody can
	Read     func() (*config.Config, error) // reads the configuration, for a reload that is only foreseen; nil: nobody can
	Serving  func()                         // Run calls it once, when clients and operators are served; nil: nobody waits for that

	used func() int64 // bytes of memory; nil: [load.Used]
}

// Relay is a whole relay.
type Relay struct {
	// immutable after New
	log     *slog.Logger
	lines   *logs.Limit    // of log
	events  admin.Events   // what operators did
	audit   *slog.Logger   // not limited: what operators did, reloads too
	level   *slog.LevelVar // nil: the level stays
	trail   *audit.Log     // nil: there is no audit
	version string
	dial    upstream.Dial
	metrics *metrics.Metrics
	gather  prometheus.Gatherer
	panics  *logs.Panics
	cache   *cache.Cache
	secrets *payload.Secrets // what is never shown or stored
	hub     *hub
	router  *router
	ahead   *prefetcher

	watchdog watchdog
	repairs  repairs
	orders   orders // of operators
	outages  outageWatch
	health   health
	memory   memory

	admission *load.Admission

	fullState map[string]bool // types whose lists are always complete, in all stores and on both sides

	peers peerPort // at which other relays ask

	server  *downstream.Server
	reports *loadreport.Server // of the same
	passage passage            // likewise

	checking chan struct{} // has the one check of the cache that goes on
	ports    ports         // by which clients come
	ages     ages          // of their connections
	perConn  int           // streams of one connection
	// connections bounds them, of all ports.
	connections *connections.Limit
	refusals    *refusals.Log
	admin       adminAccess
	// workloads are the SPIFFE Workload APIs that certificates come from.
	workloads *credentials.Workloads

	stop   context.CancelFunc
	ready  func()                         // Options.Serving
	reread func(bool) error               // Options.Reload
	read   func() (*config.Config, error) // Options.Read

	probes net.Listener // for probes alone, before Run; nil: they come to the admin port

	started  time.Time
	serving  atomic.Bool
	draining atomic.Bool

	now    atomic.Pointer[inForce]
	failed atomic.Pointer[failure] // of the reload that was tried last; nil: it did not fail

	reloading  sync.Mutex      // held over Reload; guards what follows
	background context.Context // of what Run does beside serving; nil before Run
	ended      bool            // Run is about to return
}

// New builds a relay from a valid configuration. It listens to nothing and
// connects to nothing yet; Run must be called, which also releases what New
// took. The error names what of the configuration cannot be used, a TLS file for
// instance.
func New(cfg *config.Config, opts Options) (*Relay, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Registry == nil {
		opts.Registry = prometheus.NewRegistry()
	}
	collectors, err := metrics.New(opts.Registry, nil, metricsOptions(opts)...)
	if err != nil {
		return nil, err
	}
	lines := logs.NewLimit(opts.Log.Handler(), cfg.Log.PerMinute, collectors.LogLineLeftOut)
	r := &Relay{
		log: slog.New(lines.Handler()), lines: lines, audit: slog.New(lines.Unlimited()), level: opts.Level,
		version: opts.Version, dial: opts.Dial, metrics: collectors, gather: opts.Registry, ready: opts.Serving, reread: opts.Reload, read: opts.Read,
		checking: make(chan struct{}, 1), secrets: new(payload.Secrets),
	}
	r.secrets.Set(cfg.SecretTypeURLs())
	r.orders.secrets = r.secrets
	if r.trail, err = openAudit(cfg, opts.Audit, collectors.Access()); err != nil {
		r.lines.Close()
		return nil, err
	}
	r.refusals, r.panics = refusals.New(r.log, collectors.Refusals()), logs.NewPanics(r.log, collectors.Panics())
	if r.trail != nil {
		r.refusals.Audit(r.refused)
	}
	r.workloads = credentials.NewWorkloads(r.log, collectors.Workloads(), r.panics)
	r.repairs, r.outages, r.health.relay = repairs{r, newSuspects()}, outageWatch{r}, r
	observer := &losses{Observer: r.metrics.Cache(), log: r.log}
	r.cache = cache.New(cacheLimits(cfg.Cache), newForeigners(observer, r.log))
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.hub = &hub{
		ctx: ctx, cache: r.cache, loads: loadreport.NewScopes(ctx), planes: make(map[string]*plane),
		linger: cfg.Aggregation.Linger.Std(), log: r.log, sessions: make(map[sessionKey]*session),
		panics: r.panics, secrets: r.secrets, suspect: r.repairs.suspects.add, condemn: r.repairs.suspects.condemn,
	}
	r.hub.loads.Panics = r.panics
	r.memory = memory{Memory: load.NewMemory(opts.Memory, opts.used), relay: r}
	r.admission = load.NewAdmission(r.memory.Memory, r.metrics.Admission())
	r.hub.admission = r.admission
	r.router = &router{
		hub: r.hub, replica: cmp.Or(opts.Replica, thisReplica()), decided: newDecisions(r.metrics.Aggregation(), r.log),
		unverified: unverified{r.metrics.Access(), r.refusals}, lastScopes: newLastScopes(), trail: r.trail,
	}
	r.fullState = keyer.TypeSet(cfg.FullStateTypeURLs())
	r.hub.own = newResolved(r.router, cfg.Resolve, r.fullState, r.metrics.Resolve(), r.panics, r.log)
	r.ahead = newPrefetcher(r.cache, r.router, r.metrics.References(), r.log, cfg.Resolve.Prefetch)
	if r.hub.snapshots, err = r.openSnapshots(opts.Disk, cfg.Cache.Dir); err != nil {
		r.release()
		return nil, err
	}
	r.hub.snapshots.restoreOrders(&r.orders)
	r.hub.orders = &r.orders
	r.hub.snapshots.configure(cfg.Cache.SnapshotEvery.Std(), int64(cfg.Cache.MaxBytes))
	if err := r.openAdmin(cfg); err != nil {
		r.release()
		return nil, err
	}
	if err := r.openPeers(cfg); err != nil {
		r.release()
		return nil, fmt.Errorf("peers: %w", err)
	}
	if err := r.build(cfg); err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

// build makes what may fail of a relay.
func (r *Relay) build(cfg *config.Config) error {
	first, err := r.overhaul(cfg)
	if err != nil {
		return err
	}
	if _, err := r.hub.carryOut(first); err != nil {
		return err
	}
	force, err := newInForce(cfg, nil)
	if err != nil {
		return err
	}
	r.now.Store(force)
	r.metrics.Reloads().Started(force.hash, force.since)
	return r.listener(cfg)
}

func cacheLimits(c config.Cache) cache.Limits {
	return cache.Limits{MaxResources: int64(c.MaxResources), MaxBytes: int64(c.MaxBytes), Idle: c.Idle.Std(), Generations: c.Generations}
}

func metricsOptions(opts Options) []metrics.Option {
	var all []metrics.Option
	if opts.Version != "" {
		all = append(all, metrics.WithVersion(opts.Version))
	}
	if opts.LogLost != nil {
		all = append(all, metrics.WithLog(opts.LogLost))
	}
	return all
}

// limitsOf are the limits of the streams and polls of clients. memory is that of the process; 0: no limit.
func limitsOf(cfg *config.Config, memory int64) downstream.Limits {
	s, l := &cfg.Server, &cfg.Limits
	return downstream.Limits{
		MaxMessageSize: int(s.MaxMessageSize),
		AckWait:        s.AckWait.Std(),
		RemovalWait:    s.RemovalWait.Std(),
		WarmWait:       s.WarmWait.Std(),
		ListHold:       s.ListHold.Std(),
		RESTWait:       s.RESTWait.Std(),

		PerClient: downstream.ClientLimits{
			Streams: l.Streams, Share: l.Share.Part(), UnfinishedBytes: int(l.UnfinishedBytes),
			Subscriptions: l.Subscriptions, NamesBytes: int(l.NamesBytes), NamesTotal: max(0, int(l.NamesTotal)), NamesWhileShort: namesWhileShort(l.NamesTotal, memory), NameBytes: int(l.NameBytes), NodeBytes: int(l.NodeBytes),
			PollsPerClient: l.PollsPerClient, RESTBytes: int(l.RESTBytes), UnknownTypes: l.UnknownTypes,
			FirstRequest: l.FirstRequest.Std(), RequestsPerSecond: l.RequestsPerSecond,
		},
	}
}

// namesWhileShort is what the names of all clients may weigh while memory is short; 0: no more than at other times. How much
// memory a name takes depends on how many clients share it. So as long as there is memory nothing is refused.
func namesWhileShort(limit config.Memory, memory int64) int {
	if limit == config.AutoMemory {
		return int(memory / 2)
	}
	return 0
}

// listener builds the server towards the clients.
func (r *Relay) listener(cfg *config.Config) error {
	s := cfg.Server
	r.perConn = cfg.Limits.StreamsPerConnection
	r.admission.SetOff(cfg.Limits.Admission == config.AdmissionOff)
	r.admission.SetWait(cfg.Limits.JoinWait.Std())
	r.ages = newAges(s.MaxConnectionAge.Std())
	r.metrics.LimitResponses(int(s.MaxMessageSize))
	c := downstream.Config{
		Limits:         limitsOf(cfg, r.memory.Limit()),
		MaxReceiveSize: int(s.MaxReceiveSize),
		FullState:      r.fullState,
		Identifier:     identifierOf(cfg.Node),
		GRPC: []grpc.ServerOption{
			grpc.KeepaliveParams(r.ages.keepalive(s.Keepalive)), grpc.UnknownServiceHandler(r.unknown),
			grpc.MaxConcurrentStreams(uint32(min(cfg.Limits.StreamsPerConnection, math.MaxInt32))),
		},
		DebugServices: s.DebugServices,
		Credentials:   identity.Credentials(),
		Router:        r.router,
		Observer:      &r.health.unserved,
		Log:           r.log,
	}
	r.health.unserved.Observer = r.metrics.Downstream()
	r.boundConnections(&cfg.Limits)
	var err error
	if r.ports, err = r.openPorts(s); err != nil {
		return err
	}
	r.server = downstream.NewServer(c)
	r.server.Identify(r.ports)
	r.server.Admit(admission{r.admission, r.metrics.Downstream()})
	r.reports = loadreport.NewServer(r.router, r.reporterNode, downstream.EndStream, r.panics)
	r.passage = newPassage(r.router, r.panics, r.log)
	r.server.PassBy(r.passage)
	r.server.Contain(r.panics, r.repairs.suspects.add)
	r.server.Identified(r.ports[0].tokens.identified) // the same for all ports
	r.server.Beside(r.reports.Register)
	r.server.SetServing(false) // before anything is cached, or an upstream is reached (ABS-2)
	return nil
}

// identifierOf is what a relay calls itself towards its clients (STR-10).
func identifierOf(n config.Node) string { return wire.RelayIdentifier + n.ID }

// serverTLS begins to use the TLS files of a listener, or its Workload API.
func (r *Relay) serverTLS(l config.Listener, refresh config.Duration) (*credentials.TLSServer, error) {
	return credentials.NewTLSServer(credentials.TLSServerConfig{
		CertFile: l.TLS.CertFile, KeyFile: l.TLS.KeyFile, ClientCAFile: l.TLS.ClientCAFile, ClientCRLFile: l.TLS.ClientCRLFile, SPIFFE: r.clientsOf(l.TLS.SPIFFE),
		Refresh: refresh.Std(), Panics: r.panics,
		Report: func(err error) {
			if err != nil {
				r.log.Error("the server's TLS files are not usable, the old ones stay in use", "listener", l.Name, "error", err)
			} else {
				r.log.Info("the relay read the server's TLS files again", "listener", l.Name)
			}
		},
	})
}

// release gives back what New took.
func (r *Relay) release() {
	r.reloading.Lock() // no reload begins after it
	r.ended = true
	r.reloading.Unlock()
	r.hub.snapshots.end(r.hub.list())
	r.stop()
	r.hub.close()
	r.hub.snapshots.close()
	r.hub.closePlanes()
	r.hub.help.close()
	r.peers.close()
	r.ports.close()
	r.admin.close()
	r.trail.Close()
	r.lines.Close()
}

// about describes the relay in the log when it begins to serve.
func (r *Relay) about(admin string) []any {
	cfg := r.now.Load().config
	var upstreams []string
	for i := range cfg.Upstreams {
		upstreams = append(upstreams, cfg.Upstreams[i].Name)
	}
	addresses := []any{"admin", admin}
	if r.probes != nil {
		addresses = append(addresses, "probes", r.probes.Addr().String())
	}
	if r.peers.lis != nil {
		addresses = append(addresses, "peers", r.peers.lis.Addr().String())
	}
	return append(addresses, "version", r.version, "config", cfg.File(), "tls", cfg.Server.TLS != nil, "upstreams", strings.Join(upstreams, ","))
}

// Run serves clients on xds and operators on admin until ctx ends; then it drains
// (OPS-4): new streams are refused, those that are open are closed one by one
// over the configured time, and Run returns when all are gone. force cuts that
// short. Run closes the listeners. Its error is what made it end too early. It
// can be called once.
func (r *Relay) Run(ctx context.Context, force <-chan struct{}, xds, admin net.Listener) error {
	defer r.release()
	r.started = time.Now()
	if err := r.metrics.Collect(source{r}); err != nil {
		return err
	}
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()

	r.loops(background, &wg)
	r.reloading.Lock()
	r.background = background
	for _, p := range r.hub.present() {
		r.seek(p)
	}
	r.reloading.Unlock()
	r.ports[0].grpc = xds
	clients, err := r.serveClients(&wg)
	if err != nil {
		return err
	}
	defer clients.close()
	pages := adminPort{relay: r}
	web := func(port string, lis net.Listener, s *http.Server) *http.Server {
		wg.Go(func() {
			if err := s.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
				clients.failed <- fmt.Errorf("%s port: %w", port, err)
			}
		})
		return s
	}
	shut := func(s *http.Server) { _ = s.Close() } // its listener's error is of no use any more
	ofAdmin := func(handler http.Handler) *http.Server {
		s := newAdminServer("admin", handler, r.log)
		s.ErrorLog = slog.NewLogLogger(r.refusals.AdminHTTPLog(), slog.LevelDebug)
		return s
	}
	operators := web("admin", r.admin.secure(admin), ofAdmin(pages.door(pages.admitted(pages.containing(pages.handler())))))
	defer shut(operators)
	if r.probes != nil {
		open := adminPort{r, true}
		probes := web("admin", r.probes, ofAdmin(open.containing(open.probes())))
		defer shut(probes)
	}
	if r.peers.lis != nil {
		others := web("peers", r.securedPeers(), r.peersServer(pages.containing(r.peers.pages)))
		defer shut(others)
	}
	r.serving.Store(true)
	if r.ready != nil {
		r.ready()
	}
	r.log.Info("serving", append(r.ports.addresses(), r.about(admin.Addr().String())...)...)

	select {
	case err := <-clients.failed:
		r.admission.Close()
		clients.close() // before Stop, which waits for clients that do not read
		r.server.Stop()
		return err
	case <-ctx.Done():
	}
	r.drain(force, clients)
	return nil
}

// loops begins what the relay does beside serving, until ctx ends.
func (r *Relay) loops(ctx context.Context, wg *sync.WaitGroup) {
	loop := func(part logs.Part, run func(context.Context)) {
		wg.Go(func() { r.panics.Loop(ctx, part, func() { run(ctx) }) })
	}
	loop(logs.PartBackground, r.cache.Run)
	loop(logs.PartPrefetcher, func(ctx context.Context) {
		r.ahead.forgetAll(r.panics) // after a panic it may be wrong
		r.ahead.run(ctx)
	})
	loop(logs.PartBackground, r.outages.run)
	loop(logs.PartBackground, r.runHelp)
	loop(logs.PartStore, r.repairs.run)
	loop(logs.PartBackground, func(ctx context.Context) { r.hub.snapshots.run(ctx, r.hub.list) })
	wg.Go(func() { r.watch(ctx) })
	loop(logs.PartBackground, r.memory.run)
	loop(logs.PartBackground, new(load.Ebb).Run)
	loop(logs.PartBackground, r.retire)
	loop(logs.PartBackground, r.ports[0].tokens.run) // those of all ports
	for _, p := range r.ports {
		if p.secure != nil {
			loop(logs.PartBackground, p.secure.watch.Run)
		}
	}
}

// seek has a plane reached, if the relay runs. The caller holds reloading.
func (r *Relay) seek(p *plane) {
	if ctx := r.background; ctx != nil {
		r.hub.running.Go(func() { r.panics.Loop(ctx, logs.PartBackground, func() { r.health.reach(ctx, p) }) })
	}
}

// drain ends the clients' streams and polls.
func (r *Relay) drain(force <-chan struct{}, clients *serving) {
	r.reloading.Lock() // a reload that has begun is carried out
	r.draining.Store(true)
	r.reloading.Unlock()
	spread := r.now.Load().config.Server.Drain.Std()
	r.log.Info("draining", "over", spread)
	ctx, cancel := context.WithTimeout(context.Background(), spread+drainGrace)
	defer cancel()
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		select {
		case <-force:
			cancel()
		case <-done:
		}
	})
	r.admission.Close() // nobody waits to be told to go
	clients.drain(ctx, &wg)
	r.reports.Drain(spread)
	r.passage.Drain(spread)
	r.server.Drain(ctx, spread)
	r.lastReports(ctx)
	close(done)
	wg.Wait()
}

// lastReports waits for the load reports of the clients that were there (LRS-1).
func (r *Relay) lastReports(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reportGrace)
	defer cancel()
	r.hub.loads.Wait(ctx)
}

// drainGrace is how long connections may take to close after the last stream was
// told to go.
const drainGrace = 5 * time.Second
