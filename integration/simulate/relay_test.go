package simulate

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/relay"
	"github.com/xdsrelay/xdsrelay/upstream"
)

type netConn = net.Conn

// The ports of a host.
const (
	xdsPort, restPort, adminPort = "80", "81", "82"
)

func planeHost(i int) string { return fmt.Sprint("10.1.0.", i+1) }
func relayHost(i int) string { return fmt.Sprint("10.2.0.", i+1) }

// relayProcess is a relay on its host, from one start to the next.
type relayProcess struct {
	sim     *simulation
	tier    int
	host    string
	storage *storage

	mu       sync.Mutex
	settings int // which configuration (see config)
	relay    *relay.Relay
	cancel   context.CancelFunc // nil: it does not run
	force    chan struct{}
	done     chan struct{}
	started  int
	since    time.Time // when it was started last

	operated operated // guarded by the simulation's mu

	streams atomic.Int64 // when its streams to control planes last began or broke, in nanoseconds
}

// streamLog sees from a relay's log when its streams to control planes begin and break: they may do so
// on a connection that stands.
type streamLog struct {
	slog.Handler
	changed func()
}

// Handle implements slog.Handler.
func (l streamLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "connected" || r.Message == "stream lost" {
		l.changed()
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l streamLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return streamLog{l.Handler.WithAttrs(attrs), l.changed}
}

// WithGroup implements slog.Handler.
func (l streamLog) WithGroup(name string) slog.Handler {
	return streamLog{l.Handler.WithGroup(name), l.changed}
}

func (p *relayProcess) streamsChanged() { p.streams.Store(time.Now().UnixNano()) }

func (p *relayProcess) streamsSince() time.Time { return time.Unix(0, p.streams.Load()) }

// config is the configuration of a relay. settings are what reloads change.
func (p *relayProcess) config(settings int) *config.Config {
	c := config.Default()
	c.Aggregation.Otherwise = config.Share
	c.Access.Rules = []config.AccessRule{{Name: "secrets", Match: "type == sds", Effect: config.Allow, Secrets: true}}
	if p.sim.choices.scoped {
		c.Aggregation.Rules = []config.Rule{{Name: "by-cluster", Match: "true", Scope: []string{"node.cluster"}}}
	}
	if p.sim.choices.disk {
		c.Cache.Dir, c.Cache.SnapshotEvery = cacheDir, config.Duration(5*time.Second)
	}
	c.Server.Drain = config.Duration(2 * time.Second)
	u := config.DefaultUpstream()
	u.Name, u.Default = "up", true
	port := xdsPort
	apiType := p.sim.choices.first
	if p.tier == 1 {
		apiType = p.sim.choices.second
	}
	u.APIType = config.APIType(apiType)
	if u.APIType == config.REST {
		port = restPort
	}
	at := func(host string) string { return net.JoinHostPort(host, port) }
	switch one, two := at(planeHost(0)), at(planeHost(1)); {
	case p.tier == 1:
		u.Endpoints = [][]string{{at(relayHost(0))}}
	case settings%3 == 0:
		u.Endpoints = [][]string{{one}, {two}}
	case settings%3 == 1:
		u.Endpoints = [][]string{{two}, {one}}
	default:
		u.Endpoints = [][]string{{one, two}}
	}
	if settings/3%2 == 1 {
		c.Cache.MaxResources = 4 // evict all the time
	}
	if settings/6%2 == 1 {
		u.MaxRequestSize = 64 * config.KiB
		c.Server.AckWait = config.Duration(time.Second)
	}
	p.sim.guardOf(&u.Guard)
	c.Upstreams = []config.Upstream{u}
	p.sim.fleet.configure(c, p.tier)
	if err := c.Validate(); err != nil {
		panic(err) // it is ours
	}
	return c
}

// start runs the relay, unless it runs.
func (p *relayProcess) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel != nil {
		return
	}
	p.started++
	p.since = time.Now()
	p.sim.restarting(p)
	if p.tier == 0 {
		p.sim.unguarded()
	}
	n := p.sim.network
	r, err := relay.New(p.config(p.settings), relay.Options{
		Registry: prometheus.NewRegistry(), Replica: p.host, Log: slog.New(streamLog{slog.NewTextHandler(p.sim.logOf(p.host), nil), p.streamsChanged}),
		Dial: upstream.Dial{Connect: n.dialer(p.host)}, Disk: p.storage,
	})
	if err != nil {
		p.sim.fail("relay %s does not start: %v", p.host, err)
		return
	}
	xds, admin := n.listen(p.host, xdsPort), n.listen(p.host, adminPort)
	r.ServeREST(n.listen(p.host, restPort))
	if p.sim.fleet != nil && p.tier == 0 {
		r.ServePeers(n.listen(p.host, peersPort))
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.relay, p.cancel, p.force, p.done = r, cancel, make(chan struct{}), make(chan struct{})
	force, done := p.force, p.done
	go func() {
		defer close(done)
		if err := r.Run(ctx, force, xds, admin); err != nil && p.runs() {
			p.sim.fail("relay %s ended: %v", p.host, err)
		}
	}()
}

// begun is when the relay was started last.
func (p *relayProcess) begun() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since
}

func (p *relayProcess) runs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cancel != nil
}

// end has the relay drain, and waits for it.
func (p *relayProcess) end() {
	p.mu.Lock()
	cancel, done := p.cancel, p.done
	p.cancel, p.relay = nil, nil
	p.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
}

// crash ends the relay at once: of its connections and its disk remains what a crash
// leaves. What the process does after that reaches nobody.
func (p *relayProcess) crash() {
	p.mu.Lock()
	cancel, done, force := p.cancel, p.done, p.force
	p.cancel, p.relay = nil, nil // first: the relay may end because its sockets are closed
	p.mu.Unlock()
	p.sim.network.crash(p.host)
	p.storage.crash()
	if cancel != nil {
		cancel()
		close(force)
		<-done
	}
}

// A relay that crashes may find its sockets closed before it ends: that is no fault. One that ends while it should run is.
func TestCrash(t *testing.T) {
	for _, crashes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			const diskless = 9
			s := newSimulation(t, diskless, false)
			p := &relayProcess{sim: s, tier: 1, host: relayHost(1), storage: newStorage(0)}
			p.start()
			ended := p.done
			if crashes {
				p.storage.mu.Lock() // the crash waits here, and its sockets are closed
				var crash sync.WaitGroup
				crash.Go(p.crash)
				<-ended
				p.storage.mu.Unlock()
				crash.Wait()
			} else {
				s.network.crash(p.host)
				<-ended
				p.end()
			}
			if s.failed() == crashes {
				t.Errorf("it crashes: %t, faults: %q", crashes, s.failures)
			}
			s.network.close()
		})
	}
}

// reload puts another configuration in force.
func (p *relayProcess) reload(settings int) {
	p.mu.Lock()
	r := p.relay
	p.settings = settings
	p.mu.Unlock()
	if r == nil {
		return
	}
	if err := r.Reload(p.config(settings)); err != nil {
		p.sim.fail("relay %s: reload: %v", p.host, err)
	}
}

// get reads a page of the admin port, over a connection that nothing disturbs.
func (p *relayProcess) get(path string) (string, int) {
	transport := &http.Transport{DialContext: p.sim.network.dialer("10.4.0.1"), DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	response, err := client.Get("http://" + p.host + ":" + adminPort + path)
	if err != nil {
		return err.Error(), 0
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error(), 0
	}
	return string(body), response.StatusCode
}
