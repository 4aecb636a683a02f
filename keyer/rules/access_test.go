package rules

import (
	"reflect"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
)

const (
	clusters = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	secrets  = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
)

func none(t testing.TB, problems []Problem) {
	t.Helper()
	if len(problems) > 0 {
		t.Fatalf("the rules do not compile: %v", problems)
	}
}

func holds(t *testing.T, ok bool, why ...string) {
	t.Helper()
	if !ok {
		t.Error("it does not hold", why)
	}
}

func same(t *testing.T, want, got any, why ...string) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Errorf("expected %+v, got %+v %v", want, got, why)
	}
}

func contains(t *testing.T, text, part string, why ...string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("expected %q to contain %q %v", text, part, why)
	}
}

// accessOf compiles access rules for a client of the team "shop".
func accessOf(t testing.TB, allow bool, list ...AccessRule) *AccessSubject {
	t.Helper()
	a, problems := CompileAccess(AccessConfig{Rules: list, Allow: allow, Types: map[string]bool{secrets: true}})
	none(t, problems)
	return a.Subject(&corev3.Node{Id: "n1", Cluster: "shop"}, keyer.Peer{SPIFFE: "spiffe://td/shop"})
}

func TestAccess_ACC2_firstMatchDecides(t *testing.T) {
	s := accessOf(t, true,
		AccessRule{Name: "own", Match: `name.startsWith(node.cluster + "/")`, Allow: true},
		AccessRule{Name: "rest", Match: `type == cds && name != "*"`})
	_, byName := s.Type(clusters)
	holds(t, byName)
	same(t, AccessDecision{Allowed: true, Rule: "own"}, s.Name(clusters, "shop/a"))
	same(t, AccessDecision{Rule: "rest"}, s.Name(clusters, "other/a"))
	same(t, AccessDecision{Allowed: true, Rule: Otherwise}, s.Name(clusters, "*"))
}

func TestAccess_ACC2_seesThePartsOfAnXdstpName(t *testing.T) {
	s := accessOf(t, false,
		AccessRule{Name: "own", Match: `xdstp.authority == "a.example" && xdstp.id.startsWith(node.cluster) && xdstp.context["zone"] == "z1" && xdstp.type.endsWith("Cluster") && listener == "default"`, Allow: true})
	const prefix = "xdstp://a.example/envoy.config.cluster.v3.Cluster/"
	holds(t, s.Name(clusters, prefix+"shop/a?zone=z1").Allowed)
	holds(t, !(s.Name(clusters, prefix+"other/a?zone=z1").Allowed))
	holds(t, !s.Name(clusters, "shop/a").Allowed, "an opaque name has no parts")
	d := s.Name(clusters, prefix+"shop/a")
	holds(t, !d.Allowed)
	contains(t, d.Failed, "no such key: zone", "an expression that fails denies")
}

func TestAccess_ACC2_aRuleThatFailsDenies(t *testing.T) {
	s := accessOf(t, true,
		AccessRule{Name: "broken", Match: `node.metadata.tenant == "x"`},
		AccessRule{Name: "all", Match: "true", Allow: true})
	d, byName := s.Type(clusters)
	holds(t, !byName)
	holds(t, !d.Allowed)
	same(t, "broken", d.Rule)
	contains(t, d.Failed, "no such key: tenant")
}

func TestAccess_ACC4_secretsNeedARule(t *testing.T) {
	s := accessOf(t, true)
	for typeURL, allowed := range map[string]bool{clusters: true, secrets: false, secrets + "Collection": false} {
		d, byName := s.Type(typeURL)
		holds(t, !byName)
		same(t, AccessDecision{Allowed: allowed, Rule: Otherwise}, d, typeURL)
	}
	s = accessOf(t, true, AccessRule{Name: "own", Match: `type == sds && name == "cert-" + node.cluster`, Allow: true, Secrets: true})
	holds(t, s.Name(secrets, "cert-shop").Allowed)
	holds(t, !(s.Name(secrets, "cert-other").Allowed))
	d, byName := s.Type(clusters)
	holds(t, d.Allowed && !byName, "the rule does not look at the name of a cluster")
}

