package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/tlsfiles"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/metrics"
	"google.golang.org/grpc/keepalive"
)

// Options are what a relay is given beside its configuration.
type Options struct {
	Log      *slog.Logger         // nil: nowhere
	Registry *prometheus.Registry // nil: one of its own
	Version  string               // shown to control planes and on the admin port
}

// Relay is a whole relay.
type Relay struct {
	// immutable after New
	config  *config.Config
	log     *slog.Logger
	version string
	metrics *metrics.Metrics
	gather  prometheus.Gatherer
	cache   *cache.Cache
	hub     *hub
	ahead   *prefetcher
	router  *router
	server  *downstream.Server
	tls     *tlsfiles.Server // nil: plain text
	rest    net.Listener     // nil: nobody polls
	stop    context.CancelFunc

	started  time.Time
	serving  atomic.Bool
	draining atomic.Bool

	mu      sync.Mutex
	reached map[string]bool // by upstream, guarded by mu
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
	names := make([]string, 0, len(cfg.Upstreams))
	for _, u := range cfg.Upstreams {
		names = append(names, u.Name)
	}
	collectors, err := metrics.New(opts.Registry, names, metricsOptions(opts)...)
	if err != nil {
		return nil, err
	}
	r := &Relay{
		config: cfg, log: opts.Log, version: opts.Version,
		metrics: collectors, gather: opts.Registry, reached: make(map[string]bool),
	}
	r.cache = cache.New(cache.Limits{
		MaxResources: int64(cfg.Cache.MaxResources),
		MaxBytes:     int64(cfg.Cache.MaxBytes),
		Idle:         cfg.Cache.Idle.Std(),
	}, &ambiguities{Observer: r.metrics.Cache(), log: r.log})
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.hub = &hub{
		ctx: ctx, cache: r.cache, planes: make(map[string]*plane),
		linger: cfg.Aggregation.Linger.Std(), log: r.log, sessions: make(map[sessionKey]*session),
	}
	fullState := keyer.TypeSet(cfg.FullStateTypeURLs())
	rt, err := r.planes(fullState)
	if err == nil {
		r.router = rt
		r.ahead = newPrefetcher(r.cache, rt, r.metrics.References(), r.log, cfg.Resolve.Prefetch, cfg.Resolve.MaxRedirects)
		err = r.listener(rt, fullState)
	}
	if err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

func metricsOptions(opts Options) []metrics.Option {
	if opts.Version == "" {
		return nil
	}
	return []metrics.Option{metrics.WithVersion(opts.Version)}
}

// planes builds the upstreams, and the router to them.
func (r *Relay) planes(fullState map[string]bool) (*router, error) {
	now, err := newPlan(r.config)
	if err != nil {
		return nil, err
	}
	rt := &router{hub: r.hub, decided: newDecisions(r.metrics.Aggregation(), r.log)}
	rt.adopt(now)
	for _, u := range r.config.Upstreams {
		p, err := newPlane(u, fullState, r.metrics.Upstream(u.Name), r.log)
		if err != nil {
			return nil, err
		}
		r.hub.planes[u.Name] = p
	}
	r.hub.own = newResolved(rt, r.config.Resolve, fullState, r.metrics.Resolve(), r.log)
	return rt, nil
}

func keepaliveOf(k config.Keepalive) keepalive.ServerParameters {
	return keepalive.ServerParameters{Time: orNever(k.Time), Timeout: k.Timeout.Std()}
}

// limitsOf are the limits of the streams and polls of clients.
func limitsOf(s config.Server) downstream.Limits {
	return downstream.Limits{
		MaxMessageSize:   int(s.MaxMessageSize),
		MaxSubscriptions: s.MaxSubscriptions,
		AckTimeout:       s.AckTimeout.Std(),
		RESTWait:         s.RESTWait.Std(),
	}
}

// listener builds the server towards the clients.
func (r *Relay) listener(rt *router, fullState map[string]bool) error {
	s := r.config.Server
	c := downstream.Config{
		Limits:         limitsOf(s),
		MaxReceiveSize: int(s.MaxReceiveSize),
		FullState:      fullState,
		Keepalive:      keepaliveOf(s.Keepalive),
		DebugServices:  s.DebugServices,
		Router:         rt,
		Observer:       r.metrics.Downstream(),
		Log:            r.log,
	}
	if s.TLS != nil {
		var err error
		r.tls, err = tlsfiles.NewServer(tlsfiles.ServerConfig{
			CertFile: s.TLS.CertFile, KeyFile: s.TLS.KeyFile, ClientCAFile: s.TLS.ClientCAFile,
			Refresh: s.TLSRefresh.Std(),
			Report: func(err error) {
				if err != nil {
					r.log.Error("the server's TLS files cannot be used, those from before stay", "error", err)
				} else {
					r.log.Info("the server's TLS files were read again")
				}
			},
		})
		if err != nil {
			return err
		}
		c.Credentials = r.tls.Credentials()
	}
	r.server = downstream.NewServer(c)
	return nil
}

// release gives back what New took.
func (r *Relay) release() {
	r.stop()
	r.hub.close()
	for _, p := range r.hub.planes {
		p.upstream.Close()
	}
	if r.tls != nil {
		r.tls.Close()
	}
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

	wg.Go(func() { r.cache.Run(background) })
	wg.Go(func() { r.ahead.run(background) })
	for _, p := range r.hub.planes {
		wg.Go(func() { r.reach(background, p) })
	}
	failed := make(chan error, 3)
	web := &http.Server{Handler: r.adminHandler(), ReadHeaderTimeout: 10 * time.Second}
	wg.Go(func() {
		if err := web.Serve(admin); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("admin port: %w", err)
		}
	})
	defer func() { _ = web.Close() }() // its listener's error is of no use any more
	wg.Go(func() {
		if err := r.server.Serve(xds); err != nil {
			failed <- fmt.Errorf("xDS port: %w", err)
		}
	})
	polls := r.restServer()
	defer func() { _ = polls.Close() }()
	if r.rest != nil {
		wg.Go(func() {
			if err := r.serveREST(polls); err != nil {
				failed <- err
			}
		})
	}
	r.serving.Store(true)
	addresses := []any{"xds", xds.Addr().String(), "admin", admin.Addr().String()}
	if r.rest != nil {
		addresses = append(addresses, "rest", r.rest.Addr().String())
	}
	r.log.Info("serving", addresses...)

	select {
	case err := <-failed:
		_ = polls.Close() // before Stop, which waits for those who do not read
		r.server.Stop()
		return err
	case <-ctx.Done():
	}
	r.drain(force, polls)
	return nil
}

// drain ends the clients' streams and polls.
func (r *Relay) drain(force <-chan struct{}, polls *http.Server) {
	r.draining.Store(true)
	spread := r.config.Server.Drain.Std()
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
	drainREST(ctx, &wg, polls)
	r.server.Drain(ctx, spread)
	close(done)
	wg.Wait()
}

// drainGrace is how long connections may take to close after the last stream was
// told to go.
const drainGrace = 5 * time.Second
