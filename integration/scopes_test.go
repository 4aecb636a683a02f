package integration

import (
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
)

// scopesPage is /scopes.
type scopesPage struct {
	sharing.Result

	XDSTP []struct {
		Upstream string `json:"upstream"`
		Scope    string `json:"scope"`
		Clients  int    `json:"clients"`
		Note     string `json:"note"`
	} `json:"xdstp"`
}

func scopesOf(t *testing.T, relay *testRelay, query string) scopesPage {
	t.Helper()
	var page scopesPage
	decode(t, relay, "/scopes"+query, &page)
	return page
}

// TestScopes: the live fleet, who shares what and in what those who share differ.
func TestScopes_AGG5_AGG2_AGG3_OPS6(t *testing.T) {
	sidecars := rule("sidecars", `node.metadata.role == "sidecar" && type in [cds, lds]`, "node.cluster")
	sidecars.Node = config.RuleNode{ID: `"relay-" + node.cluster`}
	r := startRuled(t, rule("shards", `node.cluster == "sharded" && type == eds`, "name"), sidecars)
	role := func(version string) map[string]string {
		return map[string]string{"role": "sidecar", "version": version}
	}
	for i, version := range []string{"secret-1", "secret-2", "secret-3"} {
		r.clusters(fmt.Sprintf("web-%d", i), profile("web", "", role(version)))
	}
	r.clusters("cart-0", profile("cart", "", role("v1")))
	for i := range 3 {
		r.clusters(fmt.Sprintf("bare-%d", i), profile("bare", "", nil))
	}
	shard := r.client("shard-0", profile("sharded", "", role("v1")))
	shard.subscribe(endpointType, []string{"e-1", "e-2"}, nil)
	shard.awaitHolding(t, endpointType, "e-1", "e-2")
	shard.subscribe(clusterType, []string{"xdstp://nobody" + "/envoy.config.cluster.v3.Cluster/x"}, nil)

	waitFor(t, "a session of xdstp names", func() bool { return len(scopesOf(t, r.relay, "").XDSTP) == 1 })
	page := scopesOf(t, r.relay, "")
	want := sharing.Result{
		Clients: 8, Served: 8, Scopes: 7, Ratio: 1.1, Alone: 6, Isolated: 3, Unmentioned: 1,
		Types: []sharing.TypeTotals{{Type: "cds", Clients: 7, Scopes: 5, Failed: 3}, {Type: "eds", Clients: 2, Scopes: 2}},
		Rules: []sharing.RuleTotals{
			{Rule: "shards", Clients: 1, Scopes: 2}, {Rule: "sidecars", Clients: 7, Scopes: 5, Failed: 3}, {Rule: "otherwise"},
		},
		Fields:   []sharing.FieldTotals{{Rule: "sidecars", Field: "metadata.version", Scopes: 1}},
		Failures: []sharing.Case{{Rule: "sidecars", Reason: `match: node.metadata.role == "sidecar" && type in [cds, lds]: no such key: role`, Clients: 3}},
		Refusals: []sharing.Case{},
	}
	byType := cmpopts.SortSlices(func(a, b sharing.TypeTotals) bool { return a.Type < b.Type })
	lists := cmpopts.IgnoreFields(sharing.Result{}, "Largest", "Lone")
	if diff := cmp.Diff(want, page.Result, byType, lists, cmpopts.IgnoreFields(sharing.Case{}, "Example")); diff != "" {
		t.Errorf("AGG-5: (-want +got):\n%s", diff)
	}
	web := sharing.Scope{
		Upstream: "plane-0", Scope: `sidecars["web"]`, Rule: "sidecars", Parts: []any{"web"}, Clients: 3,
		Types: map[string]int{"cds": 3}, First: "web-0", Unmentioned: []string{"metadata.version"},
	}
	if diff := cmp.Diff(web, page.Largest[0]); diff != "" {
		t.Errorf("AGG-5: the largest scope (-want +got):\n%s", diff)
	}
	if page.XDSTP[0].Note != "shared by all" || page.XDSTP[0].Scope != "" || page.XDSTP[0].Clients != 1 {
		t.Errorf("AGG-5: xdstp names: %+v", page.XDSTP)
	}
	if _, body := r.relay.get(t, "/scopes"); strings.Contains(body, "secret-") {
		t.Errorf("OPS-6: values of nodes on /scopes: %s", body)
	}
	r.filters()
	r.aggregationMetrics()
	r.warnings()
}