// A client cannot ask for secrets by another spelling of their type.
func TestAccess_ACC4_otherURLsOfSecrets(t *testing.T) {
	s := accessOf(t, true)
	message := secrets[strings.LastIndexByte(secrets, '/')+1:]
	for _, url := range []string{secrets, secrets + "Collection", message, "/" + message, "example.org/" + message, "x/" + secrets} {
		holds(t, !s.Name(url, "x").Allowed, url)
	}
	holds(t, s.Name(secrets+"s", "x").Allowed)
}

// formsOfSecrets are the type URLs that a control plane may take for those of secrets.
var formsOfSecrets = []string{
	secrets, secrets + "Collection", "type.googleapis.com/envoy.api.v2.auth.Secret", "type.googleapis.com/envoy.api.v2.auth.SecretCollection",
	"envoy.api.v2.auth.Secret", "example.org/envoy.api.v2.auth.Secret", "/" + messageOf(secrets), "example.org/a/" + messageOf(secrets) + "Collection",
}

// The example of docs/security.md: a client gets the secrets of its cluster in each form, and no others, though a rule
// behind allows everything else.
func TestAccess_ACC4_formsOfSecrets(t *testing.T) {
	s := accessOf(t, false,
		AccessRule{Name: "own", Match: `type == sds && name.startsWith("secrets/" + node.cluster + "/")`, Allow: true, Secrets: true},
		AccessRule{Name: "no-other", Match: "type == sds"},
		AccessRule{Name: "else", Match: "true", Allow: true})
	for _, url := range formsOfSecrets {
		same(t, AccessDecision{Allowed: true, Rule: "own"}, s.Name(url, "secrets/shop/a"), url)
		same(t, AccessDecision{Rule: "no-other"}, s.Name(url, "secrets/web/a"), url)
		same(t, AccessDecision{Rule: "no-other"}, s.Name(url, "*"), url)
	}
	for _, url := range []string{clusters, secrets + "s", "type.googleapis.com/example.Secret", "envoy.api.v2.auth.secret", "Secret"} {
		same(t, AccessDecision{Allowed: true, Rule: "else"}, s.Name(url, "x"), url)
	}
}

// A rule that allows without the key for secrets leaves them, in each form, to the rules behind it.
func TestAccess_ACC4_rulesThatPassSecrets(t *testing.T) {
	all := AccessRule{Name: "all", Match: "true", Allow: true}
	for _, url := range formsOfSecrets {
		for want, list := range map[AccessDecision][]AccessRule{
			{Rule: Otherwise}:             {all},
			{Rule: "all", Allowed: true}:  {{Name: "all", Match: "true", Allow: true, Secrets: true}},
			{Rule: "last", Allowed: true}: {all, {Name: "last", Match: "true", Allow: true, Secrets: true}},
			{Rule: "none"}:                {{Name: "fails", Match: `node.metadata.a == "b"`, Allow: true}, {Name: "none", Match: "true"}},
		} {
			s := accessOf(t, true, list...)
			same(t, want, s.Name(url, "x"), url)
			if results, d, _ := s.Explain(url, new("x")); d != want || len(results) != len(list) {
				t.Errorf("ACC-4: explained: %+v, %+v", results, d)
			}
		}
	}
	s := accessOf(t, false, all)
	results, _, _ := s.Explain(secrets, nil)
	same(t, RuleResult{Rule: "all", Result: DoesNotMatch, Why: "it gives no secrets (secrets: true)"}, results[0])
	holds(t, s.Differs(accessOf(t, false, AccessRule{Name: "all", Match: "true", Allow: true, Secrets: true}), secrets))
	_, problems := CompileAccess(AccessConfig{Rules: []AccessRule{
		all, {Name: "secrets", Match: "true", Allow: true, Secrets: true}, {Name: "more", Match: "type == cds", Allow: true},
	}})
	same(t, 1, len(problems))
	same(t, 2, problems[0].Rule)
}

