package relay

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"github.com/xdsrelay/xdsrelay/metrics"
)

// ruledRouter is a router in front of the upstream of testHub, with what it logs.
type ruledRouter struct {
	*router

	registry *prometheus.Registry
	log      *bytes.Buffer
}

func newRuledRouter(t *testing.T) *ruledRouter {
	t.Helper()
	r := &ruledRouter{registry: prometheus.NewRegistry(), log: new(bytes.Buffer)}
	m, err := metrics.New(r.registry, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	r.router = &router{hub: testHub(t, false), decided: newDecisions(m.Aggregation(), log), lastScopes: newLastScopes()}
	return r
}

// reload puts rules in force.
func (r *ruledRouter) reload(t *testing.T, otherwise rules.Policy, list ...rules.Rule) {
	t.Helper()
	set, problems := rules.Compile(rules.Config{Rules: list, Otherwise: otherwise, Upstream: "plane"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p := &plan{rules: set, planes: r.hub.planes, authorities: keyer.Authorities{Default: "plane"}}
	for _, rule := range list {
		p.named = append(p.named, rule.Name)
	}
	r.adopt(p)
}

// join opens a stream that asks for clusters.
func (r *ruledRouter) join(t *testing.T, node *corev3.Node) *routes {
	t.Helper()
	opened := r.opens(t, node)
	if _, err := opened.Scoped(clusterType, "*"); err != nil {
		t.Fatal(err)
	}
	return opened
}

// counters compares the two counters of rules.
func (r *ruledRouter) counters(t *testing.T, want string) {
	t.Helper()
	const decisions, failures = "xdsrelay_aggregation_decisions_total", "xdsrelay_aggregation_rule_failures_total"
	if err := testutil.GatherAndCompare(r.registry, strings.NewReader(want), decisions, failures); err != nil {
		t.Error(err)
	}
}

// AGG-3: files are the same for each node, so it does not matter in what clients differ.
func TestComparisonOfFiles_AGG3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuledRouter(t)
		plane := r.hub.planes["plane"]
		plane.config.Path, plane.outages = "resources", nil // as of newPlane
		r.reload(t, rules.Share)
		r.join(t, &corev3.Node{Id: "a", Cluster: "web"})
		r.join(t, &corev3.Node{Id: "b", Cluster: "other"})
		if r.hub.all()[0].comparison.differs(r.now.Load()) || r.log.Len() > 0 {
			t.Errorf("a warning about files:\n%s", r.log)
		}
	})
}

// AGG-3: each stream is compared once with the node that went upstream. The comparison begins
// anew with other rules.
func TestComparison_AGG3_AGG5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuledRouter(t)
		byCluster := rules.Rule{Name: "clusters", Match: "true", Scope: []string{"node.cluster"}}
		r.reload(t, rules.Isolate, byCluster)
		first := r.join(t, &corev3.Node{Id: "a", Cluster: "web", UserAgentName: "x", Locality: &corev3.Locality{Zone: "x"}})
		second := r.join(t, &corev3.Node{Id: "b", Cluster: "web", UserAgentName: "y", Locality: &corev3.Locality{Zone: "y"}})
		s := r.hub.all()[0]
		expect := func(why string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, s.comparison.view(r.now.Load()).Unmentioned); diff != "" || s.comparison.differs(r.now.Load()) != (len(want) > 0) {
				t.Errorf("%s (-want +got):\n%s", why, diff)
			}
		}
		expect("AGG-3: of two clients", "locality.zone", "user_agent_name")
		if got := s.comparison.view(r.now.Load()); got.First != "a" || got.Rule != "clusters" || got.Isolated {
			t.Errorf("AGG-5: %+v", got)
		}
		if n := strings.Count(r.log.String(), "no aggregation rule mentions"); n != 1 {
			t.Errorf("%d lines about one scope:\n%s", n, r.log)
		}

		// The same parts by a rule that mentions the zone.
		mentions := byCluster
		mentions.Match = `node.locality.zone != ""`
		r.reload(t, rules.Isolate, mentions)
		if _, err := first.Scoped(listenerType, "*"); err != nil { // by the former plan, which it still has
			t.Fatal(err)
		}
		expect("AGG-3: after a reload, by a stream that knows nothing of it")
		adopt := func(st **routes) {
			t.Helper()
			next := reopens(t, *st).(*routes)
			if len(next.member.placements()) != 0 {
				t.Error("AGG-5: a stream that looks again keeps its places")
			}
			if _, err := next.Scoped(clusterType, "*"); err != nil {
				t.Fatal(err)
			}
			(*st).Close()
			*st = next
		}
		adopt(&first)
		adopt(&second)
		s = first.scoped.Get(clusterType)
		expect("AGG-3: by streams that looked again", "user_agent_name")
		// Another rule behind it leaves the session, whose reports begin from nothing.
		r.reload(t, rules.Isolate, mentions, rules.Rule{Name: "last", Match: `node.cluster != ""`})
		expect("AGG-3: after a reload that leaves the session")
		adopt(&second)
		adopt(&first)
		if first.scoped.Get(clusterType) != s || second.scoped.Get(clusterType) != s {
			t.Fatal("another session")
		}
		expect("AGG-3: by streams that looked again", "user_agent_name")
		for _, st := range []*routes{first, second} {
			st.Close()
		}
		if len(r.roster.list()) != 0 {
			t.Error("AGG-5: streams that ended are listed")
		}
	})
}

