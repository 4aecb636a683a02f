package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/explain"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/tokens"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
)

// transcript carries out "$ xdsrelay …" and gives what a terminal would show.
func transcript(t *testing.T, command string) string {
	t.Helper()
	got := xdsrelay(t, strings.Fields(strings.TrimPrefix(command, "$ xdsrelay "))...)
	text := command + "\n" + got.stdout + got.stderr
	if got.code != 0 {
		text += fmt.Sprintf("exit code %d\n", got.code)
	}
	return text
}

// TestExplain plays the files of testdata/explain: a command and what it says.
func TestExplain_AGG5_ACC2(t *testing.T) {
	t.Chdir(filepath.Join("testdata", "explain"))
	files, err := filepath.Glob("*.txt")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			command, _, _ := strings.Cut(string(want), "\n")
			got := transcript(t, command)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want), got); diff != "" && !*update {
				t.Errorf("AGG-5: (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOperatingDoc executes the examples of docs/operating.md.
func TestOperatingDoc_AGG5(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join("testdata", "explain"))
	blocks := regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(blocks) < 2 {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, block := range blocks {
		command, _, _ := strings.Cut(block[1], "\n")
		if diff := cmp.Diff(block[1], transcript(t, command)); diff != "" {
			t.Errorf("AGG-5: (-documented +got):\n%s", diff)
		}
	}
}

// explained is what explain says as JSON of one type of one client.
func explained(t *testing.T, args ...string) (explain.Type, int) {
	t.Helper()
	got := xdsrelay(t, append([]string{"explain", "-o", "json"}, args...)...)
	var c explain.Client
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil || len(c.Types) != 1 {
		t.Fatalf("%v in %+v", err, got)
	}
	return c.Types[0], got.code
}

// Who the client is to TLS comes from a certificate, or from flags.
func TestExplainPeer_AGG5(t *testing.T) {
	config := write(t, "c.yaml", `upstreams: [{name: a, default: true, endpoints: [127.0.0.1:1]}]
aggregation:
  rules:
    - {name: everybody, match: 'true', scope: [peer.spiffe, peer.subject, peer.dns, peer.uris, peer.emails, peer.ips]}
`)
	ca := pki.NewAuthority(t, "ca")
	cert := write(t, "client.pem", "some text\n"+string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Client("web").Certificate[0]})))
	node := write(t, "node.yaml", "id: a\n")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, `["","",[],[],[],[]]`},
		{[]string{"--peer", "spiffe://shop/web"}, `["spiffe://shop/web","",[],["spiffe://shop/web"],[],[]]`},
		{[]string{"--peer-subject", "CN=x", "--peer-dns", "a", "--peer-dns", "b", "--peer-uri", "c:d", "--peer-email", "e@f", "--peer-ip", "::1"},
			`["","CN=x",["a","b"],["c:d"],["e@f"],["::1"]]`},
		{[]string{"--peer-cert", cert}, `["","CN=web",[],[],[],[]]`},
	} {
		got, code := explained(t, append([]string{"--config", config, "--node", node, "-t", "cds"}, tt.args...)...)
		text, err := json.Marshal(got.Parts)
		if err != nil || string(text) != tt.want || code != 0 {
			t.Errorf("AGG-5: %q: exit code %d, parts %s (%v), want %s", tt.args, code, text, err, tt.want)
		}
	}
}

// What the relay would know of a client by its token comes from the token, which nobody verifies.
func TestExplainPeerToken_AGG5_ACC1(t *testing.T) {
	config := write(t, "c.yaml", `server: {identity: {jwt: [{issuer: https://i, audiences: [xds], jwks_file: keys.json}]}}
upstreams: [{name: a, default: true, endpoints: [127.0.0.1:1]}]
aggregation:
  rules:
    - {name: everybody, match: 'true', scope: [peer.token.iss, peer.token.sub, peer.token.aud, 'peer.token.claims["team"]']}
`)
	issuer := tokens.NewIssuer(t, "https://i", "1")
	token := write(t, "token", issuer.Token(tokens.Claims{"sub": "web", "aud": "xds", "team": "shop"})+"\n")
	node := write(t, "node.yaml", "id: a\n")
	args := []string{"--config", config, "--node", node, "-t", "cds", "--peer-token"}
	got, code := explained(t, append(args, token)...)
	text, err := json.Marshal(got.Parts)
	const want = `["https://i","web",["xds"],"shop"]`
	if err != nil || string(text) != want || code != 0 {
		t.Errorf("AGG-5: exit code %d, parts %s (%v), want %s", code, text, err, want)
	}
	for file, want := range map[string]string{
		write(t, "nonsense", "abc"):                                 "--peer-token: ",
		filepath.Join(t.TempDir(), "none"):                          "no such file",
		write(t, "claim", issuer.Token(tokens.Claims{"sub": 5})):    `claim "sub": expected a string`,
		write(t, "audience", issuer.Token(tokens.Claims{"aud": 5})): `claim "aud": expected a string or a list of strings`,
	} {
		r := xdsrelay(t, append([]string{"explain"}, append(args, file)...)...)
		if r.code != 2 || !strings.Contains(r.stderr, want) {
			t.Errorf("AGG-5: %s: exit code %d, %q, want 2 and %q", file, r.code, r.stderr, want)
		}
	}
}

// What goes in by standard input, and out as JSON, is the same.
func TestExplainStdin_AGG5(t *testing.T) {
	t.Chdir(filepath.Join("testdata", "explain"))
	fromStdin := func(input string, args ...string) string {
		root := rootCommand()
		var out bytes.Buffer
		root.SetArgs(append([]string{"explain", "--config", "rules.yaml"}, args...))
		root.SetIn(strings.NewReader(input))
		root.SetOut(&out)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	node, err := os.ReadFile("sidecar.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := xdsrelay(t, "explain", "--config", "rules.yaml", "--node", "sidecar.yaml", "-t", "cds").stdout
	if got := fromStdin(string(node), "--node", "-", "-t", "cds"); got != want {
		t.Errorf("AGG-5: from standard input %q, want %q", got, want)
	}
	var r sharing.Result
	out := fromStdin(`{"id":"a","metadata":{"role":"sidecar"}}{"id":"b","metadata":{"role":"sidecar"}}`, "--nodes", "-", "-o", "json")
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Clients != 2 || r.Scopes != 1 {
		t.Errorf("AGG-5: %v, %s", err, out)
	}
}

// A large fleet is surveyed in a moment, whatever its shape.
func TestExplainLargeFleet_AGG5(t *testing.T) {
	var fleet strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&fleet, `{"id":"n-%d","cluster":"c-%d","metadata":{"role":"sidecar"}}`+"\n", i, i%7)
	}
	file := write(t, "fleet.jsonl", fleet.String())
	got := xdsrelay(t, "explain", "--config", "testdata/explain/rules.yaml", "--nodes", file, "-o", "json")
	var r sharing.Result
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != 0 {
		t.Fatal(err, got.code, got.stderr)
	}
	if r.Clients != 5000 || r.Scopes != 7 || r.Alone != 0 || r.Ratio != 714.3 {
		t.Errorf("AGG-5: %+v", r)
	}
	if i := slices.IndexFunc(r.Largest, func(s sharing.Scope) bool { return s.First != fmt.Sprintf("n-%d", 0) }); i < 0 || r.Largest[0].Clients != 715 {
		t.Errorf("AGG-5: largest %+v", r.Largest)
	}
}