// Which rules lose secrets because they lack the key.
func TestWithoutSecrets_ACC4(t *testing.T) {
	list := []AccessRule{
		{Name: "a", Match: "type == cds", Allow: true}, {Name: "b", Match: `name == "x"`, Allow: true}, {Name: "c", Match: `peer.spiffe == name`, Allow: true},
		{Name: "d", Match: `name == "y"`}, {Name: "e", Match: `listener == "z" && type in [eds, sds]`, Allow: true},
		{Name: "f", Match: "type == sds && name == node.id", Allow: true, Secrets: true}, {Name: "g", Match: "type == sds"}, {Name: "h", Match: "true", Allow: true},
	}
	a, problems := CompileAccess(AccessConfig{Rules: list, Types: map[string]bool{secrets: true}})
	none(t, problems)
	for _, url := range formsOfSecrets {
		same(t, []int{1, 2, 4}, a.WithoutSecrets(url), url)
	}
}

// A rule about a type is for every URL of its message.
func TestAccess_ACC2_otherURLsOfTypes(t *testing.T) {
	s := accessOf(t, true, AccessRule{Name: "none", Match: `type == cds && name != "y"`})
	message := clusters[strings.LastIndexByte(clusters, '/')+1:]
	for _, url := range []string{clusters, message, "/" + message, "example.org/" + message} {
		d := s.Name(url, "x")
		holds(t, !d.Allowed && d.Rule == "none", url)
		holds(t, s.Name(url, "y").Allowed, url)
	}
	holds(t, s.Name("example.org/other.v3.Cluster", "x").Allowed)
}

// A rule that decides whatever the name is ends the list that names are left to.
func TestAccess_ACC2_namesAreLeftToFewRules(t *testing.T) {
	s := accessOf(t, true,
		AccessRule{Name: "routes", Match: `type == rds && name == "x"`},
		AccessRule{Name: "name", Match: `type == cds && name == "x"`, Allow: true},
		AccessRule{Name: "team", Match: `node.cluster == "shop"`},
		AccessRule{Name: "last", Match: "true", Allow: true})
	holds(t, s.Name(clusters, "x").Allowed)
	same(t, "team", s.Name(clusters, "y").Rule)
	same(t, 2, len(s.types[clusters].open))
}

func TestAccess_differs(t *testing.T) {
	own := AccessRule{Name: "own", Match: `name.startsWith(node.cluster)`, Allow: true}
	old := accessOf(t, false, own)
	holds(t, !old.Differs(accessOf(t, false, own), clusters))
	holds(t, old.Differs(accessOf(t, true, own), clusters), "otherwise is another")
	holds(t, old.Differs(accessOf(t, false), clusters), "no name is allowed any more")
	own.Allow = false
	holds(t, old.Differs(accessOf(t, false, own), clusters), "the rule denies")
	other := AccessRule{Name: "other", Match: `node.cluster == "web"`}
	holds(t, !(accessOf(t, true).Differs(accessOf(t, true, other), clusters)), "the rule is for another client")
}

func TestCompileAccess_problems(t *testing.T) {
	for _, test := range []struct{ match, expected string }{
		{"", "missing: match"},
		{`upstream == "a"`, `"upstream" is not for access rules`},
		{"name", "must be true or false"},
		{"xdstp.nobody == ''", "undefined field"},
		{"1 == 1", "does not depend on the client"},
	} {
		_, problems := CompileAccess(AccessConfig{Rules: []AccessRule{{Name: "r", Match: test.match}}})
		same(t, 1, len(problems))
		contains(t, problems[0].Message, test.expected)
	}
	_, problems := CompileAccess(AccessConfig{Rules: []AccessRule{{Name: "a", Match: "true"}, {Name: "b", Match: "type == sds"}, {Match: "false"}}})
	same(t, 2, len(problems))
	contains(t, problems[0].Message, "never reached")
	contains(t, problems[1].Message, "missing")
}

