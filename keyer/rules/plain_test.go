package rules

import (
	"fmt"
	"strings"
	"testing"

	"cel.dev/cel-go/common/types"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	structpb "google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// plainTexts are terms, some of which need CEL.
var plainTexts = []string{
	"node.id", "node.cluster", "node.locality.region", "node.locality.zone", "node.locality.sub_zone",
	"node.metadata.team", `node.metadata["team"]`, "node.metadata.missing", "node.metadata.number", "node.metadata.deep.team",
	"type", "name", "listener", "xdstp.authority", "xdstp.id",
	"peer.spiffe", "peer.trust_domain", "peer.spiffe_path", "peer.subject", "peer.token.iss",
	`"a"`, `"ab"`, `""`, "cds", "lds", `(node.id + "b")`, `node.id.lowerAscii()`, `string(peer.uid)`,
}

func drawText(t *rapid.T) string { return rapid.SampledFrom(plainTexts).Draw(t, "text") }

// drawMatch draws an expression of all kinds, of which plain reads some.
func drawMatch(t *rapid.T, depth int) string {
	kinds := 10
	if depth == 0 {
		kinds = 7
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return fmt.Sprintf("%s == %s", drawText(t), drawText(t))
	case 1:
		return fmt.Sprintf("%s != %s", drawText(t), drawText(t))
	case 2:
		method := rapid.SampledFrom([]string{"startsWith", "endsWith", "contains", "matches"}).Draw(t, "method")
		if method == "matches" {
			return fmt.Sprintf(`%s.matches("^a")`, drawText(t))
		}
		return fmt.Sprintf("%s.%s(%s)", drawText(t), method, drawText(t))
	case 3:
		return fmt.Sprintf(`%s in [%q, "ab", cds]`, drawText(t), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "in"))
	case 4:
		return fmt.Sprintf("%s in [%s]", drawText(t), drawText(t))
	case 5:
		return rapid.SampledFrom([]string{"true", "false", "has(node.metadata.team)", "has(node.locality)", "peer.uid == 0", `"a" in peer.dns`}).Draw(t, "other")
	case 6:
		return `node.metadata.list.exists(x, x == "a")`
	case 7:
		return fmt.Sprintf("(%s && %s)", drawMatch(t, depth-1), drawMatch(t, depth-1))
	case 8:
		return fmt.Sprintf("(%s || %s)", drawMatch(t, depth-1), drawMatch(t, depth-1))
	default:
		return fmt.Sprintf("!(%s)", drawMatch(t, depth-1))
	}
}

// drawClient draws a client of few texts, so that terms are often equal.
func drawClient(t *rapid.T) (*corev3.Node, keyer.Peer) {
	word := rapid.SampledFrom([]string{"", "a", "ab", "b"})
	draw := func(label string) string { return word.Draw(t, label) }
	peer := keyer.Peer{Subject: draw("subject"), Listener: draw("listener")}
	if rapid.Bool().Draw(t, "spiffe") {
		peer.SPIFFE = "spiffe://a/" + rapid.SampledFrom([]string{"a", "b"}).Draw(t, "path")
	}
	if rapid.IntRange(0, 5).Draw(t, "node") == 0 {
		return nil, peer
	}
	node := &corev3.Node{Id: draw("id"), Cluster: draw("cluster")}
	if rapid.Bool().Draw(t, "locality") {
		node.Locality = &corev3.Locality{Region: draw("region"), Zone: draw("zone"), SubZone: draw("sub_zone")}
	}
	if rapid.Bool().Draw(t, "metadata") {
		metadata, err := structpb.NewStruct(map[string]any{
			"team": draw("team"), "number": 1, "list": []any{draw("item")}, "deep": map[string]any{"team": draw("deep")},
		})
		if err != nil {
			t.Fatal(err)
		}
		node.Metadata = metadata
	}
	return node, peer
}