// AGG-2: whom a rule fails for is refused where clients without a rule are.
func TestFailuresRefuse_AGG2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuledRouter(t)
		r.reload(t, rules.Refuse,
			rules.Rule{Name: "roles", Match: `node.metadata.role == "x"`},
			rules.Rule{Name: "rest", Match: "true"})
		opened := r.opens(t, &corev3.Node{Id: "a"})
		defer opened.Close()
		_, err := opened.Scoped(clusterType, "*")
		if refused, ok := errors.AsType[*rules.RefusedError](err); !ok || refused.Rule != "roles" {
			t.Errorf("AGG-2: %v, want a refusal by the rule that fails", err)
		}
		if !strings.Contains(r.log.String(), "clients=refused") {
			t.Errorf("AGG-2: the log:\n%s", r.log)
		}
		r.counters(t, `# HELP xdsrelay_aggregation_decisions_total Decisions of the rule: one for each stream and type, or one for each name if a rule looks at names.
# TYPE xdsrelay_aggregation_decisions_total counter
xdsrelay_aggregation_decisions_total{rule="otherwise"} 0
xdsrelay_aggregation_decisions_total{rule="rest"} 0
xdsrelay_aggregation_decisions_total{rule="roles"} 1
# HELP xdsrelay_aggregation_rule_failures_total Decisions that isolated or refused a client because the rule failed for it.
# TYPE xdsrelay_aggregation_rule_failures_total counter
xdsrelay_aggregation_rule_failures_total{rule="otherwise"} 0
xdsrelay_aggregation_rule_failures_total{rule="rest"} 0
xdsrelay_aggregation_rule_failures_total{rule="roles"} 1
`)
	})
}

// AGG-2: whom a rule fails for is isolated and counted. The log has each kind once.
func TestFailures_AGG2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuledRouter(t)
		r.reload(t, rules.Isolate,
			rules.Rule{Name: "roles", Match: `node.cluster == "roles" && node.metadata.role == "x"`},
			rules.Rule{Name: "teams", Match: `node.cluster == "teams" && node.metadata.team == "x"`})
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() { r.join(t, &corev3.Node{Id: fmt.Sprint(i), Cluster: "roles"}).Close() })
		}
		wg.Wait()
		lines := func(rule string) int { return strings.Count(r.log.String(), "rule="+rule) }
		if lines("roles") != 1 || lines("teams") != 0 {
			t.Errorf("AGG-2: the log of 1,000 failures:\n%s", r.log)
		}
		for _, id := range []string{"a", "b", "c"} {
			r.join(t, &corev3.Node{Id: id, Cluster: "teams"}).Close()
		}
		if lines("roles") != 1 || lines("teams") != 1 {
			t.Errorf("AGG-2: the log of two kinds of failure:\n%s", r.log)
		}
		r.join(t, &corev3.Node{Id: "d"}).Close()
		r.counters(t, `# HELP xdsrelay_aggregation_decisions_total Decisions of the rule: one for each stream and type, or one for each name if a rule looks at names.
# TYPE xdsrelay_aggregation_decisions_total counter
xdsrelay_aggregation_decisions_total{rule="otherwise"} 1
xdsrelay_aggregation_decisions_total{rule="roles"} 1000
xdsrelay_aggregation_decisions_total{rule="teams"} 3
# HELP xdsrelay_aggregation_rule_failures_total Decisions that isolated or refused a client because the rule failed for it.
# TYPE xdsrelay_aggregation_rule_failures_total counter
xdsrelay_aggregation_rule_failures_total{rule="otherwise"} 0
xdsrelay_aggregation_rule_failures_total{rule="roles"} 1000
xdsrelay_aggregation_rule_failures_total{rule="teams"} 3
`)
		r.reload(t, rules.Share)
		r.counters(t, `# HELP xdsrelay_aggregation_decisions_total Decisions of the rule: one for each stream and type, or one for each name if a rule looks at names.
# TYPE xdsrelay_aggregation_decisions_total counter
xdsrelay_aggregation_decisions_total{rule="otherwise"} 1
# HELP xdsrelay_aggregation_rule_failures_total Decisions that isolated or refused a client because the rule failed for it.
# TYPE xdsrelay_aggregation_rule_failures_total counter
xdsrelay_aggregation_rule_failures_total{rule="otherwise"} 0
`)
	})
}

// A stream may ask for as many names as it likes: the same answer is kept once.
func TestMember_AGG1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuledRouter(t)
		r.reload(t, rules.Isolate, rules.Rule{Name: "shards", Match: "true", Scope: []string{`name.startsWith("a")`}})
		st := r.opens(t, &corev3.Node{Id: "a"})
		for i := range 100 {
			for _, prefix := range []string{"a", "b"} {
				if _, err := st.Scoped(clusterType, prefix+fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := st.member.placements(); len(got) != 2 {
			t.Errorf("AGG-1: %d places, want 2", len(got))
		}
		st.Close()
	})
}