// Which rule may give secrets to a client of whom nothing is known.
func TestAllowsUnknown_ACC4(t *testing.T) {
	const secrets = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	allow := func(match string) AccessRule { return AccessRule{Match: match, Allow: true, Secrets: true} }
	deny := func(match string) AccessRule { return AccessRule{Match: match} }
	for _, test := range []struct {
		rules    []AccessRule
		expected int
	}{
		{nil, -1},
		{[]AccessRule{allow("true")}, 0},
		{[]AccessRule{allow("type == cds"), allow("type == sds")}, 1},
		{[]AccessRule{allow("type == sds && name == node.id")}, 0},
		{[]AccessRule{allow("xdstp.authority == node.cluster")}, 0},
		{[]AccessRule{allow(`type == sds && peer.spiffe == "spiffe://a/b"`)}, -1},
		{[]AccessRule{allow(`type == sds && peer.spiffe == "spiffe://a/" + node.id`)}, -1},
		{[]AccessRule{allow("type == sds && name == peer.spiffe"), allow("type == sds")}, 1},
		{[]AccessRule{deny("type == sds"), allow("true")}, -1},
		{[]AccessRule{{Match: "true", Allow: true}}, -1},
		{[]AccessRule{{Match: "true", Allow: true}, allow("true")}, 1},
		{[]AccessRule{deny(`name == "a"`), allow("true")}, 1},
		{[]AccessRule{deny(`peer.spiffe == ""`), allow("true")}, -1},
		{[]AccessRule{allow(`listener == "local"`)}, -1},
		{[]AccessRule{allow(`listener == "open"`)}, 0},
		{[]AccessRule{deny(`peer.dns[0] == "a"`), allow("true")}, -1}, // it fails, and denies
	} {
		for i := range test.rules {
			test.rules[i].Name = string(rune('a' + i))
		}
		a, problems := CompileAccess(AccessConfig{Rules: test.rules, Types: map[string]bool{secrets: true}})
		none(t, problems)
		if got := a.AllowsUnknown(secrets, "open"); got != test.expected {
			t.Errorf("ACC-4: %v: got %d, want %d", test.rules, got, test.expected)
		}
	}
}

// Ten rules, of which half look at the name.
func tenRules() (list []AccessRule) {
	for _, team := range []string{"a", "b", "c", "d", "e"} {
		list = append(list,
			AccessRule{Name: "team-" + team, Match: `node.cluster == "` + team + `" && type == cds`},
			AccessRule{Name: "name-" + team, Match: `name.startsWith("` + team + `/") && node.cluster != "` + team + `"`})
	}
	return list
}

// What a client's join costs with ten access rules.
func BenchmarkAccessJoin(b *testing.B) {
	a, problems := CompileAccess(AccessConfig{Rules: tenRules(), Allow: true})
	none(b, problems)
	node := &corev3.Node{Id: "n1", Cluster: "shop"}
	b.ReportAllocs()
	for b.Loop() {
		s := a.Subject(node, keyer.Peer{})
		if _, byName := s.Type(clusters); !byName {
			b.Fatal("the rules look at names")
		}
		if !s.Name(clusters, "*").Allowed {
			b.Fatal("denied")
		}
	}
}

// What one name costs with ten access rules.
func BenchmarkAccessName(b *testing.B) {
	a, problems := CompileAccess(AccessConfig{Rules: tenRules(), Allow: true})
	none(b, problems)
	s := a.Subject(&corev3.Node{Id: "n1", Cluster: "shop"}, keyer.Peer{})
	b.ReportAllocs()
	for b.Loop() {
		if !s.Name(clusters, "shop/cluster-1").Allowed {
			b.Fatal("denied")
		}
	}
}

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

// What the first three types of a client cost when it joins, with the rules of a fleet.
func BenchmarkJoin(b *testing.B) {
	a, problems := CompileAccess(AccessConfig{Rules: fleetRules()})
	none(b, problems)
	node, peer := &corev3.Node{Id: "client-1", Cluster: "bench"}, keyer.Peer{}
	b.ReportAllocs()
	for b.Loop() {
		for _, typeURL := range []string{clusters, secrets, "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"} {
			if _, byName := a.Subject(node, peer).Type(typeURL); byName {
				b.Fatal("the rules look at names")
			}
		}
	}
}
