package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/google/go-cmp/cmp"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/internal/files"
)

// TestBootstrap_ABS2 compares bootstraps with expected ones, which Envoy's API and gRPC take. Tests of the whole
// start Envoys and gRPC clients with such ones.
func TestBootstrap_ABS2(t *testing.T) {
	const both = "upstreams: [{name: p, default: true, endpoints: [[cp-1:5678, cp-2:5678], 192.0.2.1:5678]"
	plain := write(t, "plain.yaml", both+"}]\n")
	tls := write(t, "tls.yaml", "server: {listen: ':18100', tls: {cert_file: s.pem, key_file: s.key, client_ca_file: c.pem}}\n"+
		both+", api_type: AGGREGATED_GRPC, tls: {ca_file: cp-ca.pem, server_name: cp}}]\n")
	perType := write(t, "pertype.yaml", "upstreams: [{name: p, default: true, api_type: DELTA_GRPC, endpoints: ['127.0.0.1:1']}]\n")
	path := write(t, "files.yaml", "upstreams: [{name: p, default: true, path: /etc/xds}]\n")
	certs := []string{"--ca-file", "ca.pem", "--cert-file", "c.pem", "--key-file", "c.key", "--relay", "relay-1:18100", "--relay", "192.0.2.7:18100"}
	for _, tt := range []struct {
		name, config string
		args         []string
		note         string
	}{
		{"plain", plain, nil, ""},
		{"tls", tls, certs, ""},
		{"one stream per type", perType, []string{"--relay", "unix:///run/xds.sock", "--return", "1m"}, ""},
		{"files", path, nil, "note: the upstream p is files, which clients cannot ask: they depend on the relays\n"},
		{"relays only", plain, []string{"--relays-only"}, ""},
	} {
		for kind, ending := range map[string]string{"envoy": ".yaml", "grpc": ".json"} {
			t.Run(tt.name+"/"+kind, func(t *testing.T) {
				got := xdsrelay(t, append([]string{"bootstrap", kind, "--config", tt.config, "--node-id", "edge-1"}, tt.args...)...)
				if got.code != 0 || got.stderr != tt.note {
					t.Fatalf("%+v", got)
				}
				golden := filepath.Join("testdata", "bootstrap", tt.name+ending)
				if *update {
					if err := os.WriteFile(golden, []byte(got.stdout), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got.stdout); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if kind == "grpc" {
					_, err = xds.NewXDSResolverWithConfigForTesting([]byte(got.stdout))
				} else if encoded, _, wrong := files.YAMLToJSON([]byte(got.stdout), 1<<20); wrong != nil {
					err = wrong
				} else {
					err = protojson.Unmarshal(encoded, new(bootstrapv3.Bootstrap))
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"envoy", "-c", tls}, "error: the relay listens on :18100, which is no address for clients: name the relays\nhint: --relay takes"},
		{[]string{"envoy", "-c", tls, "--relay", "a:1"}, "error: the relay has TLS: name the file with its CA\nhint: --ca-file takes"},
		{[]string{"grpc", "-c", tls, "--relay", "a:1", "--ca-file", "x"}, "error: the relay wants certificates of clients: name the files with certificate and key\nhint: --cert-file"},
		{[]string{"grpc", "-c", plain, "--relay", "a"}, "error: name the relays: expected host:port or unix:///path, got \"a\"\nhint: --relay"},
		{[]string{"envoy", "-c", plain, "--relay", "unix:///x"}, "error: an Envoy takes no DNS name beside a unix socket in one cluster: name the relays\nhint: --relay"},
		{[]string{"envoy", "-c", plain, "--envoy-admin", "9901"}, "error: name the address of the Envoy's admin port: expected host:port, got \"9901\"\nhint: --envoy-admin"},
		{[]string{"grpc", "-c", plain, "--listener", "x"}, "error: the configuration has no listener \"x\"\nhint: --listener takes"},
		{[]string{"grpc", "-c", plain, "--return", "1ms"}, "error: --return: expected 1s or more, got 1ms\n"},
		{[]string{"nginx", "-c", plain}, "error: invalid argument \"nginx\" for \"xdsrelay bootstrap\""},
	} {
		got := xdsrelay(t, append([]string{"bootstrap", "--node-id", "x"}, tt.args...)...)
		if got.code != cli.ExitUsage || got.stdout != "" || !strings.HasPrefix(got.stderr, tt.want) {
			t.Errorf("%v: %+v, want %q", tt.args, got, tt.want)
		}
	}
}
