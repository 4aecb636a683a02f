package rules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cel.dev/cel-go/common/types"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// fleetRules are ten access rules as a fleet has them: by cluster, by the form of node IDs, by metadata,
// by who the client is, by listener.
func fleetRules() []AccessRule {
	return []AccessRule{
		{Name: "gateways-only", Match: `type == sds && !node.id.matches("^(client|gateway)-[0-9]+$")`},
		{Name: "test-listener", Match: `listener == "test"`},
		{Name: "payment", Match: `node.cluster == "payment" && !peer.spiffe_path.startsWith("/ns/payment/")`},
		{Name: "quarantine", Match: `has(node.metadata.quarantine) && node.metadata.quarantine != "no"`},
		{Name: "regions", Match: `node.locality.region in ["cn", "ru"] && type in [lds, rds, cds, eds]`},
		{Name: "liar", Match: `peer.spiffe != "" && peer.spiffe != "spiffe://td/ns/" + node.cluster`},
		{Name: "old", Match: `"legacy.example" in peer.dns || node.id.startsWith("legacy-")`},
		{Name: "canary", Match: `has(node.metadata.stage) && node.metadata.stage == "canary" && !(type in [lds, cds])`},
		{Name: "other-domains", Match: `!(peer.trust_domain in ["", "td"])`},
		{Name: "everybody", Match: `true`, Allow: true},
	}
}

// However often equal clients join, and whoever comes anew: rules as a fleet has them are decided
// without an evaluation by CEL, and take no memory.
func TestAccess_ACC2_aJoinEvaluatesNothing(t *testing.T) {
	a, problems := CompileAccess(AccessConfig{Rules: fleetRules()})
	none(t, problems)
	peer := new(keyer.Peer)
	for _, node := range []*corev3.Node{
		{Id: "client-1", Cluster: "bench"},
		{Id: "client-2", Cluster: "shop", Locality: &corev3.Locality{Region: "eu"}, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"stage": structpb.NewStringValue("canary")}}},
	} {
		for _, typeURL := range []string{clusters, secrets, "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"} {
			allowed, known := a.Plainly(node, peer, typeURL)
			holds(t, known, node.GetId(), typeURL)
			d, named := a.Subject(node, keyer.Peer{}).Type(typeURL)
			holds(t, !named && d.Allowed == allowed, "it differs from", fmt.Sprint(d))
			if n := testing.AllocsPerRun(100, func() { _, _ = a.Plainly(node, peer, typeURL) }); n != 0 {
				t.Errorf("a join takes %v allocations", n)
			}
		}
	}
}

// plainSource draws a boolean expression.
func plainSource(r *rand.Rand, depth int) string {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	if depth > 0 {
		a, b := plainSource(r, depth-1), plainSource(r, depth-1)
		switch r.IntN(4) {
		case 0:
			return "(" + a + " && " + b + ")"
		case 1:
			return "(" + a + " || " + b + ")"
		case 2:
			return "!(" + a + ")"
		}
	}
	text := func() string {
		simple := func() string {
			return one(`"a"`, `"b"`, `""`, `"ab"`, `"td"`, `"/p"`, `"*"`, "cds", "eds", "type", "name", "listener", "xdstp.id", "xdstp.authority",
				"node.id", "node.cluster", "node.locality.region", "node.locality.zone", "node.locality.sub_zone",
				"node.metadata.a", "node.metadata.m.b", `node.metadata["a"]`, `string(node.metadata.n)`, "node.user_agent_name",
				"peer.spiffe", "peer.trust_domain", "peer.spiffe_path", "peer.subject", "peer.token.iss", "peer.token.sub")
		}
		if r.IntN(5) == 0 {
			return simple() + " + " + simple()
		}
		return simple()
	}
	switch r.IntN(10) {
	case 0:
		return one("has(node.metadata.a)", "has(node.metadata.m.b)", "has(node.metadata.n)", "has(node.locality.zone)", "has(node.metadata)", `"a" in node.metadata`)
	case 1:
		return text() + ` in ["a", "b", "", eds]`
	case 2:
		return text() + " in " + one("peer.dns", "peer.uris", "peer.emails", "peer.ips", "peer.token.aud")
	case 3:
		return "(" + text() + ")." + one("startsWith", "endsWith", "contains") + "(" + text() + ")"
	case 4:
		return "(" + text() + `).matches("` + one("^a", "b$", "^(a|b)*$", "t.") + `")`
	case 5:
		return one("true", "false", "node.metadata.flag", "node.metadata.a == 1", "peer.uid == -1", `node.metadata.?a.orValue("") == "a"`, `node.metadata.list.exists(x, x == "a")`)
	default:
		return text() + one(" == ", " != ") + text()
	}
}

