package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
)

const minimal = `
upstreams:
  - name: primary
    default: true
    endpoints: [127.0.0.1:5678]
`

// sameValues leaves out where the values came from.
func sameValues() cmp.Option { return cmpopts.IgnoreUnexported(Config{}) }

func mustParse(t *testing.T, data string) *Config {
	t.Helper()
	c, err := Parse("test.yaml", []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParseEveryKey(t *testing.T) {
	data, err := os.ReadFile("testdata/every_key.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files := DefaultUpstream()
	files.Name, files.Authorities, files.Path = "two", []string{"b.example.com", "*.b.example.com"}, "/etc/xds"
	forwarding := DefaultUpstream()
	forwarding.Name, forwarding.Authorities, forwarding.Endpoints = "three", []string{"c.example.com"}, [][]string{{"c.example.com:443"}}
	forwarding.TLS = &UpstreamTLS{SPIFFE: &ClientSPIFFE{
		Socket: "unix:///run/spire/agent.sock", TrustDomains: []string{"example.org"}, ServerIDs: []string{"spiffe://example.org/xds"},
	}}
	forwarding.Credentials.SPIFFE = &TokenSPIFFE{Socket: "unix:///run/spire/agent.sock", Audiences: []string{"xds", "c.example.com"}}
	forwarding.Forward = []string{"x-team-token", "x-consul-token"}
	want := &Config{
		Server: Server{
			Listen:     ":18443",
			SocketMode: 0o600,
			TLS:        &ServerTLS{CertFile: "s.pem", KeyFile: "s.key", ClientCAFile: "clients.pem", ClientCRLFile: "revoked.pem"},
			TLSRefresh: Duration(2 * time.Minute),
			Identity: Identity{Recheck: Duration(8 * time.Minute), JWT: []Issuer{
				{Issuer: "https://a.example.com", Audiences: []string{"xds", "relay"}, JWKSFile: "keys.json"},
				{Issuer: "b", Audiences: []string{"xds"}, JWKSURL: "https://b.example.com/keys", JWKSCAFile: "b.pem", JWKSMaxAge: Duration(3 * time.Hour)},
			}},
			ProxyProtocol:    true,
			MaxMessageSize:   1 * MiB,
			MaxReceiveSize:   2 * MiB,
			AckWait:          Duration(3 * time.Second),
			RemovalWait:      Duration(300 * time.Millisecond),
			WarmWait:         Duration(400 * time.Millisecond),
			ListHold:         Duration(6 * time.Minute),
			UnreachableAfter: Duration(7 * time.Second),
			Drain:            Duration(4 * time.Second),
			MaxConnectionAge: Duration(22 * time.Minute),
			Keepalive:        Keepalive{Time: Duration(50 * time.Second), Timeout: Duration(6 * time.Second)},
			DebugServices:    true,
			RESTListen:       ":18444",
			RESTWait:         Duration(21 * time.Second),
			Listeners: []Listener{{
				Name: "local", Listen: "unix:///run/xdsrelay/xds.sock", SocketMode: 0o666, Protocol: ProtocolGRPC,
				Identity: Identity{Recheck: Duration(5 * time.Minute)},
				Access: &ListenerAccess{
					Otherwise: Deny,
					Rules:     []AccessRule{{Name: "own-secrets", Match: "type == sds && peer.uid == 101", Effect: Allow, Secrets: true}},
					Verify:    []VerifyRule{{Name: "own-user", Require: "peer.uid == 101"}},
				},
			}, {
				Name: "polls", Listen: ":18445", SocketMode: 0o660, Protocol: ProtocolREST, ProxyProtocol: true,
				TLS: &ServerTLS{CertFile: "p.pem", KeyFile: "p.key", ClientCAFile: "pollers.pem"},
				Identity: Identity{Recheck: Duration(9 * time.Minute), JWT: []Issuer{
					{Issuer: "c", Audiences: []string{"xds"}, JWKSURL: "http://[::1]:1/keys"},
				}},
			}, {
				Name: "mesh", Listen: ":18446", SocketMode: 0o660, Protocol: ProtocolGRPC, Identity: Identity{Recheck: Duration(5 * time.Minute)},
				TLS: &ServerTLS{SPIFFE: &SPIFFE{Socket: "unix:///run/spire/agent.sock", TrustDomains: []string{"example.org", "partner.example"}}},
			}, {
				Name: "relays", Listen: ":18447", SocketMode: 0o660, Protocol: ProtocolGRPC, Identity: Identity{Recheck: Duration(5 * time.Minute)},
				TLS: &ServerTLS{CertFile: "p.pem", KeyFile: "p.key", ClientCAFile: "edge.pem"},
			}},
		},
		Admin: Admin{
			Listen: "[::1]:19443", SocketMode: 0o660, Hosts: []string{"xdsrelay.example.com", "*.relays.svc"},
			TLS: &ServerTLS{CertFile: "admin.pem", KeyFile: "admin.key", ClientCAFile: "operators.pem", ClientCRLFile: "gone.pem"}, TokensFile: "/etc/xdsrelay/operators", ProbesListen: ":19102",
		},
		Upstreams: []Upstream{{
			Name:           "one",
			Default:        true,
			Authorities:    []string{"a.example.com", ""},
			APIType:        AggregatedGRPC,
			Endpoints:      [][]string{{"xds.example.com:443", "other.example.com:443"}, {"[2001:db8::1]:443"}},
			TLS:            &UpstreamTLS{CAFile: "ca.pem", CertFile: "c.pem", KeyFile: "c.key", ServerName: "xds"},
			TLSRefresh:     Duration(7 * time.Minute),
			Credentials:    Credentials{TokenFile: "/run/token"},
			Metadata:       Headers{"x-team": {"edge"}, "trace-bin": {"AAE="}, "x-list": {"a", "b"}},
			MaxReceiveSize: 8 * MiB,
			MaxRequestSize: 9 * MiB,
			ConnectTimeout: Duration(10 * time.Second),
			Keepalive:      Keepalive{Time: 0, Timeout: Duration(11 * time.Second)},

			ResponseTimeout: Duration(9 * time.Second),
			Wildcard:        ExplicitWildcard,
			Backoff:         Backoff{Base: Duration(12 * time.Millisecond), Max: Duration(13 * time.Second)},
			Failback:        Duration(14 * time.Second),
			Batch:           Duration(15 * time.Millisecond),
			NackWait:        NackWait(2 * time.Second),
			NackShare:       25,
			Settle:          Duration(16 * time.Second),
			ResumeSettle:    Duration(17 * time.Second),
			AbsentAfter:     Duration(22 * time.Second),
			Poll:            Poll{Interval: Duration(23 * time.Second), Timeout: Duration(24 * time.Second)},
			LoadReports:     LoadReportsOff,
			Guard:           Guard{Removed: 30, AtLeast: 40, Hold: Duration(25 * time.Second), SmallHold: Duration(15 * time.Second), WentBack: IgnoreBack, Except: []string{"cds"}, BehindRelays: true},
		}, files, forwarding},
		Node: Node{
			ID: "relay-1", Cluster: "relays",
			Locality: Locality{Region: "r", Zone: "z", SubZone: "s"},
			Metadata: Metadata{"Team": "Edge", "nested": map[string]any{"CamelCase": []any{1.5, true, nil, "x"}}},
		},
		Aggregation: Aggregation{
			Rules: []Rule{{
				Name:     "sidecars",
				Match:    `node.metadata.role == "sidecar" && type in [lds, cds]`,
				Scope:    []string{"node.cluster", "node.locality.zone"},
				Upstream: "two",
				Node: RuleNode{
					ID: `"relay-" + node.cluster`, Cluster: "node.cluster",
					Locality: Locality{Region: `"r"`, Zone: "node.locality.zone", SubZone: `""`},
					Metadata: Expressions{"Role": `"sidecar"`, "cluster.id": "node.cluster"},
				},
			}, {Name: "the-rest_1.0", Match: "true", Scope: []string{}, Node: RuleNode{First: true}}},
			Otherwise: Share,
			Linger:    Duration(17 * time.Minute),
			Tests: []RuleTest{{
				Name: "a sidecar",
				Node: map[string]any{
					"cluster": "shop", "locality": map[string]any{"zone": "z1"},
					"metadata": map[string]any{"role": "sidecar", "weights": []any{1.0, true, nil}},
				},
				Peer: TestPeer{
					SPIFFE: "spiffe://td/shop", Subject: "CN=shop", DNS: []string{"shop"}, URIs: []string{"spiffe://td/shop"},
					Emails: []string{"shop@example.com"}, IPs: []string{"192.0.2.1"},
					UID: new(1001), GID: new(1002), Token: Metadata{"iss": "c", "sub": "shop", "aud": "xds"},
				},
				Listener: "default",
				Type:     "cds",
				Resource: "*",
				Rule:     "sidecars",
				Scope:    Values{"shop", "z1"},
				Upstream: "two",
				Refused:  new(false),
				Fails:    new(false),
			}, {
				Name: "anything", Node: "nodes/gateway.yaml", Type: "type.googleapis.com/example.T", Rule: "the-rest_1.0", Scope: Values{},
			}},
		},
		Access: Access{
			Otherwise: Deny,
			Rules: []AccessRule{{
				Name: "own-cluster", Match: `name.startsWith(node.cluster + "/") || xdstp.authority == node.cluster`, Effect: Allow, Secrets: true, Shadow: true,
			}},
			Verify: []VerifyRule{{Name: "own-node", Require: `peer.spiffe == "spiffe://td/" + node.cluster`, Shadow: true}},
			Shadow: true,
			Tests: []AccessTest{{
				Name: "another cluster",
				Node: map[string]any{"cluster": "shop"},
				Peer: TestPeer{
					SPIFFE: "spiffe://td/shop", Subject: "CN=shop", DNS: []string{"shop"}, URIs: []string{"spiffe://td/shop"},
					Emails: []string{"shop@example.com"}, IPs: []string{"192.0.2.1"},
					UID: new(1001), GID: new(1002), Token: Metadata{"iss": "c", "sub": "shop", "aud": []any{"xds"}},
				},
				Listener: "default", Type: "cds", Resource: "web/checkout", Effect: Deny, Rule: "otherwise",
			}},
		},
		Types:       Types{Secret: []string{"sds", "type.googleapis.com/example.Key"}},
		Passthrough: []PassRule{{Upstream: "one", Scope: "edge", Type: "eds"}},
		Ready:       Ready{Unserved: UnservedOff},
		Peers: Peers{
			Addresses: []string{"relays.xds.svc:18443", "192.0.2.9:18443"}, Identities: []string{"spiffe://td/relay", "urn:example:relay"},
			Listen: ":18448", Secrets: true, MaxBytes: 64 * MiB,
			TLS: PeersTLS{CAFile: "relays.pem", CertFile: "p.pem", KeyFile: "p.key"},
		},
		Cache:   Cache{MaxResources: 18, MaxBytes: 19 * MiB, Idle: Duration(20 * time.Minute), Generations: 21, Dir: "/var/lib/xdsrelay", SnapshotEvery: Duration(45 * time.Second)},
		Resolve: Resolve{AlternativeAfter: Duration(25 * time.Second)},
		Limits: Limits{
			StreamsPerConnection: 31, Streams: 36, Share: 37, Scopes: 35, FirstRequest: Duration(32 * time.Second), RequestsPerSecond: 33, Subscriptions: 5,
			NamesBytes: 38 * MiB, NamesTotal: Memory(512 * MiB), NameBytes: KiB, NodeBytes: 34 * KiB, RESTBytes: 39 * MiB, PollsPerClient: 40, UnknownTypes: 41, Memory: Memory(1536 * MiB), Admission: AdmissionOff, JoinWait: Duration(42 * time.Second), UnfinishedBytes: 40 * MiB, Connections: 38, ConnectionsPerSecond: 39,
		},
		Log:   Log{Level: LevelDebug, Format: FormatJSON, PerMinute: 61},
		Audit: Audit{To: "/var/log/xdsrelay/audit.json", Level: AuditAll},

		FullStateTypes: []string{"lds", "type.googleapis.com/example.Full"},
	}
	got := mustParse(t, string(data))
	if diff := cmp.Diff(want, got, sameValues()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The file is to hold every key there is, so that none is left unread.
	for _, l := range leaves(reflect.ValueOf(got), reflect.TypeFor[*Config](), "") {
		// Certificates come from files or from SPIFFE: a section has one of them. See TestParseSPIFFE.
		if _, given := got.from[l.path]; !given && !strings.Contains(l.path, ".tls.spiffe.") {
			t.Errorf("%s is not in the file", l.path)
		}
	}
	for _, l := range leaves(reflect.Value{}, reflect.TypeFor[Rule](), "") {
		if _, given := got.from["aggregation.rules[0]."+l.path]; !given {
			t.Errorf("aggregation.rules[].%s is not in the file", l.path)
		}
	}
	for _, l := range leaves(reflect.Value{}, reflect.TypeFor[VerifyRule](), "") {
		if _, given := got.from["access.verify[0]."+l.path]; !given {
			t.Errorf("access.verify[].%s is not in the file", l.path)
		}
	}
	for _, l := range leaves(reflect.Value{}, reflect.TypeFor[AccessRule](), "") {
		if _, given := got.from["access.rules[0]."+l.path]; !given {
			t.Errorf("access.rules[].%s is not in the file", l.path)
		}
	}
	for _, l := range leaves(reflect.Value{}, reflect.TypeFor[AccessTest](), "") {
		if _, given := got.from["access.tests[0]."+l.path]; !given {
			t.Errorf("access.tests[].%s is not in the file", l.path)
		}
	}
	for _, l := range leaves(reflect.Value{}, reflect.TypeFor[RuleTest](), "") {
		if _, given := got.from["aggregation.tests[0]."+l.path]; !given {
			t.Errorf("aggregation.tests[].%s is not in the file", l.path)
		}
	}
	for _, l := range leaves(reflect.Value{}, reflect.TypeFor[Upstream](), "") {
		// An upstream has servers or files, so that no single one has every key.
		_, ofServers := got.from["upstreams[0]."+l.path]
		_, ofFiles := got.from["upstreams[1]."+l.path]
		// The third one has keys beside which the first one cannot have its own.
		_, forwarding := got.from["upstreams[2]."+l.path]
		if !ofServers && !ofFiles && !forwarding {
			t.Errorf("upstreams[].%s is not in the file", l.path)
		}
	}
}

// Each section of TLS takes SPIFFE in place of files, with keys and without.
func TestParseSPIFFE(t *testing.T) {
	const sections = `
server: {tls: {spiffe: %[1]s}, listeners: [{name: l, listen: ":1", tls: {spiffe: %[1]s}}]}
admin: {tls: {spiffe: %[1]s}}
upstreams: [{name: a, default: true, endpoints: ["a:1"], tls: {spiffe: %[2]s}}]
peers: {addresses: ["b:1"], identities: [spiffe://td/r], tls: {spiffe: %[1]s}}
`
	const server = "{socket: unix:///run/a, trust_domains: [td, other.td]}"
	const client = "{socket: unix:///run/a, trust_domains: [td, other.td], server_ids: [spiffe://td/a]}"
	for _, tt := range []struct {
		server, client string
		ours           SPIFFE
		theirs         ClientSPIFFE
	}{
		{"{}", "{}", SPIFFE{}, ClientSPIFFE{}},
		{
			server, client, SPIFFE{"unix:///run/a", []string{"td", "other.td"}},
			ClientSPIFFE{"unix:///run/a", []string{"td", "other.td"}, []string{"spiffe://td/a"}},
		},
	} {
		c := mustParse(t, fmt.Sprintf(sections, tt.server, tt.client))
		listener, upstream := &ServerTLS{SPIFFE: &tt.ours}, &UpstreamTLS{SPIFFE: &tt.theirs}
		got := []any{c.Server.TLS, c.Server.Listeners[0].TLS, c.Admin.TLS, &ServerTLS{SPIFFE: c.Peers.TLS.SPIFFE}, c.Upstreams[0].TLS}
		if diff := cmp.Diff([]any{listener, listener, listener, listener, upstream}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.server, diff)
		}
		for _, l := range c.Server.AllListeners() {
			if !l.identifies() {
				t.Errorf("%s: clients of the listener %q have no identity", tt.server, l.Name)
			}
		}
	}
}

func TestParseDefaults(t *testing.T) {
	want := Default()
	u := DefaultUpstream()
	u.Name, u.Default, u.Endpoints = "primary", true, [][]string{{"127.0.0.1:5678"}}
	want.Upstreams = []Upstream{u}
	if diff := cmp.Diff(want, mustParse(t, minimal), sameValues()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := want.Validate(); err != nil {
		t.Errorf("the defaults with one upstream: %v", err)
	}
}

func TestParseEmptySectionsKeepDefaults(t *testing.T) {
	got := mustParse(t, minimal+"server: {keepalive: {}}\ncache: {}\nnode: {metadata: {}}\n")
	want := mustParse(t, minimal)
	if diff := cmp.Diff(want, got, sameValues(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseUpstreamTLSWithoutKeysIsTLS(t *testing.T) {
	c := mustParse(t, `upstreams: [{name: a, default: true, endpoints: ["a:1"], tls: {}}]`)
	if c.Upstreams[0].TLS == nil {
		t.Error("tls: {} was taken for plaintext")
	}
}

func TestParseMetadataKeepsCase(t *testing.T) {
	c := mustParse(t, minimal+`
node:
  metadata:
    CLUSTER_ID: Kubernetes
    Istio.Io/Rev: {Inner-Key: [{DeepKey: 1}]}
    date: 2026-01-02
    hex: 0x10
`)
	want := Metadata{
		"CLUSTER_ID":   "Kubernetes",
		"Istio.Io/Rev": map[string]any{"Inner-Key": []any{map[string]any{"DeepKey": 1.0}}},
		"date":         "2026-01-02",
		"hex":          16.0,
	}
	if diff := cmp.Diff(want, c.Node.Metadata); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseAliasesAndMergeKeys(t *testing.T) {
	c := mustParse(t, `
upstreams:
  - &first
    name: first
    default: true
    endpoints: [a.example.com:1]
    tls: &tls {ca_file: ca.pem}
    backoff: {base: 1s, max: 2s}
  - <<: [*first, {settle: 1m, resume_settle: 1m, name: unused}]
    name: second
    default: false
    authorities: [b.example.com]
node:
  metadata: {tls: *tls}
`)
	want := c.Upstreams[0]
	want.Name, want.Default, want.Authorities, want.Settle, want.ResumeSettle = "second", false, []string{"b.example.com"}, Duration(time.Minute), Duration(time.Minute)
	if diff := cmp.Diff(want, c.Upstreams[1]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Metadata{"tls": map[string]any{"ca_file": "ca.pem"}}, c.Node.Metadata); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseAliasesOfAliases(t *testing.T) {
	var b strings.Builder
	b.WriteString(minimal + "node:\n  metadata:\n    a0: &a0 x\n")
	for i := 1; i < 30; i++ {
		now, before := string(rune('a'+i%26))+"_", string(rune('a'+(i-1)%26))+"_"
		if i == 1 {
			before = "a0"
		}
		b.WriteString("    k" + strings.Repeat("k", i) + ": &" + now + " [*" + before + ", *" + before + "]\n")
	}
	_, err := Parse("bomb.yaml", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), "after its aliases are expanded") {
		t.Errorf("%v", err)
	}
}

func TestLoadPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "xdsrelay.yaml")
	if err := os.WriteFile(file, []byte(minimal+"server: {listen: \"127.0.0.1:1\"}\nlog: {level: warn}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"XDSRELAY_SERVER_LISTEN=127.0.0.1:2", "XDSRELAY_LOG_LEVEL="}
	args := []string{"--listen=127.0.0.1:3"}
	for _, tt := range []struct {
		name    string
		environ []string
		args    []string
		want    string
	}{
		{"file over default", nil, nil, "127.0.0.1:1"},
		{"environment over file", environ, nil, "127.0.0.1:2"},
		{"flag over environment", environ, args, "127.0.0.1:3"},
		{"flag over file", nil, args, "127.0.0.1:3"},
		{"last of a repeated variable", append(environ, "XDSRELAY_SERVER_LISTEN=127.0.0.1:4"), nil, "127.0.0.1:4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Load(file, parsedFlags(t, tt.args...), tt.environ)
			if err != nil {
				t.Fatal(err)
			}
			if c.Server.Listen != tt.want {
				t.Errorf("server.listen %s, want %s", c.Server.Listen, tt.want)
			}
			// What is not given further out stays as it was further in: a flag's
			// default and an empty variable are not given.
			if c.Log.Level != LevelWarn || c.Admin.Listen != Default().Admin.Listen {
				t.Errorf("log.level %s, admin.listen %s", c.Log.Level, c.Admin.Listen)
			}
		})
	}
}

func parsedFlags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.String("config", "", "a flag of another owner")
	AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func writeMinimal(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "xdsrelay.yaml")
	if err := os.WriteFile(file, []byte(minimal), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLoadEnvironmentOfEveryKind(t *testing.T) {
	c, err := Load(writeMinimal(t), nil, []string{
		"HOME=/root",
		"XDSRELAY_SERVER_TLS_CERT_FILE=cert.pem",
		"XDSRELAY_SERVER_TLS_KEY_FILE=Key.pem",
		"XDSRELAY_SERVER_DEBUG_SERVICES=true",
		"XDSRELAY_SERVER_MAX_MESSAGE_SIZE=1MiB",
		"XDSRELAY_SERVER_KEEPALIVE_TIME=0",
		"XDSRELAY_CACHE_MAX_RESOURCES=5",
		"XDSRELAY_NODE_LOCALITY_SUB_ZONE=Rack=7",
		"XDSRELAY_AGGREGATION_OTHERWISE=refuse",
		// What Kubernetes sets for a service of the name xdsrelay is not ours.
		"XDSRELAY_SERVICE_HOST=10.0.0.1",
		"XDSRELAY_SERVICE_PORT=18100",
		"XDSRELAY_PORT=tcp://10.0.0.1:18100",
		"XDSRELAY_PORT_18000_TCP_ADDR=10.0.0.1",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := mustParse(t, minimal)
	want.Server.TLS = &ServerTLS{CertFile: "cert.pem", KeyFile: "Key.pem"}
	want.Server.DebugServices = true
	want.Server.MaxMessageSize = MiB
	want.Server.Keepalive.Time = 0
	want.Cache.MaxResources = 5
	want.Node.Locality.SubZone = "Rack=7"
	want.Aggregation.Otherwise = Refuse
	if diff := cmp.Diff(want, c, sameValues()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoadErrorsName(t *testing.T) {
	_, err := Load(writeMinimal(t),
		parsedFlags(t, "--log-format=xml", "--admin-listen=nowhere", "--node-id="),
		[]string{
			"XDSRELAY_CACHE_IDLE=10",
			"XDSRELAY_CACHE_MAX_RESOURCES=many",
			"XDSRELAY_SERVER_DEBUG_SERVICES=1",
			"XDSRELAY_SERVER_LISTN=:1",
			"XDSRELAY_SERVER_DRAIN=25h",
			"XDSRELAY_NODE_CLUSTER=\xff",
		})
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		`XDSRELAY_CACHE_IDLE: cache.idle: expected a duration such as 30s, 5ms or 1h30m, got "10", did you mean 10s?`,
		`XDSRELAY_CACHE_MAX_RESOURCES: cache.max_resources: expected an integer, got "many"`,
		`XDSRELAY_SERVER_DEBUG_SERVICES: server.debug_services: expected true or false, got "1"`,
		`XDSRELAY_SERVER_LISTN: unknown variable, did you mean XDSRELAY_SERVER_LISTEN?`,
		`--log-format: log.format: expected one of text, json, got "xml"`,
		`XDSRELAY_SERVER_DRAIN: server.drain: expected 0s to 24h, got 25h`,
		`--admin-listen: admin.listen: expected host:port, :port or unix:///path, got "nowhere"`,
		`--node-id: node.id: missing or empty`,
		`XDSRELAY_NODE_CLUSTER: node.cluster: expected UTF-8, got "\xff"`,
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The variables of commands and of Kubernetes pass in silence. A variable that sets nothing has a
// warning, unless it is a misspelt key: then it is an error.
func TestVariablesThatSetNoKey(t *testing.T) {
	c, err := Load(writeMinimal(t), nil, []string{
		"XDSRELAY_CONFIG=x.yaml", "XDSRELAY_ADMIN=a:1", "XDSRELAY_ADMIN_TOKEN_FILE=token",
		"XDSRELAY_SERVICE_HOST=10.0.0.1", "XDSRELAY_ADMIN_SERVICE_PORT_HTTP=1", "XDSRELAY_PORT=tcp://10.0.0.1:1", "XDSRELAY_PORT_1_TCP_ADDR=10.0.0.1",
		"XDSRELAY_SERVER=x", "XDSRELAY_FOO=", "XDSRELAY_FOO2=1", "XDSRELAY_UPSTREAMS=a", "XDSRELAY_CONFG=x", "XDSRELAY_PORT=1",
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range c.Warnings() {
		got = append(got, w.Error())
	}
	want := []string{
		"XDSRELAY_SERVER: no key and no command has this variable",
		"XDSRELAY_FOO2: no key and no command has this variable",
		"XDSRELAY_UPSTREAMS: upstreams can be set in the file only",
		"XDSRELAY_CONFG: unknown variable, did you mean XDSRELAY_CONFIG?",
		"XDSRELAY_PORT: no key and no command has this variable",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is missing beside a variable is told of the variable.
func TestVariableWithoutItsPair(t *testing.T) {
	_, err := Load(writeMinimal(t), nil, []string{"XDSRELAY_SERVER_TLS_CERT_FILE=/nope"})
	if want := "XDSRELAY_SERVER_TLS_CERT_FILE: server.tls.key_file: missing or empty"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestLoadWithoutFile(t *testing.T) {
	_, err := Load("", nil, nil)
	if err == nil || err.Error() != "upstreams: expected at least one" {
		t.Errorf("%v", err)
	}
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	if _, err := Load(missing, nil, nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v", err)
	}
}

func TestEnvNamesAreUnique(t *testing.T) {
	paths := make(map[string]string)
	for _, l := range leaves(reflect.Value{}, reflect.TypeFor[*Config](), "") {
		if other, taken := paths[EnvName(l.path)]; taken {
			t.Errorf("%s sets %s and %s", EnvName(l.path), l.path, other)
		}
		paths[EnvName(l.path)] = l.path
	}
}

func TestFlagsSetKeys(t *testing.T) {
	paths := make(map[string]leaf)
	for _, l := range leaves(reflect.ValueOf(Default()), reflect.TypeFor[*Config](), "") {
		paths[l.path] = l
	}
	for _, f := range flagKeys() {
		l, ok := paths[f.path]
		if !ok || !l.single() {
			t.Errorf("--%s sets %s, which is no key for one value", f.name, f.path)
		} else if got := l.value.String(); got != f.value {
			t.Errorf("--%s: default %q, the key's is %q", f.name, f.value, got)
		}
	}
}
