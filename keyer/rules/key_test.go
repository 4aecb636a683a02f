package rules_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	xdsv3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// nasty are parts that could run together with what stands around them.
func nasty() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{
			"", "_", "/", ",", `"`, `\`, `\"`, `","`, `"]`, "[", "]", "{", "}", "\n", "\r\n", "%", "%20", "%2C", "\x00", "…",
			"r", "s", `r["`, `r["","`, "1", "1.0", "null", "true", "optional.none()", "isolated-", "shared", "é", "e\u0301", "\ufffd",
		}),
		rapid.StringMatching(`[ab,"\\\]]{0,4}`),
		rapid.StringN(150, 250, -1),
		rapid.Map(rapid.IntRange(150, 260), func(n int) string { return strings.Repeat("a", n) }),
		rapid.String(),
	)
}

// keySets are rules of one name each, by how many parts they take from the metadata.
func keySets(t testing.TB) map[string]*rules.Set {
	t.Helper()
	sets := make(map[string]*rules.Set)
	for _, name := range []string{"r", "s", "r-r"} {
		for n := range 4 {
			var scope []string
			for i := range n {
				scope = append(scope, fmt.Sprintf("node.metadata.p%d", i))
			}
			sets[fmt.Sprint(name, n)] = compile(t, rules.Config{Rules: []rules.Rule{{Name: name, Match: "true", Scope: scope}}})
		}
	}
	return sets
}

type parts struct {
	Rule  string
	Parts []any
}

func scopeOf(t rapid.TB, sets map[string]*rules.Set, p parts) string {
	t.Helper()
	node := &corev3.Node{Metadata: &structpb.Struct{Fields: make(map[string]*structpb.Value)}}
	for i, part := range p.Parts {
		value, err := structpb.NewValue(part)
		if err != nil {
			t.Fatal(err)
		}
		node.Metadata.Fields[fmt.Sprintf("p%d", i)] = value
	}
	d, byName, err := sets[fmt.Sprint(p.Rule, len(p.Parts))].Subject(node, keyer.Peer{}).Decide(clusterURL)
	if err != nil || byName || d.Failed != nil {
		t.Fatalf("Decide = %+v, %v, %v", d, byName, err)
	}
	if len(p.Parts) > 0 && !reflect.DeepEqual(d.Parts, p.Parts) {
		t.Fatalf("AGG-5: parts %#v, want %#v", d.Parts, p.Parts)
	}
	return d.Scope
}