// filters asks for parts of the fleet.
func (r *ruled) filters() {
	r.t.Helper()
	for _, tt := range []struct {
		query           string
		clients, scopes int
	}{
		{"?type=cds", 7, 5}, {"?type=" + endpointType, 1, 2}, {"?rule=sidecars", 7, 5}, {"?rule=shards&type=eds", 1, 2},
		{`?scope=sidecars%5B%22web%22%5D`, 3, 1}, {"?rule=none", 0, 0},
	} {
		page := scopesOf(r.t, r.relay, tt.query)
		if page.Clients != tt.clients || page.Scopes != tt.scopes || len(page.Largest) != tt.scopes || len(page.XDSTP) > 0 {
			r.t.Errorf("AGG-5: %s: %d clients in %d scopes, want %d in %d", tt.query, page.Clients, page.Scopes, tt.clients, tt.scopes)
		}
	}
}

func (r *ruled) aggregationMetrics() {
	r.t.Helper()
	_, body := r.relay.get(r.t, "/metrics")
	for _, want := range []string{
		`xdsrelay_aggregation_decisions_total{rule="sidecars"} 7`,
		`xdsrelay_aggregation_decisions_total{rule="shards"} 2`,
		`xdsrelay_aggregation_decisions_total{rule="otherwise"} 0`,
		`xdsrelay_aggregation_rule_failures_total{rule="sidecars"} 3`,
		`xdsrelay_aggregation_rule_failures_total{rule="shards"} 0`,
		"xdsrelay_aggregation_scopes 7",
		"xdsrelay_aggregation_scopes_with_unmentioned_fields 1",
	} {
		if !strings.Contains(body, want+"\n") {
			r.t.Errorf("AGG-2: /metrics lacks %s", want)
		}
	}
}

// warnings: a kind of failure is told once, however many clients it befalls.
func (r *ruled) warnings() {
	r.t.Helper()
	log := r.relay.log.String()
	if n := strings.Count(log, "an aggregation rule fails"); n > 1 {
		r.t.Errorf("AGG-2: %d lines about one kind of failure:\n%s", n, log)
	}
	if strings.Contains(log, "secret-") {
		r.t.Errorf("OPS-6: values of nodes in the log:\n%s", log)
	}
}

// TestScopesOfStreams: a client counts while its stream is there, its scope until the
// linger after it.
func TestScopesOfStreams_AGG3_AGG5(t *testing.T) {
	r := startRuled(t, rule("all", "true"))
	first := r.client("first", &corev3.Node{Cluster: "a"})
	for _, c := range []*client{first, r.client("second", &corev3.Node{Cluster: "b"})} {
		c.subscribe(clusterType, []string{"*"}, nil)
		c.awaitHolding(t, clusterType, "c1")
		c.subscribe(listenerType, []string{"*"}, nil)
	}
	waitFor(t, "both types of both clients", func() bool {
		page := scopesOf(t, r.relay, "")
		return len(page.Largest) == 1 && cmp.Equal(page.Largest[0].Types, map[string]int{"cds": 2, "lds": 2})
	})
	if got := scopesOf(t, r.relay, ""); got.Ratio != 2 || got.Largest[0].First != "first" ||
		!cmp.Equal(got.Largest[0].Unmentioned, []string{"cluster"}) {
		t.Errorf("AGG-5: %+v", got)
	}
	first.disconnect()
	waitFor(t, "the first client's end", func() bool { return scopesOf(t, r.relay, "").Clients == 1 })
	if got := scopesOf(t, r.relay, "").Largest[0]; got.First != "first" || got.Clients != 1 {
		t.Errorf("AGG-3: the node upstream is still the first client's: %+v", got)
	}
}
