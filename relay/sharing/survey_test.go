package sharing

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

const (
	clusterURL  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	listenerURL = "type.googleapis.com/envoy.config.listener.v3.Listener"
	endpointURL = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
)

func compile(t testing.TB, policy rules.Policy, list ...rules.Rule) *rules.Set {
	t.Helper()
	set, problems := rules.Compile(rules.Config{Rules: list, Otherwise: policy, Upstream: "primary"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return set
}

// sidecars share by cluster, except those without metadata, for which the rule fails.
func sidecars() []rules.Rule {
	return []rules.Rule{
		{Name: "unused", Match: `node.id == "nobody"`},
		{Name: "sidecars", Match: `node.metadata.role == "sidecar" && type != eds`, Scope: []string{"node.cluster"}},
		{Name: "shards", Match: `type == eds`, Scope: []string{"name"}, Upstream: "edge"},
	}
}

func sidecar(t testing.TB, id, cluster string) *corev3.Node {
	t.Helper()
	return &corev3.Node{Id: id, Cluster: cluster, Metadata: metadata(t, map[string]any{"role": "sidecar"})}
}

// differByID says what a rule set would whose rules do not look at the ID.
func differByID(rule string, a, b *corev3.Node) []string {
	if rule == "sidecars" && a.GetId() != b.GetId() {
		return []string{"id"}
	}
	return nil
}

// survey adds nodes for types.
func survey(set *rules.Set, name *string, nodes []*corev3.Node, typeURLs ...string) *Survey {
	s := NewSurvey(Options{Rules: []string{"unused", "sidecars", "shards"}, Policy: set.Policy(), Unmentioned: differByID})
	for _, node := range nodes {
		var placements []Placement
		for _, url := range typeURLs {
			placements = append(placements, Place(set.Subject(node, keyer.Peer{}), url, name, "primary"))
		}
		s.Add(node.GetId(), placements...)
	}
	return s
}

func TestSurvey_AGG5(t *testing.T) {
	nodes := []*corev3.Node{
		sidecar(t, "a-1", "a"), sidecar(t, "a-2", "a"), sidecar(t, "a-3", "a"), sidecar(t, "b-1", "b"),
		{Id: "bare-1"}, {Id: "bare-2"}, {Id: "other", Metadata: metadata(t, map[string]any{"role": "x"})},
	}
	got := survey(compile(t, rules.Isolate, sidecars()...), nil, nodes, clusterURL, listenerURL, endpointURL).Result(2)
	reason := `match: node.metadata.role == "sidecar" && type != eds: no such key: role`
	for i := range got.Lone {
		got.Lone[i].Scope = "" // a hash, in part
	}
	want := &Result{
		Clients: 7, Served: 7, Scopes: 5, Ratio: 1.4, Alone: 4, Isolated: 3, Unmentioned: 1,
		Types: []TypeTotals{
			{Type: "cds", Clients: 7, Scopes: 5, Failed: 2},
			{Type: "lds", Clients: 7, Scopes: 5, Failed: 2},
			{Type: "eds", Clients: 7, ByName: 7},
		},
		Rules: []RuleTotals{
			{Rule: "unused"}, {Rule: "sidecars", Clients: 6, Scopes: 4, Failed: 2}, {Rule: "shards"},
			{Rule: rules.Otherwise, Clients: 1, Scopes: 1},
		},
		Fields:   []FieldTotals{{Rule: "sidecars", Field: "id", Scopes: 1}},
		Failures: []Case{{Rule: "sidecars", Reason: reason, Clients: 2, Example: "bare-1"}},
		Refusals: []Case{},
		Largest:  got.Largest,
		Lone:     got.Lone,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("AGG-5: (-want +got):\n%s", diff)
	}
	first := Scope{
		Upstream: "primary", Scope: `sidecars["a"]`, Rule: "sidecars", Parts: []any{"a"}, Clients: 3,
		Types: map[string]int{"cds": 3, "lds": 3}, First: "a-1", Unmentioned: []string{"id"},
	}
	if diff := cmp.Diff(first, got.Largest[0]); diff != "" || len(got.Largest) != 2 {
		t.Errorf("AGG-5: the largest of %d listed (-want +got):\n%s", len(got.Largest), diff)
	}
	alone := slices.IndexFunc(got.Lone, func(s Scope) bool { return s.First == "bare-1" })
	if len(got.Lone) != 4 || alone < 0 || !got.Lone[alone].Isolated || got.Lone[alone].Failed != reason {
		t.Errorf("AGG-2: alone are %+v", got.Lone)
	}
}

func TestSurveyByName_AGG5(t *testing.T) {
	set := compile(t, rules.Isolate, sidecars()...)
	nodes := []*corev3.Node{sidecar(t, "a", "a"), sidecar(t, "b", "b")}
	got := survey(set, new("x"), nodes, endpointURL).Result(1)
	if got.Scopes != 1 || got.Types[0] != (TypeTotals{Type: "eds", Clients: 2, Scopes: 1, ByName: 2}) || got.Largest[0].Upstream != "edge" {
		t.Errorf("AGG-5: %+v", got)
	}
}

func TestSurveyRefused_AGG5(t *testing.T) {
	nodes := []*corev3.Node{sidecar(t, "a", "a"), {Id: "b", Metadata: metadata(t, map[string]any{"role": "x"})}}
	got := survey(compile(t, rules.Refuse, sidecars()...), nil, nodes, clusterURL, listenerURL).Result(1)
	want := []Case{{Rule: rules.Otherwise, Reason: "aggregation.otherwise is refuse", Clients: 1, Example: "b"}}
	if diff := cmp.Diff(want, got.Refusals); diff != "" || got.Served != 1 || got.Rules[3].Refused != 1 || got.Types[0].Refused != 1 {
		t.Errorf("AGG-2: %+v (-want +got):\n%s", got, diff)
	}

	s := NewSurvey(Options{})
	s.Add("a", Place(compile(t, rules.Share).Subject(nodes[0], keyer.Peer{}), clusterURL, nil, ""))
	if got := s.Result(1); len(got.Refusals) != 1 || got.Refusals[0].Reason != ErrNoDefault.Error() || got.Scopes != 0 {
		t.Errorf("LOC-4: without a default upstream %+v", got)
	}
}

// Whatever reasons and fields nodes bring, a result stays small.
func TestSurveyBounds_AGG5(t *testing.T) {
	s := NewSurvey(Options{Policy: rules.Share, Unmentioned: func(string, *corev3.Node, *corev3.Node) []string {
		fields := make([]string, 100)
		for i := range fields {
			fields[i] = fmt.Sprintf("metadata.%03d", i)
		}
		return fields
	}})
	const clients = maxCases + 10
	for i := range clients {
		node := &corev3.Node{Id: fmt.Sprint(i)}
		p := Placement{TypeURL: clusterURL, Upstream: "primary", Decision: rules.Decision{Rule: "r", Scope: "r[]", Client: node}}
		s.Add(node.GetId(), p)
		p = Placement{TypeURL: clusterURL, Refused: &rules.RefusedError{Rule: "r", Cause: errors.New(node.GetId())}}
		s.Add(node.GetId(), p)
	}
	got := s.Result(2 * maxCases)
	if fields := got.Largest[0]; len(fields.Unmentioned) != maxFields || !fields.More {
		t.Errorf("AGG-5: %d fields, more: %t", len(fields.Unmentioned), fields.More)
	}
	if len(got.Refusals) != maxCases+1 || got.Refusals[0] != (Case{Rule: "r", Reason: otherReasons, Clients: 10, Example: fmt.Sprint(maxCases)}) {
		t.Errorf("AGG-5: %d reasons, the first %+v", len(got.Refusals), got.Refusals[0])
	}
}

// The live fleet has scopes that linger without clients, and knows of scopes what is not
// said by a placement.
func TestKnow_AGG5(t *testing.T) {
	s := NewSurvey(Options{Rules: []string{"r"}})
	busy, idle := Key{"primary", `r["a"]`, ""}, Key{"primary", `r["b"]`, ""}
	s.Add("a", Placement{TypeURL: clusterURL, Upstream: "primary", Decision: rules.Decision{Rule: "r", Scope: busy.Scope}})
	for _, k := range []Key{busy, idle} {
		s.Know(k, Scope{Upstream: "primary", Scope: k.Scope, Rule: "r", Parts: []any{k.Scope}, First: "first", Unmentioned: []string{"id"}})
	}
	if !s.Has(idle) || s.Has(Key{"primary", `r["b"]`, "basis"}) {
		t.Error("AGG-3: a scope is what its session is")
	}
	got := s.Result(10)
	want := []Scope{
		{Upstream: "primary", Scope: busy.Scope, Rule: "r", Parts: []any{busy.Scope}, Clients: 1, Types: map[string]int{"cds": 1}, First: "first", Unmentioned: []string{"id"}},
		{Upstream: "primary", Scope: idle.Scope, Rule: "r", Parts: []any{idle.Scope}, Types: map[string]int{}, First: "first", Unmentioned: []string{"id"}},
	}
	if diff := cmp.Diff(want, got.Largest); diff != "" || got.Clients != 1 || got.Scopes != 2 || got.Unmentioned != 2 {
		t.Errorf("AGG-5: %+v (-want +got):\n%s", got, diff)
	}
}

// A client is isolated by "otherwise" for one type, and since a rule fails for another:
// that is one scope.
func TestFailedForOneType_AGG2(t *testing.T) {
	set := compile(t, rules.Isolate, rules.Rule{Name: "r", Match: `type == cds && node.metadata.x == "y"`, Scope: []string{}})
	client := set.Subject(&corev3.Node{Id: "a"}, keyer.Peer{})
	s := NewSurvey(Options{Rules: []string{"r"}})
	fine, failed := Place(client, listenerURL, nil, "primary"), Place(client, clusterURL, nil, "primary")
	s.Add("a", fine, failed)
	s.Know(KeyOf(&fine), Scope{Upstream: "primary", Scope: fine.Decision.Scope, Rule: rules.Otherwise, Isolated: true})
	got := s.Result(10)
	if got.Scopes != 1 || got.Largest[0].Failed == "" || got.Largest[0].Clients != 1 || len(got.Failures) != 1 || got.Types[1].Failed != 1 {
		t.Errorf("AGG-2: %+v", got)
	}
}

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		s    string
		most int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"aä", 2, "a…"}, {"", 0, ""}} {
		if got := clip(tt.s, tt.most); got != tt.want {
			t.Errorf("clip(%q, %d) = %q, want %q", tt.s, tt.most, got, tt.want)
		}
	}
}
