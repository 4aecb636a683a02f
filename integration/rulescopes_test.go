package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/config"
)

// scopePart is a part of a scope, as a rule has it and as the test works it out.
type scopePart struct {
	expression string
	of         func(*corev3.Node) string
}

var scopeParts = []scopePart{
	{"node.id", (*corev3.Node).GetId},
	{"node.cluster", (*corev3.Node).GetCluster},
	{"node.locality.zone", func(n *corev3.Node) string { return n.GetLocality().GetZone() }},
	{"node.metadata.role", role},
	{`node.id + "_" + node.cluster`, func(n *corev3.Node) string { return n.GetId() + "_" + n.GetCluster() }},
	{"[node.cluster, node.id]", func(n *corev3.Node) string { return fmt.Sprintf("%q", []string{n.GetCluster(), n.GetId()}) }},
	{"node.cluster.size()", func(n *corev3.Node) string { return fmt.Sprint(len([]rune(n.GetCluster()))) }},
	{`node.locality.zone == ""`, func(n *corev3.Node) string { return fmt.Sprint(n.GetLocality().GetZone() == "") }},
}

// scopeWords are values that run together if they are put side by side.
var scopeWords = []string{"", "a", "b", "ab", "_", "a_", "_b", "a_b", "/", "a/b", "\n", "%", "%2F", "a\x00b", "é", `"`, `","`}

// TestScopesOfRules: nodes that differ in any part of the scope never share a table, and
// those that agree in all of them always do, whatever is in the parts. The control plane
// tells everybody whose node it was shown: clients that are told the same share.
func TestScopesOfRules_AGG1_AGG2_AGG3(t *testing.T) {
	rounds := 30
	if testing.Short() || raceEnabled {
		rounds = 6
	}
	for i := range rounds {
		s := *seed + uint64(i)
		t.Run(fmt.Sprint(s), func(t *testing.T) { playScopes(t, rand.New(rand.NewPCG(s, 5))) })
	}
}

func playScopes(t *testing.T, r *rand.Rand) {
	t.Helper()
	parts := slices.Clone(scopeParts)
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	parts = parts[:r.IntN(4)]
	var expressions []string
	for _, p := range parts {
		expressions = append(expressions, p.expression)
	}
	w := newWorlds(t, func(n *corev3.Node) string { return n.GetMetadata().GetFields()["first"].GetStringValue() })
	w.set(clusterType, "c1", true)
	byParts := rule("parts", "true", expressions...)
	byParts.Node.First = true
	relay := startRelay(t, func(c *config.Config) {
		c.Aggregation.Rules, c.Aggregation.Otherwise = []config.Rule{byParts}, config.Refuse
	}, w.front.addr)

	ruled := &ruled{t: t, worlds: w, relay: relay}
	word := func() string { return scopeWords[r.IntN(len(scopeWords))] }
	told := make(map[string]string)  // whose node it was, by what the scope has to be
	scope := make(map[string]string) // the other way round
	for i := range 24 {
		n := profile(word(), word(), map[string]string{"role": word(), "first": fmt.Sprint("client-", i)})
		n.Id = word()
		var features []string
		if r.IntN(4) == 0 {
			features = []string{"envoy.lb.x"}
		}
		values := []string{fmt.Sprint(features)}
		for _, p := range parts {
			values = append(values, strconv.Quote(p.of(n)))
		}
		want := strings.Join(values, " ")
		id := n.Id
		n.Id = ""
		got := ruled.clusters(id, n, features...)
		if before, ok := told[want]; ok && before != got {
			t.Errorf("AGG-1: by %q clients of %s are told of %q and %q", expressions, want, before, got)
		}
		if before, ok := scope[got]; ok && before != want {
			t.Errorf("AGG-2: by %q clients of %s and %s are both told of %q", expressions, before, want, got)
		}
		told[want], scope[got] = got, want
	}
	open := 0
	for _, n := range w.streams() {
		open += n
	}
	if open != len(told) {
		t.Errorf("AGG-1: by %q the control plane sees %d streams, want %d", expressions, open, len(told))
	}
}
