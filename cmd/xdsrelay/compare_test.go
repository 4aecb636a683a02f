package main

import (
	zero "cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	planes "github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/relay/admin"
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

// comparedFiles are the files, by their names.
func comparedFiles() map[string]string {
	all := map[string]string{"listeners.yaml": comparedListeners, "clusters.yaml": comparedClusters}
	for i, text := range strings.SplitAfter(comparedOthers, "]}\n") {
		if text != "" {
			all[fmt.Sprintf("other%d.json", i)] = text
		}
	}
	return all
}

// comparedServer is a relay before files, which stands for either side. replace changes the files.
func comparedServer(t *testing.T, secrets bool, replace ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range comparedFiles() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.NewReplacer(replace...).Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	access := ""
	if secrets {
		access = "access: {rules: [{name: all, match: type == sds, effect: allow, secrets: true}]}\n"
	}
	return served(t, "upstreams: [{name: files, default: true, path: "+dir+"}]\naggregation: {otherwise: share}\n"+access)["xds"]
}

// served runs a relay and gives its addresses.
func served(t *testing.T, config string) map[string]string {
	t.Helper()
	_, log, _ := background(t, "serve", "--config", write(t, "relay.yaml", config), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	return serving(t, log)
}

// fleetOf writes the nodes of a fleet. The first ones may be of other clusters.
func fleetOf(t *testing.T, nodes int, clusters ...string) string {
	t.Helper()
	var text strings.Builder
	for i := range nodes {
		cluster := "edge"
		if i < len(clusters) {
			cluster = clusters[i]
		}
		fmt.Fprintf(&text, "{\"id\": \"node-%d\", \"cluster\": %q}\n", i, cluster)
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

// comparedMessages are the resources of the files.
func comparedMessages(t *testing.T) (all []planes.Resource) {
	t.Helper()
	for _, text := range comparedFiles() {
		encoded, _, wrong := files.YAMLToJSON([]byte(text), 1<<20)
		if wrong != nil {
			t.Fatal(wrong)
		}
		var response discoveryv3.DiscoveryResponse
		if err := protojson.Unmarshal(encoded, &response); err != nil {
			t.Fatal(err)
		}
		for _, r := range response.GetResources() {
			m, err := r.UnmarshalNew()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, planes.Named(m))
		}
	}
	return all
}

// TestCompareTen_OPS6 compares a control plane and a relay as 200 nodes: nothing is different. Then ten of them get something
// else, each in another way: three by the relay's rules, one by an operator, and six by what the relay's control plane has.
func TestCompareTen_OPS6(t *testing.T) {
	t.Parallel()
	behaviour := planes.GoControlPlane()
	behaviour.DigestVersions, behaviour.Absent = true, planes.AbsentRemoved
	contents := comparedMessages(t)
	var all []*planes.Plane
	newPlane := func() *planes.Plane {
		p := planes.New(behaviour)
		p.Apply(planes.Change{Set: contents})
		all = append(all, p)
		return p
	}
	direct, canary, others := newPlane(), newPlane(), newPlane()
	own := make(map[string]*planes.Plane)
	for i := range 6 {
		own[fmt.Sprint("node-", 100+i)] = newPlane()
	}
	behind := planes.New(behaviour)
	behind.Divide(func(n *corev3.Node) *planes.Plane { return zero.Or(own[n.GetId()], others) })
	for _, p := range []*planes.Plane{direct, canary, behind} {
		p.Listen(t)
	}
	relay := served(t, fmt.Sprintf(`
upstreams: [{name: p, default: true, endpoints: [%q]}, {name: canary, endpoints: [%q]}]
aggregation:
  rules:
  - {name: canary, match: node.cluster == "canary", scope: [], upstream: canary}
  - {name: own, match: node.id == "node-3", scope: [node.id]}
access:
  rules:
  - {name: no-secrets, match: type == sds && node.cluster == "no-secrets", effect: deny}
  - {name: one-listener, match: type == lds && name == "plain" && node.cluster == "one-listener", effect: deny}
  - {name: secrets, match: type == sds, effect: allow, secrets: true}
`, behind.Addr(), canary.Addr()))
	compared := func(nodes string) (c comparison, took time.Duration) {
		begun := time.Now()
		got := xdsrelay(t, "compare", direct.Addr(), relay["xds"], "--nodes", nodes, "--output", "json", "--parallel", "100")
		if err := json.Unmarshal([]byte(got.stdout), &c); err != nil || (got.code == 0) != (c.Equal == c.Nodes) {
			t.Fatalf("%v: %+v", err, got)
		}
		return c, time.Since(begun)
	}
	c, took := compared(fleetOf(t, 200))
	t.Logf("equal: 200 nodes in %v", took)
	if c.Nodes != 200 || c.Equal != 200 || len(c.Differences)+len(c.Errors) > 0 || took > time.Minute {
		t.Fatalf("%v, %+v", took, c)
	}

	lines, _, _ := background(t, "watch", relay["xds"], "--node", write(t, "node.json", `{"id": "node-3", "cluster": "edge"}`), "--type", "cds", "--output", "json")
	until(t, lines, map[string]string{"event": "added", "name": "four"})
	if got := xdsrelay(t, "hold", "--admin", relay["admin"], "--yes", "--scope", `own["node-3"]`); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for _, p := range all {
		p.Apply(planes.Change{Remove: []planes.Key{planes.KeyOf(&clusterv3.Cluster{Name: "four"})}})
	}
	holds(t, func() bool {
		return slices.ContainsFunc(held(t, relay["admin"]).Held, func(h admin.HeldView) bool { return h.Removed == 1 })
	})
	canary.Set(&routev3.RouteConfiguration{Name: "routes", InternalOnlyHeaders: []string{"x"}})
	three := contents[slices.IndexFunc(contents, func(r planes.Resource) bool { return r.Name == "three" })]
	three.Version = "x"
	for i, change := range []planes.Change{
		{Remove: []planes.Key{planes.KeyOf(&clusterv3.Cluster{Name: "three"})}},
		{Set: []planes.Resource{three}},
		{Set: []planes.Resource{planes.Named(&endpointv3.ClusterLoadAssignment{ClusterName: "two", Policy: &endpointv3.ClusterLoadAssignment_Policy{EndpointStaleAfter: durationpb.New(time.Minute)}})}},
		{Remove: []planes.Key{planes.KeyOf(&corev3.TypedExtensionConfig{Name: "limits"})}},
		{Set: []planes.Resource{planes.Named(&clusterv3.Cluster{Name: "five"})}},
		{Remove: []planes.Key{planes.KeyOf(&endpointv3.ClusterLoadAssignment{ClusterName: "ones"})}},
	} {
		own[fmt.Sprint("node-", 100+i)].Apply(change)
	}
	c, took = compared(fleetOf(t, 200, "no-secrets", "one-listener", "canary"))
	t.Logf("ten differences: 200 nodes in %v", took)
	var found []string
	for _, d := range c.Differences {
		what, _, _ := strings.Cut(d.What, ":")
		found = append(found, d.Node+" "+d.Type+" "+d.Name+": "+what)
	}
	want := []string{
		"node-0 sds certificate: missing at the relay",
		"node-1 lds plain: missing at the relay",
		"node-100 cds three: missing at the relay",
		"node-101 cds three: other version",
		"node-102 eds two: other content",
		"node-103 ecds limits: missing at the relay",
		"node-104 cds five: only at the relay",
		"node-105 eds ones: missing at the relay",
		"node-2 rds routes: other content",
		"node-3 cds four: only at the relay",
	}
	if c.Equal != 190 || len(c.Errors) > 0 || took > time.Minute || !cmp.Equal(want, found) {
		t.Errorf("%v, equal in %d of %d nodes, %q\n%s", took, c.Equal, c.Nodes, c.Errors, cmp.Diff(want, found))
	}

	// The fleet that is there, as "nodes" gives it.
	live := filepath.Join(t.TempDir(), "live.jsonl")
	if got := xdsrelay(t, "nodes", live, "--admin", relay["admin"]); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if c, _ := compared(live); c.Nodes != 1 || len(c.Differences) != 1 || c.Differences[0].Name != "four" {
		t.Errorf("the live fleet: %+v", c)
	}
}

func TestCompareErrors_OPS6(t *testing.T) {
	t.Parallel()
	server, fleet := comparedServer(t, true), fleetOf(t, 1)
	secure := controlPlane(t, cachev3.NewLinearCache(resource.ClusterType), nil, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pki.NewAuthority(t, "ca").Server("xds.example.com")},
	})))
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{server, "127.0.0.1:1", "--nodes", fleet}, cli.ExitUnreachable, "error: a server cannot be reached\nhint: relay: is there a server at this address, and does it need TLS (--tls)?"},
		{[]string{secure, server, "--nodes", fleet}, cli.ExitUnreachable, "hint: control plane: the server seems to have TLS: add --control-plane-tls, or"},
		{[]string{server, secure, "--nodes", fleet}, cli.ExitUnreachable, "hint: relay: the server seems to have TLS: add --tls, or"},
		{[]string{server, secure, "--nodes", fleet, "--server-name", "xds.example.com"}, cli.ExitUnreachable, "hint: relay: give the CA of the server's certificate with --ca-file; the addresses"},
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
