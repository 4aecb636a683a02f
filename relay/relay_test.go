package relay_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/relay"
)

func oneUpstream() *config.Config {
	cfg := config.Default()
	u := config.DefaultUpstream()
	u.Name, u.Default, u.Endpoints = "primary", true, []string{"127.0.0.1:1"}
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
