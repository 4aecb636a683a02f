package relay_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/relay"
)

func oneUpstream() *config.Config {
	cfg := config.Default()
	u := config.DefaultUpstream()
	u.Name, u.Default, u.Endpoints = "primary", true, [][]string{{"127.0.0.1:1"}}
	cfg.Upstreams = []config.Upstream{u}
	return cfg
}

// New names what of a valid configuration cannot be used.
func TestNewRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for _, tt := range []struct {
		name   string
		change func(*config.Config)
		want   string
	}{
		{"server files", func(c *config.Config) {
			c.Server.TLS = &config.ServerTLS{CertFile: missing, KeyFile: missing}
		}, "missing.pem"},
		{"upstream files", func(c *config.Config) {
			c.Upstreams[0].TLS = &config.UpstreamTLS{CAFile: missing}
		}, `upstream "primary"`},
		{"a path of no form", func(c *config.Config) {
			c.Upstreams[0].Endpoints, c.Upstreams[0].Path = nil, "relay_test.go"
		}, "relay_test.go"},
		{"files of a server that is polled", func(c *config.Config) {
			c.Upstreams[0].APIType, c.Upstreams[0].TLS = config.REST, &config.UpstreamTLS{CAFile: missing}
		}, `upstream "primary"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := oneUpstream()
			tt.change(cfg)
			r, err := relay.New(cfg, relay.Options{})
			if r != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New gave %v and %v, want an error with %q", r, err, tt.want)
			}
		})
	}
}

// A listener that breaks ends Run with its error.
func TestRunEndsWithItsListener(t *testing.T) {
	for _, broken := range []string{"xDS port", "admin port", "REST port"} {
		t.Run(broken, func(t *testing.T) {
			r, err := relay.New(oneUpstream(), relay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ports := map[string]net.Listener{}
			for _, port := range []string{"xDS port", "admin port", "REST port"} {
				if ports[port], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
					t.Fatal(err)
				}
			}
			if err := ports[broken].Close(); err != nil {
				t.Fatal(err)
			}
			r.ServeREST(ports["REST port"])
			err = r.Run(t.Context(), nil, ports["xDS port"], ports["admin port"])
			if err == nil || !strings.Contains(err.Error(), broken) {
				t.Errorf("Run ended with %v, want what broke the %s", err, broken)
			}
		})
	}
}

// A relay takes a valid configuration and two listeners, and runs until it is told
// to end.
func ExampleRelay_Run() {
	cfg, err := config.Parse("relay.yaml", []byte(`
server: {drain: 1s}
upstreams:
  - name: primary
    default: true
    endpoints: [127.0.0.1:5678]
`))
	if err != nil {
		panic(err)
	}
	r, err := relay.New(cfg, relay.Options{})
	if err != nil {
		panic(err)
	}
	xds, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // as a signal does, later
	fmt.Println(r.Run(ctx, nil, xds, admin))
	// Output: <nil>
}

// AGG-2: the series of rules come and go with the configuration.
func TestReloadRules_AGG2(t *testing.T) {
	ruled := func(names ...string) *config.Config {
		cfg := oneUpstream()
		for _, name := range names {
			cfg.Aggregation.Rules = append(cfg.Aggregation.Rules, config.Rule{Name: name, Match: "node.id == " + strconv.Quote(name), Scope: []string{}})
		}
		return cfg
	}
	registry := prometheus.NewRegistry()
	r, err := relay.New(ruled("a", "b"), relay.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	defer func() {
		xds, admin := listen(t), listen(t)
		if err := r.Run(ctx, nil, xds, admin); err != nil { // gives back what New took
			t.Error(err)
		}
	}()
	const decisions, failures = "xdsrelay_aggregation_decisions_total", "xdsrelay_aggregation_rule_failures_total"
	expect := func(want int) {
		t.Helper()
		if n, err := testutil.GatherAndCount(registry, decisions, failures); err != nil || n != 2*want {
			t.Errorf("AGG-2: %d series, %v, want those of %d rules", n, err, want)
		}
	}
	expect(3) // with "otherwise"
	if err := r.Reload(ruled("b", "c", "d")); err != nil {
		t.Fatal(err)
	}
	expect(4)
	if err := r.Reload(ruled()); err != nil {
		t.Fatal(err)
	}
	expect(1)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return lis
}
