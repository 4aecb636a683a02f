package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	planes "github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// The resources of a control plane, as files. A listener has its routes over RDS, a filter over ECDS and a certificate
// over SDS; a cluster has its endpoints over EDS.
const (
	comparedListeners = `version_info: "1"
resources:
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: web
  address: {socket_address: {address: 127.0.0.1, port_value: 10000}}
  filter_chains:
  - transport_socket:
      name: tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
        common_tls_context: {tls_certificate_sds_secret_configs: [{name: certificate, sds_config: {ads: {}}}]}
    filters:
    - name: http
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
        rds: {route_config_name: routes, config_source: {ads: {}}}
        http_filters:
        - {name: limits, config_discovery: {config_source: {ads: {}}, type_urls: [type.googleapis.com/envoy.extensions.filters.http.router.v3.Router]}}
- {"@type": type.googleapis.com/envoy.config.listener.v3.Listener, name: plain, stat_prefix: one}
`
	comparedClusters = `version_info: "1"
resources:
- {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: one, type: EDS, eds_cluster_config: {service_name: ones, eds_config: {ads: {}}}}
- {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: two, type: EDS, eds_cluster_config: {eds_config: {ads: {}}}}
- {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: three, connect_timeout: 1s}
- {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: four, connect_timeout: 1s}
`
	comparedOthers = `{"resources": [{"@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "name": "routes"}]}
{"resources": [{"@type": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig", "name": "limits"}]}
{"resources": [{"@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", "cluster_name": "ones"},
  {"@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", "cluster_name": "two"}]}
{"resources": [{"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", "name": "certificate", "generic_secret": {"secret": {"inline_string": "x"}}}]}
`
)