// AGG-1: scopes are equal exactly if the rule and the parts are.
func TestAGG1PropertyScopeKeys(t *testing.T) {
	sets := keySets(t)
	text := nasty().Filter(func(s string) bool { return strings.ToValidUTF8(s, "") == s })
	scalar := rapid.OneOf(
		rapid.Map(text, func(s string) any { return s }),
		rapid.SampledFrom([]any{nil, true, false, 0.0, 1.0, -1.0, 0.5, 1e300, float64(1 << 53), 1.8446744073709552e19}),
	)
	value := rapid.OneOf(scalar, scalar, scalar,
		rapid.Map(rapid.SliceOfN(scalar, 0, 3), func(list []any) any { return append([]any{}, list...) }),
		rapid.Map(rapid.MapOfN(text, scalar, 0, 3), func(m map[string]any) any { return m }),
	)
	whole := rapid.Custom(func(t *rapid.T) parts {
		return parts{
			Rule:  rapid.SampledFrom([]string{"r", "s", "r-r"}).Draw(t, "rule"),
			Parts: rapid.SliceOfN(value, 0, 3).Draw(t, "parts"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		one, other := whole.Draw(t, "one"), whole.Draw(t, "other")
		if rapid.Bool().Draw(t, "move") {
			// A text in between goes over to the next part: what a joined key confuses.
			a, between, b := text.Draw(t, "a"), text.Draw(t, "between"), text.Draw(t, "b")
			one = parts{Rule: "r", Parts: []any{a + between, b}}
			other = rapid.SampledFrom([]parts{{"r", []any{a, between + b}}, {"r", []any{a, between, b}}, {"r", []any{a + between + b}}}).Draw(t, "moved")
		}
		a, b := scopeOf(t, sets, one), scopeOf(t, sets, other)
		same := one.Rule == other.Rule && len(one.Parts) == len(other.Parts) &&
			(len(one.Parts) == 0 || reflect.DeepEqual(one.Parts, other.Parts))
		if same != (a == b) {
			t.Fatalf("AGG-1: %#v has the scope %q, %#v has %q", one, a, other, b)
		}
		if a != scopeOf(t, sets, one) {
			t.Fatalf("AGG-1: %#v has another scope when asked again", one)
		}
		if !strings.HasPrefix(a, one.Rule+"[") || len(a) > 200 || strings.ContainsAny(a, "\n\r\x00") {
			t.Fatalf("AGG-1: scope %q of %#v", a, one)
		}
	})
}

// AGG-1: a long scope shows how it begins and a hash of all of it, which no short one can
// look like, not even one whose parts are that text.
func TestAGG1LongScopes(t *testing.T) {
	sets := keySets(t)
	long := func(last string) parts { return parts{"r", []any{strings.Repeat("é", 300) + last}} }
	a, b := scopeOf(t, sets, long("a")), scopeOf(t, sets, long("b"))
	if a == b || !strings.HasPrefix(a, `r["éé`) || len(a) > 200 || strings.HasSuffix(a, "]") {
		t.Errorf("AGG-1: scopes %q and %q", a, b)
	}
	if forged := scopeOf(t, sets, parts{"r", []any{strings.TrimPrefix(a, `r["`)}}); forged == a || !strings.HasSuffix(forged, "]") {
		t.Errorf("AGG-1: scope %q", forged)
	}
	// At the limit the whole is shown.
	for n := 180; n < 210; n++ {
		scope := scopeOf(t, sets, parts{"r", []any{strings.Repeat("a", n)}})
		if whole := strings.HasSuffix(scope, `a"]`); whole != (n+len(`r[""]`) <= 200) {
			t.Errorf("AGG-1: scope of a part of %d characters: %q", n, scope)
		}
	}
}

// scopeBy evaluates parts over a client.
func scopeBy(t testing.TB, node *corev3.Node, scope ...string) (string, error) {
	t.Helper()
	set := compile(t, rules.Config{Rules: []rules.Rule{{Name: "r", Match: "true", Scope: scope}}})
	d, _, err := set.Subject(node, keyer.Peer{}).Decide(clusterURL)
	if err != nil {
		t.Fatal(err)
	}
	return d.Scope, d.Failed
}

// AGG-1: values have one scope exactly if they are equal to CEL.
func TestAGG1ScopeValues(t *testing.T) {
	extended := sidecar(t)
	extended.Extensions = []*corev3.Extension{{Name: "x", Version: nil}}
	unknown := proto.CloneOf(extended)
	unknown.Locality.ProtoReflect().SetUnknown(protoreflect.RawFields{0xfa, 0x3f, 0x01, 'x'})
	for _, tc := range []struct {
		name string
		node *corev3.Node
		part string
		want string
	}{
		{"AGG-1 text", extended, `node.cluster + "\n\"\\"`, `r["web\n\"\\"]`},
		{"AGG-1 text of a number", extended, `string(int(node.metadata.shard))`, `r["3"]`},
		{"AGG-1 double", extended, `node.metadata.shard`, `r[3]`},
		{"AGG-1 int", extended, `int(node.metadata.shard)`, `r[3]`},
		{"AGG-1 uint", extended, `uint(node.metadata.shard)`, `r[3]`},
		{"AGG-1 fraction", extended, `node.metadata.shard / 2.0`, `r[1.5]`},
		{"AGG-1 negative zero", extended, `node.metadata.shard * -0.0`, `r[0]`},
		{"AGG-1 infinity", extended, `node.metadata.shard / 0.0`, `r[+Inf]`},
		{"AGG-1 big double", extended, `node.metadata.shard * 1e300`, `r[3e+300]`},
		{"AGG-1 beyond int", extended, `node.metadata.shard * 0.0 + 9223372036854775808.0`, `r[9223372036854775808]`},
		{"AGG-1 bytes", extended, `bytes(node.cluster)`, `r[b"web"]`},
		{"AGG-1 null", extended, `node.cluster == "web" ? null : null`, `r[null]`},
		{"AGG-1 list", extended, `[node.cluster, node.id]`, `r[["web","gw-web-17"]]`},
		{"AGG-1 map in order", extended, `{"b": node.cluster, "a": node.metadata.shard, "": [1]}`, `r[{"":[1],"a":3,"b":"web"}]`},
		{"AGG-1 map with numbers for keys", extended, `{1: node.cluster, "1": node.cluster}`, `r[{"1":"web",1:"web"}]`},
		{"AGG-1 optional", extended, `optional.of(node.cluster)`, `r[optional.of("web")]`},
		{"AGG-1 type of a value", extended, `type(node.metadata.role)`, `r[type("string")]`},
		{"AGG-1 message", extended, `node.extensions[0]`, `r[envoy.config.core.v3.Extension{name:"x"}]`},
		{"AGG-1 unknown fields", unknown, `node.locality`, `r[envoy.config.core.v3.Locality{region:"eu-1",zone:"eu-1a"?"\xfa?\x01x"}]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := scopeBy(t, tc.node, tc.part)
			if got != tc.want || err != nil {
				t.Errorf("scope %s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

// AGG-1: the node as a whole, with all that can be in it, is the same again after the wire,
// and another with any difference.
func TestAGG1WholeNode(t *testing.T) {
	version, err := anypb.New(durationpb.New(3))
	if err != nil {
		t.Fatal(err)
	}
	node := sidecar(t)
	node.Metadata.Fields["n"] = structpb.NewNullValue()
	node.Metadata.Fields["unset"] = &structpb.Value{}
	node.Metadata.Fields["b"] = structpb.NewBoolValue(true)
	node.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{Metadata: node.GetMetadata()}}
	node.DynamicParameters = map[string]*xdsv3.ContextParams{"a": {Params: map[string]string{"b": "c", "d": "e"}}, "f": {}}
	node.Extensions = []*corev3.Extension{{Name: "x", TypeUrls: []string{version.GetTypeUrl()}}}
	base, err := scopeBy(t, node, "node")
	if err != nil {
		t.Fatal(err)
	}
	wire, err := proto.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	again := &corev3.Node{}
	if err := proto.Unmarshal(wire, again); err != nil {
		t.Fatal(err)
	}
	if got, _ := scopeBy(t, again, "node"); got != base {
		t.Errorf("AGG-1: scope %q after the wire, want %q", got, base)
	}
	for name, change := range map[string]func(*corev3.Node){
		"null becomes unset":  func(n *corev3.Node) { n.Metadata.Fields["n"] = &structpb.Value{} },
		"a number":            func(n *corev3.Node) { n.Metadata.Fields["shard"] = structpb.NewNumberValue(3.5) },
		"a number as text":    func(n *corev3.Node) { n.Metadata.Fields["shard"] = structpb.NewStringValue("3") },
		"an unknown field":    func(n *corev3.Node) { n.ProtoReflect().SetUnknown([]byte{0xfa, 0x3f, 0x01, 'x'}) },
		"an unknown in value": func(n *corev3.Node) { n.Metadata.Fields["b"].ProtoReflect().SetUnknown([]byte{0xfa, 0x3f, 0x01, 'x'}) },
		"a map in a map":      func(n *corev3.Node) { n.DynamicParameters["a"].Params["b"] = "x" },
		"an empty message":    func(n *corev3.Node) { n.Extensions = append(n.Extensions, &corev3.Extension{}) },
	} {
		changed := proto.CloneOf(node)
		change(changed)
		if got, _ := scopeBy(t, changed, "node"); got == base {
			t.Errorf("AGG-1: %s does not change the scope", name)
		}
	}
}

// AGG-1: clients agree on an identity whatever the order in which certificates list names.
func TestAGG1OrderOfNames(t *testing.T) {
	set := compile(t, rules.Config{Rules: []rules.Rule{
		{Name: "r", Match: "true", Scope: []string{"peer", "peer.dns", "peer.uris[0]", "peer.emails", "peer.ips"}},
	}})
	scope := func(names ...string) string {
		peer := keyer.Peer{DNS: names, URIs: names, Emails: names, IPs: names}
		d, _, err := set.Subject(sidecar(t), peer).Decide(clusterURL)
		if err != nil || d.Failed != nil || !slices.Equal(peer.DNS, names) {
			t.Fatalf("Decide = %+v, %v, of %v", d, err, peer)
		}
		return d.Scope
	}
	names := []string{"b", "a", "c"}
	if a, b := scope("a", "b", "c"), scope(names...); a != b || !slices.Equal(names, []string{"b", "a", "c"}) {
		t.Errorf("AGG-1: scopes %s and %s of %q", a, b, names)
	}
	if a, b := scope("a", "b"), scope("a", "b", "c"); a == b {
		t.Errorf("AGG-1: scope %s of two and of three names", a)
	}
}

// AGG-2: what equals nothing, or is nested like no configuration, is no part of a scope.
func TestAGG2NoScopeValues(t *testing.T) {
	deep := structpb.NewStringValue("x")
	for range 200 {
		deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep}})
	}
	node := sidecar(t)
	node.Metadata.Fields["deep"] = deep
	for _, tc := range []struct{ name, part, want string }{
		{"AGG-2 not a number", `[0.0 * node.metadata.shard / 0.0]`, "not a number (NaN) equals nothing, not even itself"},
		{"AGG-2 depth", `node.metadata.deep`, "the value is nested deeper than 64 levels"},
		{"AGG-2 depth in a message", `node`, "the value is nested deeper than 64 levels"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := scopeBy(t, node, tc.part)
			if want := fmt.Sprintf(`aggregation rule "r" fails: scope[0]: %s: %s`, tc.part, tc.want); err == nil || err.Error() != want {
				t.Errorf("failed: %v, want %s", err, want)
			}
		})
	}
}

// AGG-3: features that stay the client's upstream tell scopes apart, others do not.
func TestAGG3ScopeFeatures(t *testing.T) {
	node := func(features ...string) *corev3.Node { return &corev3.Node{Cluster: "web", ClientFeatures: features} }
	for _, tc := range []struct {
		node *corev3.Node
		want string
	}{
		{node(), `r["web"]`},
		{node("xds.config.resource-in-sotw"), `r["web"]`},
		{node("envoy.lb.y", "z", "envoy.lb.x", "envoy.lb.y"), `r["web"]["envoy.lb.x","envoy.lb.y","z"]`},
	} {
		if got, err := scopeBy(t, tc.node, "node.cluster"); got != tc.want || err != nil {
			t.Errorf("AGG-3: scope %s, %v, want %s", got, err, tc.want)
		}
	}
}

// AGG-1: another process gives the same scopes: relays next to each other, and one before
// and after a restart, name the same things alike.
func TestAGG1ScopeInAnotherProcess(t *testing.T) {
	const asked = "XDSRELAY_TEST_SCOPE"
	node := sidecar(t)
	for i := range 50 {
		node.Metadata.Fields[fmt.Sprint("key", i)] = structpb.NewNumberValue(float64(i))
	}
	scope, err := scopeBy(t, node, "node", "node.metadata")
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(scope)))
	if os.Getenv(asked) != "" {
		fmt.Println("scope", sum)
		return
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAGG1ScopeInAnotherProcess$")
	command.Env = append(os.Environ(), asked+"=1")
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(output), "scope "+sum) {
		t.Errorf("AGG-1: %s here, there %s", sum, output)
	}
}