// plainClient draws a client.
func plainClient(t *testing.T, r *rand.Rand) (*corev3.Node, keyer.Peer) {
	t.Helper()
	text := func() string { return []string{"", "a", "b", "ab", "td"}[r.IntN(5)] }
	p := keyer.Peer{Subject: text(), DNS: []string{text()}, URIs: []string{text()}, Emails: []string{text(), text()}, Listener: text()}
	p.SPIFFE = []string{"", "spiffe://td/p/a", "spiffe://td", "no spiffe"}[r.IntN(4)]
	if r.IntN(2) == 0 {
		p.Token = &keyer.Token{Issuer: text(), Subject: text(), Audience: []string{text()}}
	}
	if r.IntN(8) == 0 {
		return nil, p
	}
	n := &corev3.Node{Id: text(), Cluster: text()}
	if r.IntN(2) == 0 {
		n.Locality = &corev3.Locality{Region: text(), Zone: text(), SubZone: text()}
	}
	if r.IntN(4) > 0 {
		fields := make(map[string]any)
		for _, key := range []string{"a", "m", "n", "flag", "list"} {
			if r.IntN(2) == 0 {
				fields[key] = []any{text(), 1.0, true, nil, map[string]any{"b": text()}, map[string]any{}, []any{text()}}[r.IntN(7)]
			}
		}
		metadata, err := structpb.NewStruct(fields)
		if err != nil {
			t.Fatal(err)
		}
		n.Metadata = metadata
	}
	return n, p
}

// What is said without CEL is what CEL says: true, false, or that it depends on the name. Nothing
// fails without CEL.
func TestPlain_ACC2_AGG2_saysWhatCELSays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	said := make(map[outcome]int)
	for range 4000 {
		source := plainSource(r, 3)
		a, problems := CompileAccess(AccessConfig{Rules: []AccessRule{{Name: "r", Match: source}}})
		if len(problems) > 0 { // one that is refused, as type == "a"
			continue
		}
		for range 20 {
			node, peer := plainClient(t, r)
			typeURL := []string{clusters, secrets, "a", "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"}[r.IntN(4)]
			var name *string
			if r.IntN(2) == 0 {
				name = new([]string{"a", "*", "ab", "xdstp://a/envoy.config.cluster.v3.Cluster/b"}[r.IntN(4)])
			}
			x := a.rules[0].match
			v := a.Subject(node, peer).client.variables(shownType(typeURL), name)
			f := v.facts()
			got := x.plain.outcome(&f)
			if said[got]++; got == unclear {
				continue
			}
			value, err := x.eval(v)
			want := unclear
			switch value := value.(type) {
			case types.Bool:
				want = truth(bool(value))
			case *types.Unknown:
				want = byName
			}
			if got != want {
				t.Fatalf("%s\nis %d by itself, and to CEL %v, %v\nwith %v\n%+v, type %s, name %v", source, got, value, err, node, peer, typeURL, name)
			}
		}
	}
	for _, o := range []outcome{unclear, byName, no, yes} {
		holds(t, said[o] > 1000, fmt.Sprint("of outcome ", o, " there are ", said[o]))
	}
	t.Log(said)
}

// Texts that are too long for regular expressions fail as they do to CEL, and a loop, which has a limit of
// work, is left to CEL as a whole: it fails for who sends too much, and denies.
func TestPlain_ACC2_OPS5_limitsOfCELStay(t *testing.T) {
	long := strings.Repeat("a", maxText+1)
	many := make([]any, 60_000)
	for i := range many {
		many[i] = "x"
	}
	metadata, err := structpb.NewStruct(map[string]any{"many": many})
	if err != nil {
		t.Fatal(err)
	}
	a, problems := CompileAccess(AccessConfig{Allow: true, Rules: []AccessRule{
		{Name: "regex", Match: `type == sds && node.id.matches("^b")`},
		{Name: "loop", Match: `type == cds && node.metadata.many.exists(m, m == "y") && node.cluster == "never"`},
	}})
	none(t, problems)
	node := &corev3.Node{Id: long, Metadata: metadata}
	for _, typeURL := range []string{secrets, clusters} {
		_, known := a.Plainly(node, &keyer.Peer{}, typeURL)
		holds(t, !known, typeURL)
		d, named := a.Subject(node, keyer.Peer{}).Type(typeURL)
		holds(t, !named && !d.Allowed && d.Failed != "", typeURL, fmt.Sprint(d))
	}
}