// TestModelPlain_ACC2_AGG1: what is decided without CEL is what CEL says.
func TestModelPlain_ACC2_AGG1(t *testing.T) {
	env, err := accessEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	set := &Set{env: env, adapter: env.CELTypeAdapter(), upstream: "ab"}
	decided := 0
	rapid.Check(t, func(t *rapid.T) {
		source := drawMatch(t, 3)
		checked, issues := env.Compile(source)
		if issues.Err() != nil {
			return // texts and numbers, for instance
		}
		x, err := newExpression(env, fieldMatch, source, checked)
		if err != nil {
			t.Fatal(err)
		}
		if x.plain == nil {
			return
		}
		node, peer := drawClient(t)
		var name *string
		if rapid.Bool().Draw(t, "named") {
			n := rapid.SampledFrom([]string{"", "a", "ab", "*", "xdstp://a/envoy.config.cluster.v3.Cluster/ab"}).Draw(t, "name")
			name = &n
		}
		typeURL := rapid.SampledFrom([]string{clusters, secrets, "a"}).Draw(t, "type")
		is := x.plain(set.Subject(node, peer).variables(typeURL, name))
		if is == leftOpen {
			return
		}
		decided++
		value, err := x.eval(set.Subject(node, peer).variables(typeURL, name))
		if err != nil || value != types.Bool(is == isTrue) {
			t.Fatalf("%s: without CEL it is %t, CEL says %v, %v", source, is == isTrue, value, err)
		}
	})
	if decided == 0 {
		t.Error("nothing was decided without CEL")
	}
}

// TestPlain_ACC2_noCELWhereAPartDecides: a rule that is not for a client costs it nothing.
func TestPlain_ACC2_noCELWhereAPartDecides(t *testing.T) {
	for _, c := range []struct {
		match string
		want  truth
	}{
		{`node.cluster == "bank" && node.id.matches("^a+$")`, isFalse},
		{`node.id.matches("^a+$") && type in [lds, rds]`, isFalse},
		{`node.metadata.missing == "x" && node.cluster == "bank"`, isFalse},
		{`node.cluster == "shop" || node.metadata.missing == "x"`, isTrue},
		{`!(peer.trust_domain == "td") && name.matches("a")`, isFalse},
		{`peer.spiffe_path == "/" + node.cluster`, leftOpen},
		{`node.cluster == "shop" && type == cds`, isTrue},
		{`name.startsWith("shop/")`, leftOpen}, // none is given
		{`node.cluster == "bank" && ["a"].exists(x, x == node.id)`, leftOpen},
	} {
		a, problems := CompileAccess(AccessConfig{Rules: []AccessRule{{Name: "r", Match: c.match, Allow: true}}})
		none(t, problems)
		v := a.set.Subject(&corev3.Node{Id: "n1", Cluster: "shop"}, keyer.Peer{SPIFFE: "spiffe://td/shop"}).variables(clusters, nil)
		is := leftOpen
		if plain := a.rules[0].match.plain; plain != nil {
			is = plain(v)
		}
		same(t, c.want, is, c.match)
	}
}

// TestPlain_ACC2_rulesForOthersAllocateNothing holds the price of a rule for other clients down.
func TestPlain_ACC2_rulesForOthersAllocateNothing(t *testing.T) {
	allocs := func(n int) float64 {
		list := []AccessRule{}
		for i := range n {
			list = append(list, AccessRule{Name: fmt.Sprint("team-", i), Match: fmt.Sprintf(
				`node.cluster == "team-%d" && type in [lds, cds, sds] && !node.id.matches("^gateway-%d-[0-9]+$")`, i, i)})
		}
		a, problems := CompileAccess(AccessConfig{Rules: append(list, AccessRule{Name: "all", Match: "true", Allow: true})})
		none(t, problems)
		node := &corev3.Node{Id: "n1", Cluster: strings.Repeat("shop", 3)}
		return testing.AllocsPerRun(100, func() {
			if d, _ := a.Subject(node, keyer.Peer{}).Type(clusters); !d.Allowed {
				t.Fatal(d)
			}
		})
	}
	if few, many := allocs(1), allocs(50); many > few {
		t.Errorf("%v allocations with 50 rules for others, %v with one", many, few)
	}
}