// comparedServer is a relay before files, which stands for either side. replace changes the files.
func comparedServer(t *testing.T, secrets bool, replace ...string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"listeners.yaml": comparedListeners, "clusters.yaml": comparedClusters}
	for i, text := range strings.SplitAfter(comparedOthers, "]}\n") {
		if text != "" {
			files[fmt.Sprintf("other%d.json", i)] = text
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.NewReplacer(replace...).Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	access := ""
	if secrets {
		access = "access: {rules: [{name: all, match: type == sds, effect: allow, secrets: true}]}\n"
	}
	return served(t, "upstreams: [{name: files, default: true, path: "+dir+"}]\naggregation: {otherwise: share}\n"+access)
}

// served runs a relay and gives its address.
func served(t *testing.T, config string) string {
	t.Helper()
	_, log, _ := background(t, "serve", "--config", write(t, "relay.yaml", config), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	for log.Scan() {
		if _, rest, is := strings.Cut(log.Text(), "msg=serving xds="); is {
			address, _, _ := strings.Cut(rest, " ")
			return address
		}
	}
	t.Fatal("it does not serve")
	return ""
}

// fleetOf writes the nodes of a fleet.
func fleetOf(t *testing.T, nodes int) string {
	t.Helper()
	var text strings.Builder
	for i := range nodes {
		fmt.Fprintf(&text, "{\"id\": \"node-%d\", \"cluster\": \"edge\"}\n", i)
	}
	return write(t, "fleet.jsonl", text.String())
}

// TestCompareFinds_OPS6 plants ten differences and has compare find each of them, and no other one.
func TestCompareFinds_OPS6(t *testing.T) {
	t.Parallel()
	server := comparedServer(t, true)
	changed := comparedServer(t, false, // the relay denies secrets
		"name: three, connect_timeout: 1s}", "name: five}", // one is missing, one was to be gone
		"name: four, connect_timeout: 1s", "name: four, connect_timeout: 2s",
		"service_name: ones", "service_name: others", // which changes the cluster, and asks for other endpoints
		"\"name\": \"routes\"", "\"name\": \"routes\", \"internal_only_headers\": [\"x\"]",
		"\"name\": \"limits\"", "\"name\": \"limits-2\"",
		"\"cluster_name\": \"two\"", "\"cluster_name\": \"two\", \"policy\": {\"overprovisioning_factor\": 200}",
		"name: plain, stat_prefix: one", "name: plain-2",
	)
	got := xdsrelay(t, "compare", server, changed, "--nodes", fleetOf(t, 1), "--output", "json", "--timeout", "5s")
	var c comparison
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	var found []string
	for _, d := range c.Differences {
		what, _, _ := strings.Cut(d.What, ":")
		found = append(found, d.Type+" "+d.Name+": "+what)
	}
	want := []string{
		"cds five: only at the relay",
		"cds four: other content",
		"cds one: other content",
		"cds three: missing at the relay",
		"ecds limits: missing at the relay",
		"eds ones: missing at the relay",
		"eds two: other content",
		"lds plain: missing at the relay",
		"lds plain-2: only at the relay",
		"rds routes: other content",
		"sds certificate: missing at the relay",
	}
	if got.code != cli.ExitFailure || c.Nodes != 1 || c.Equal != 0 || !cmp.Equal(want, found) {
		t.Errorf("%+v\n%s", got, cmp.Diff(want, found))
	}
}

// TestCompareVersions_OPS6 compares versions of equal contents.
func TestCompareVersions_OPS6(t *testing.T) {
	t.Parallel()
	var addresses []string
	for _, version := range []string{"1", "2"} {
		p := planes.Start(t, planes.GoControlPlane())
		p.Apply(planes.Change{Set: []planes.Resource{{Name: "one", Message: &clusterv3.Cluster{Name: "one"}, Version: version}}})
		addresses = append(addresses, p.Addr())
	}
	args := append([]string{"compare"}, append(addresses, "--nodes", fleetOf(t, 1), "--type", "cds")...)
	got := xdsrelay(t, args...)
	if got.stdout != "node-0  cds  one  other version: 1 and 2\nequal in 0 of 1 node, 1 resource of the control plane, 1 difference\n" || got.code != cli.ExitFailure {
		t.Errorf("%+v", got)
	}
	// Nodes that are asked at the same time are printed in one order.
	several := slices.Clone(args)
	several[4] = fleetOf(t, 9)
	got = xdsrelay(t, several...)
	if lines := strings.Split(got.stdout, "\n"); len(lines) != 11 || !slices.IsSorted(lines[:9]) {
		t.Errorf("%+v", got)
	}
	// The state of the world has no versions of resources.
	got = xdsrelay(t, append(args, "--api-type", "AGGREGATED_GRPC")...)
	if got.code != 0 || got.stdout != "equal in 1 of 1 node, 1 resource of the control plane, 0 differences\n" {
		t.Errorf("contents alone: %+v", got)
	}
}

// TestCompareFleet_OPS6 has a relay before a control plane give the same to 200 nodes, in less than a minute.
func TestCompareFleet_OPS6(t *testing.T) {
	t.Parallel()
	server := comparedServer(t, true)
	relay := served(t, "upstreams: [{name: p, default: true, endpoints: ['"+server+"']}]\n"+ // a scope for each node
		"access: {rules: [{name: all, match: type == sds, effect: allow, secrets: true}]}\n")
	begun := time.Now()
	got := xdsrelay(t, "compare", server, relay, "--nodes", fleetOf(t, 200))
	if took := time.Since(begun); got.code != 0 || got.stdout != "equal in 200 of 200 nodes, 2200 resources of the control plane, 0 differences\n" || took > time.Minute {
		t.Errorf("%v, %+v", took, got)
	}
}

func TestCompareErrors_OPS6(t *testing.T) {
	t.Parallel()
	server, fleet := comparedServer(t, true), fleetOf(t, 1)
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{server, "127.0.0.1:1", "--nodes", fleet}, cli.ExitUnreachable, "error: a server cannot be reached\n"},
		{[]string{server, "x", "--nodes", fleet}, cli.ExitUsage, "error: expected host:port, got \"x\"\n"},
		{[]string{server, server}, cli.ExitUsage, "required flag(s) \"nodes\" not set"},
		{[]string{server, server, "--nodes", t.TempDir()}, cli.ExitUsage, "no node files in this folder"},
		{[]string{server, server, "--nodes", write(t, "bad.yaml", "name: x\n")}, cli.ExitUsage, "unknown field \"name\""},
		{[]string{server, server, "--nodes", fleet, "--api-type", "REST"}, cli.ExitUsage, "polls cannot be compared"},
	} {
		got := xdsrelay(t, append([]string{"compare"}, tt.args...)...)
		if got.code != tt.code || !strings.Contains(got.stderr, tt.want) {
			t.Errorf("%q: %+v", slices.Clip(tt.args), got)
		}
	}
}
