package relay

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

var gusts = flag.Int("storm.reloads", 50, "how many reloads TestReload_storm plays")

// What the control planes of the storm have: clusters with names of each kind.
const (
	stormA = "xdstp://a/envoy.config.cluster.v3.Cluster/x"
	stormB = "xdstp://b/envoy.config.cluster.v3.Cluster/x"
)

// storm is a relay whose configuration changes all the time, in all its parts, while the
// control planes change what they have and clients come and go.
type storm struct {
	*running

	planes []*gocontrolplane.ControlPlane
	file   string
	conn   *grpc.ClientConn
	random *rand.Rand
}

func newStorm(t *testing.T) *storm {
	t.Helper()
	s := &storm{file: filepath.Join(t.TempDir(), "x.yaml"), random: rand.New(rand.NewPCG(1, 2))} // the same each time
	text := fmt.Sprintf("version_info: '1'\nresources:\n- {'@type': %s, name: '%s'}\n", clusterType, stormB)
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		c := gocontrolplane.New()
		if err := c.Start(t.Context(), "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		s.planes = append(s.planes, c)
		s.update(t, i, 0)
	}
	s.running = run(t, s.calm())
	conn, err := grpc.NewClient(s.xds, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s.conn = conn
	return s
}

// update has a control plane change everything.
func (s *storm) update(t *testing.T, plane, round int) {
	t.Helper()
	said := fmt.Sprint(plane, "-", round)
	for _, name := range []string{stormA, stormB, "x", "y"} {
		if _, err := s.planes[plane].UpdateResource(name, &clusterv3.Cluster{Name: name, AltStatName: said}); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"x", "y", fmt.Sprint("only-", plane)} {
		if _, err := s.planes[plane].UpdateResource(name, &listenerv3.Listener{Name: name, StatPrefix: said}); err != nil {
			t.Error(err)
		}
	}
}

// calm is the configuration before the storm and after it.
func (s *storm) calm() *config.Config {
	cfg := configOf(claiming(upstreamAt("a", s.planes[0].Addr()), "a"), claiming(upstreamAt("b", s.planes[1].Addr()), "b"))
	cfg.Aggregation.Otherwise, cfg.Aggregation.Linger = "share", config.Duration(time.Millisecond)
	for i := range cfg.Upstreams {
		cfg.Upstreams[i].Settle = config.Duration(time.Second) // RES-14
	}
	return cfg
}

// chance is whether something that happens once in n times happens now.
func (s *storm) chance(n int) bool { return s.random.IntN(n) == 0 }

// gust is another configuration; false if it cannot be used.
func (s *storm) gust() (cfg *config.Config, usable bool) {
	cfg = s.calm()
	a, b := &cfg.Upstreams[0], &cfg.Upstreams[1]
	for _, u := range []*config.Upstream{a, b} {
		u.Endpoints = [][]string{{s.planes[s.random.IntN(3)].Addr()}}
		if s.chance(5) {
			u.Endpoints = [][]string{{"127.0.0.1:1"}}
		}
		u.APIType = []config.APIType{config.AggregatedDeltaGRPC, config.AggregatedGRPC, config.DeltaGRPC, config.GRPC}[s.random.IntN(4)]
	}
	switch s.random.IntN(5) {
	case 0:
		a.Authorities, b.Authorities = []string{"b"}, []string{"a"}
	case 1:
		a.Authorities, b.Authorities = []string{"a", "b"}, nil
		a.Default, b.Default = false, true
	case 2:
		cfg.Upstreams = cfg.Upstreams[:1]
	case 3:
		b.Endpoints, b.Path, b.APIType = nil, s.file, config.DefaultUpstream().APIType
	}
	cfg.Node.ID = fmt.Sprint("relay-", s.random.IntN(2))
	cfg.Aggregation.Linger = config.Duration(s.random.IntN(2)) * config.Duration(time.Millisecond)
	if s.chance(2) {
		cfg.Aggregation.Rules = []config.Rule{{Name: fmt.Sprint("r", s.random.IntN(3)), Match: "node.id != ''", Scope: []string{"node.id"}}}
	}
	cfg.Cache.MaxResources, cfg.Resolve.Prefetch = 10+s.random.IntN(10), s.chance(2)
	if s.chance(5) {
		bad := claiming(upstreamAt("c", "127.0.0.1:1"), "c")
		bad.TLS = &config.UpstreamTLS{CAFile: "missing.pem"}
		cfg.Upstreams = append(cfg.Upstreams, bad)
		return cfg, false
	}
	return cfg, true
}

// client begins a client, which ends when its context does.
func (s *storm) client(ctx context.Context, wg *sync.WaitGroup, node string) *xdsclient.Client {
	c := xdsclient.New(xdsclient.Options{Conn: s.conn, Node: &corev3.Node{Id: node}})
	c.Subscribe(listenerType, "*")
	c.Subscribe(clusterType, "x", "y", stormA, stormB, stormA+"#alt="+stormB)
	again := func(error, time.Duration) error { return nil }
	wg.Go(func() { _ = c.Follow(ctx, xdsclient.DefaultBackoff(), again) }) // ctx's error
	return c
}

// TestReload_storm ends with what there would be had there been none.
func TestReload_storm(t *testing.T) {
	s := newStorm(t)
	ctx, stop := context.WithCancel(t.Context())
	var clients, others sync.WaitGroup
	defer clients.Wait()
	defer stop()
	stay := make([]*xdsclient.Client, 5)
	for i := range stay {
		stay[i] = s.client(ctx, &clients, fmt.Sprint("stays-", i))
	}
	begin := s.seriesIn()
	over := make(chan struct{})
	until := func(f func(round int)) {
		others.Go(func() {
			for round := 1; ; round++ {
				select {
				case <-over:
					return
				default:
					f(round)
				}
			}
		})
	}
	until(func(round int) { s.update(t, round%3, round) })
	until(func(round int) {
		ctx, leave := context.WithCancel(ctx)
		var wg sync.WaitGroup
		c := s.client(ctx, &wg, fmt.Sprint("goes-", round%7))
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		_ = c.Wait(short, func(c *xdsclient.Client) bool { return c.Len(clusterType) > 0 }) // or it has waited long enough
		cancel()
		leave()
		wg.Wait()
	})
	until(func(int) {
		for _, page := range []string{"/metrics", "/upstreams", "/scopes", "/config", "/clients", "/readyz"} {
			s.page(page)
		}
	})
	for i := range *gusts {
		cfg, usable := s.gust()
		linger := cfg.Aggregation.Linger
		cfg.Aggregation.Linger = config.Duration(time.Second)
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		cfg.Aggregation.Linger = linger // shorter than an operator may have it
		var pair sync.WaitGroup
		if i%10 == 0 {
			pair.Go(func() { _ = s.relay.Reload(s.calm()) }) // two at once
		}
		if err := s.relay.Reload(cfg); (err == nil) != usable {
			t.Errorf("Reload: %v", err)
		}
		pair.Wait()
	}
	close(over)
	others.Wait()
	if err := s.relay.Reload(s.calm()); err != nil {
		t.Fatal(err)
	}
	s.settles(stay)
	if got := s.seriesIn(); !maps.Equal(got, begin) {
		t.Errorf("series by upstream are %v, were %v", got, begin)
	}
	s.check()
	stop()
	clients.Wait()
	http.DefaultClient.CloseIdleConnections()
}

// settles waits until all clients hold what there is, and the relay nothing else.
func (s *storm) settles(clients []*xdsclient.Client) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	listeners, clusters := s.planes[0].Versions(listenerType), s.planes[0].Versions(clusterType)
	clusters[stormA+"#alt="+stormB] = clusters[stormA]
	clusters[stormB] = s.planes[1].Versions(clusterType)[stormB]
	for i, c := range clients {
		if err := c.Wait(ctx, func(c *xdsclient.Client) bool {
			return maps.Equal(c.Versions(clusterType), clusters) && maps.Equal(c.Versions(listenerType), listeners)
		}); err != nil {
			s.Errorf("client %d holds\n%v and\n%v, want\n%v and\n%v", i, c.Versions(listenerType), c.Versions(clusterType), listeners, clusters)
		}
	}
	var sessions []string
	for ok := false; !ok && ctx.Err() == nil; {
		sessions = sessions[:0]
		for _, x := range s.relay.hub.all() {
			sessions = append(sessions, fmt.Sprintf("%s %q %d", x.key.plane, x.key.scope, s.relay.hub.users(x)))
		}
		ok = len(sessions) == 4 && !strings.Contains(s.page("/upstreams"), "retired")
	}
	if len(sessions) != 4 {
		s.Errorf("there are sessions %q", sessions)
	}
}

// seriesIn is how many series there are of each upstream.
func (s *storm) seriesIn() map[string]int {
	s.Helper()
	all := make(map[string]int)
	for line := range strings.Lines(s.page("/metrics")) {
		_, rest, found := strings.Cut(line, `upstream="`)
		if name, _, _ := strings.Cut(rest, `"`); found {
			all[name]++
		}
	}
	if slices.Contains(slices.Collect(maps.Values(all)), 0) {
		s.Error("an upstream without series")
	}
	return all
}
