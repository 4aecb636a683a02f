package config

import (
	"strings"
	"testing"
)

// Rules that look at a user, a token or a listener can be tested like those that look at a
// certificate.
func TestRuleTestsOfPeers_AGG4_ACC1(t *testing.T) {
	c := mustParse(t, `
server:
  listen: 127.0.0.1:18100
  listeners:
    - {name: node, listen: "unix:@xds"}
    - {name: tokens, listen: 127.0.0.1:18102, identity: {jwt: [{issuer: https://i, audiences: [xds], jwks_file: keys.json}]}}
upstreams: [{name: a, default: true, endpoints: ["127.0.0.1:1"]}]
aggregation:
  rules:
    - {name: local, match: listener == "node", scope: [peer.uid, peer.gid]}
    - {name: known, match: peer.token.sub != "", scope: [peer.token.sub, 'peer.token.claims["team"]']}
  tests:
    - {name: user, peer: {uid: 7, gid: 8}, listener: node, type: cds, rule: local, scope: [7, 8]}
    - {name: token, peer: {token: {iss: https://i, sub: web, aud: xds, team: shop, exp: 5}}, type: cds, rule: known, scope: [web, shop]}
    - {name: nobody, type: cds, rule: otherwise}
access:
  otherwise: deny
  rules:
    - {name: root, match: peer.uid == 0, effect: allow}
    - {name: audience, match: '"xds" in peer.token.aud && !("exp" in peer.token.claims)', effect: allow}
  tests:
    - {name: root, peer: {uid: 0, gid: 0}, type: cds, resource: a, effect: allow, rule: root}
    - {name: a token, peer: {token: {sub: web, aud: [xds, other], exp: 5}}, type: cds, resource: a, effect: allow, rule: audience}
    - {name: nobody, type: cds, resource: a, effect: deny, rule: otherwise}
`)
	results, err := c.TestRules()
	if err != nil {
		t.Fatal(err)
	}
	const tests = 6
	if len(results) != tests {
		t.Fatalf("AGG-4: %d tests ran, want %d", len(results), tests)
	}
	for _, r := range results {
		if r.Failure != nil {
			t.Errorf("AGG-4: %v", r.Failure)
		}
	}
}

// A name of a listener that does not exist says which there are.
func TestRuleTestListener_AGG4(t *testing.T) {
	_, err := Parse("x.yaml", []byte(minimal+`access:
  tests: [{name: a, listener: other, type: cds, resource: a, effect: allow}]
`))
	const want = `access.tests[0].listener: unknown listener "other", expected one of: default`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("AGG-4: %v, want %q", err, want)
	}
}
