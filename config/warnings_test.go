package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWarnings(t *testing.T) {
	const upstream = "upstreams:\n  - {name: a, default: true, endpoints: [\"127.0.0.1:1\"]}\n"
	plain := func(more string) string {
		return "upstreams:\n  - {name: a, default: true, endpoints: [[a:1, \"[::1]:1\"]]" + more + "}\n"
	}
	for name, tt := range map[string]struct {
		content string
		want    []string // the place, and a part of the message
	}{
		"loopback": {upstream, nil},
		"other spellings of loopback": {upstream + `
server: {listen: "localhost:1", rest_listen: "[::ffff:127.0.0.1]:2"}
admin: {listen: "LOCALHOST.:3"}
`, nil},
		"unix sockets": {upstream + "server: {listen: unix:///run/a}\nadmin: {listen: unix:///run/b}\n", nil},
		"ACC-7 admin":  {upstream + "admin: {listen: \":19100\"}\n", []string{"3:17: admin.listen: everybody who reaches :19100 "}},
		"plaintext": {upstream + "server:\n  listen: 0.0.0.0:1\n  rest_listen: \"[::]:2\"\n  listeners:\n    - {name: b, listen: b.example.com:3}\n", []string{
			"4:11: server.listen: everybody on the way to 0.0.0.0:1 ",
			"5:16: server.rest_listen: everybody on the way to [::]:2 ",
			"7:25: server.listeners[0].listen: everybody on the way to b.example.com:3 ",
		}},
		"clients of whom nothing is known": {upstream + "server: {listen: \":1\", tls: {cert_file: a, key_file: b}}\n", []string{"3:18: server.listen: everybody who reaches :1 can present any node"}},
		"SPIFFE":                           {upstream + "server: {listen: \":1\", tls: {spiffe: {}}}\nadmin: {listen: \":2\", tls: {spiffe: {}}}\n", nil},
		"ACC-1 any workload": {plain(", tls: {spiffe: {trust_domains: [td]}}"), []string{
			"2:75: upstreams[0].tls.spiffe: every workload of the trust domain can pose as the server",
		}},
		"ACC-1 one workload": {plain(", tls: {spiffe: {server_ids: [spiffe://td/a]}}"), nil},
		"mutual TLS":         {upstream + "server: {listen: \":1\", tls: {cert_file: a, key_file: b, client_ca_file: c}}\n", nil},
		"streams of one type that are served 1:1": {upstream + "passthrough:\n  - {type: eds}\n  - {}\n", []string{
			"4:12: passthrough[0].type: the rule selects streams of envoy.service.endpoint.v3.EndpointDiscoveryService only",
		}},
		"channelz": {upstream + "server: {listen: \":1\", debug_services: true, tls: {cert_file: a, key_file: b, client_ca_file: c}}\n", []string{
			"3:40: server.debug_services: channelz shows ",
		}},
		"tokens": {upstream + "server: {listen: \":1\", tls: {cert_file: a, key_file: b}, identity: {jwt: [{issuer: \"https://a\", audiences: [b], jwks_file: c}]}}\n", nil},
		"tokens of one listener": {upstream + "server: {listen: \":1\", tls: {cert_file: a, key_file: b}, listeners: [{name: l, listen: \":2\", " +
			"tls: {cert_file: a, key_file: b}, identity: {jwt: [{issuer: \"https://a\", audiences: [b], jwks_file: c}]}}]}\n", []string{"3:18: server.listen: everybody who reaches :1 "}},
		"ACC-4 secrets": {upstream + "access: {rules: [{name: r, match: type == sds, effect: allow, secrets: true}]}\n", []string{
			"3:35: access.rules[0].match: the rule may give secrets to clients of the listener \"default\"",
		}},
		"ACC-4 secrets of the second listener": {upstream + "server: {listen: unix:///run/a, listeners: [{name: l, listen: \"127.0.0.1:2\"}]}\n" +
			"types: {secret: [sds, cds]}\naccess: {rules: [{name: r, match: \"true\", effect: allow, secrets: true}]}\n", []string{"clients of the listener \"l\""}},
		"ACC-4 secrets through a socket": {upstream + "server: {listen: unix:///run/a}\naccess: {rules: [{name: r, match: type == sds, effect: allow, secrets: true}]}\n", nil},
		"ACC-4 polls of secrets": {upstream + "server: {listen: unix:///run/a, rest_listen: \"127.0.0.1:2\"}\n" +
			"access: {rules: [{name: r, match: type == sds, effect: allow, secrets: true}]}\n", []string{"clients of the listener \"default\""}},
		"ACC-4 secrets of some listeners": {upstream + "server: {listeners: [{name: l, listen: unix:///run/a}]}\n" +
			"access: {rules: [{name: r, match: type == sds && listener == \"l\", effect: allow, secrets: true}]}\n", nil},
		"ACC-4 secrets for verified clients": {upstream + "server: {listeners: [{name: l, listen: unix:///run/a}]}\n" +
			"access: {rules: [{name: r, match: type == sds, effect: allow, secrets: true}], verify: [{name: v, require: peer.uid == 0}]}\n", nil},
		"ACC-4 secrets by a listener's own rules": {upstream + "server: {listen: unix:///run/a, listeners: [{name: l, listen: \"127.0.0.1:2\", " +
			"access: {rules: [{name: r, match: type == sds, effect: allow, secrets: true}]}}]}\n", []string{
			"server.listeners[0].access.rules[0].match: the rule may give secrets to clients of the listener \"l\"",
		}},
		"ACC-4 no secrets by a listener's own rules": {upstream + "server: {listen: unix:///run/a, listeners: [{name: l, listen: \"127.0.0.1:2\", access: {}}]}\n" +
			"access: {rules: [{name: r, match: type == sds, effect: allow, secrets: true}]}\n", nil},
		"ACC-4 rules that may match secrets and do not give them": {upstream + "access:\n  rules:\n" +
			"    - {name: a, match: type == cds, effect: allow}\n    - {name: b, match: name == node.id, effect: allow}\n" +
			"    - {name: c, match: peer.spiffe == name, effect: allow}\n    - {name: d, match: type == sds, effect: deny}\n" +
			"    - {name: e, match: \"true\", effect: allow}\n" + "server: {listen: unix:///run/a}\n", []string{
			`6:24: access.rules[1].match: the rule "b" gives no secrets, though it may match them: expected secrets: true, or a match without them`,
			`access.rules[2].match: the rule "c" gives no secrets`,
		}},
		"ACC-5 the first client of a listener with rules of its own": {
			upstream + "aggregation: {rules: [{name: r, match: \"true\", scope: [], node: first}]}\n" +
				"access: {verify: [{name: v, require: node.id != \"\"}]}\nserver: {listeners: [{name: l, listen: unix:///run/a, access: {}}]}\n",
			[]string{"expected rules in server.listeners[0].access.verify"},
		},
		"NAME-3 names that no name equals": {upstream + "access:\n  rules:\n" +
			"    - {name: a, match: 'name == \"xdstp://a/t/b\"', effect: deny}\n" +
			"    - {name: b, match: 'name in [\"x\", \"xdstp://a/t/%62\", \"xdstp:///t/b?z=1&y=2\"]', effect: deny}\n" +
			"    - {name: c, match: '\"xdstp://a\" != name && name.startsWith(\"xdstp://a/t/%62\")', effect: deny}\n", []string{
			`6:24: access.rules[1].match: no name equals "xdstp://a/t/%62", because rules see names in their canonical form: expected "xdstp://a/t/b"`,
			`expected "xdstp:///t/b?y=2&z=1"`,
			`no name equals "xdstp://a", because rules see names in their canonical form: expected an xdstp name`,
		}},
		"ACC-1 certificates of two CAs": {upstream + "server:\n  listen: 127.0.0.1:1\n  tls: {cert_file: a, key_file: a, client_ca_file: one.crt}\n" +
			"  listeners: [{name: l, listen: \"127.0.0.1:2\", tls: {cert_file: a, key_file: a, client_ca_file: two.crt}}]\n" +
			"access:\n  rules:\n    - {name: a, match: peer.subject == name, effect: deny}\n    - {name: b, match: 'peer.subject == name && listener == \"l\"', effect: deny}\n" +
			"  verify:\n    - {name: c, require: peer.subject == node.id}\n    - {name: d, require: 'peer.subject == node.id || listener == \"l\"'}\n", []string{
			"access.rules[0].match: the expression believes certificates of the CAs of the listeners default, l alike",
			"access.verify[0].require: the expression believes certificates",
		}},
		"ACC-1 certificates of one CA": {upstream + "server:\n  listen: 127.0.0.1:1\n  tls: {cert_file: a, key_file: a, client_ca_file: one.crt}\n" +
			"  listeners: [{name: l, listen: \"127.0.0.1:2\", tls: {cert_file: a, key_file: a, client_ca_file: one.crt}}, {name: m, listen: \"127.0.0.1:3\", access: {}, tls: {cert_file: a, key_file: a, client_ca_file: two.crt}}]\n" +
			"access: {verify: [{name: c, require: peer.subject == node.id}]}\n", nil},
		"ACC-5 the first client": {upstream + "aggregation: {rules: [{name: r, match: \"true\", scope: [], node: first}]}\n", []string{
			"3:65: aggregation.rules[0].node: the node of a scope's first client ",
		}},
		"ACC-5 a first client that is verified": {upstream + "aggregation: {rules: [{name: r, match: \"true\", scope: [], node: first}]}\n" +
			"access: {verify: [{name: v, require: node.id != \"\"}]}\n", nil},
		"ACC-5 a first client whose verification is not enforced": {upstream + "aggregation: {rules: [{name: r, match: \"true\", scope: [], node: first}]}\n" +
			"access: {verify: [{name: v, require: node.id != \"\", enforce: false}]}\n", []string{"expected rules in access.verify"}},
		"a scope for each client": {upstream + "aggregation: {rules: [{name: a, match: type == cds, scope: [node.id]}, {name: b, match: \"true\", scope: [node.id]}]}\n", []string{
			"aggregation.rules[1].scope[0]: each client has a scope",
		}},
		"peers of whom nothing is known": {upstream + "aggregation: {rules: [{name: a, match: \"true\", scope: [peer.spiffe]}]}\n", []string{
			"aggregation.rules[0]: the expression looks at peer: expected server.tls.client_ca_file",
		}},
		"peers of a unix socket": {upstream + "server: {listen: unix:///run/a}\naggregation: {rules: [{name: a, match: \"true\", scope: [peer.uid]}]}\n", nil},
		"variables": {upstream + "node: {id: \"${POD_NAME}\", cluster: a$b}\ncache: {dir: /x/$(HOST)}\n", []string{
			"3:12: node.id: the relay replaces no variables, and takes ${POD_NAME} as it is: set XDSRELAY_NODE_ID instead",
			"4:14: cache.dir: the relay replaces no variables, and takes $(HOST) as it is: set XDSRELAY_CACHE_DIR instead",
		}},
		"keys for anchors":         {"x-tls: &t {ca_file: a}\n" + strings.Replace(upstream, "\"]}", "\"], tls: *t}", 1), nil},
		"ACC-6 tokens":             {plain(", credentials: {token_file: t}"), []string{"2:87: upstreams[0].credentials.token_file: everybody on the way"}},
		"ACC-6 tokens of SPIFFE":   {plain(", credentials: {spiffe: {audiences: [a]}}"), []string{"upstreams[0].credentials.spiffe: everybody on the way"}},
		"ACC-6 SPIFFE within TLS":  {plain(", tls: {}, credentials: {spiffe: {audiences: [a]}}"), nil},
		"ACC-6 static tokens":      {plain(", metadata: {authorization: t, x: y}"), []string{"upstreams[0].metadata.authorization: everybody on the way"}},
		"ACC-6 tokens of clients":  {plain(", forward: [x-token]"), []string{"upstreams[0].forward: everybody on the way to the servers can read the values of clients"}},
		"ACC-6 no token":           {plain(", metadata: {x: y}"), nil},
		"ACC-6 tokens within TLS":  {plain(", tls: {}, forward: [x-token]"), nil},
		"ACC-6 tokens to loopback": {strings.Replace(plain(", forward: [x-token]"), "a:1", "127.0.0.9:1", 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustParse(t, tt.content)
			all := c.Warnings()
			if len(all) != len(tt.want) {
				t.Fatalf("%d warnings, want %d: %v", len(all), len(tt.want), all)
			}
			for i, w := range all {
				if !strings.HasPrefix(w.Error(), "test.yaml:") || !strings.Contains(w.Error(), tt.want[i]) {
					t.Errorf("got %v, want %s", w, tt.want[i])
				}
			}
		})
	}
}

// The example of docs/security.md has nothing that is worth a warning.
func TestWarningsOfExamples(t *testing.T) {
	for _, file := range []string{"../examples/hardened.yaml", "../examples/production.yaml", "../examples/minimal.yaml"} {
		c, err := Load(file, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]*Error(nil), c.Warnings()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// A rule in shadow gives no secrets (ACC-4).
func TestSecretsDenied_ACC4(t *testing.T) {
	for enforce, want := range map[string]bool{"true": false, "false": true} {
		c := mustParse(t, "upstreams: [{name: a, default: true, endpoints: [\"a:1\"]}]\n"+
			"access: {rules: [{name: s, match: type == sds, effect: allow, secrets: true, enforce: "+enforce+"}]}\n")
		if _, all := c.SecretsDenied(); all != want {
			t.Errorf("ACC-4: enforce: %s: no listener gives secrets: %t, want %t", enforce, all, want)
		}
	}
}
