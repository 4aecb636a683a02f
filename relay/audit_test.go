package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/refusals"
)

// trail has the lines of an audit.
type trail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (x *trail) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.Write(b)
}

// take gives the lines since the last call: event, decision, rule, type and name.
func (x *trail) take(t *testing.T) string {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []string
	for line := range strings.Lines(x.text.String()) {
		var f struct {
			Event    string `json:"event"`
			Identity string `json:"identity"`
			Decision string `json:"decision"`
			Rule     string `json:"rule"`
			Type     string `json:"type"`
			Name     string `json:"name"`
		}
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, strings.Join(strings.Fields(fmt.Sprint(f.Event, " ", f.Identity, " ", f.Decision, " ", f.Rule, " ", strings.TrimPrefix(f.Type, "type.googleapis.com/envoy."), " ", f.Name)), " "))
	}
	x.text.Reset()
	return strings.Join(all, "\n")
}

// audited is a relay with an audit, which does not run.
func audited(t *testing.T, change func(*config.Config)) (*Relay, *trail) {
	t.Helper()
	x := new(trail)
	cfg := configOf(upstreamAt("plane", "127.0.0.1:1"))
	cfg.Audit.To = config.AuditStderr
	change(cfg)
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	r, err := New(cfg, Options{Audit: x})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.release)
	return r, x
}

// client gives the routes of a client with a certificate.
func client(t *testing.T, r *Relay, node string) downstream.Routes {
	t.Helper()
	routes, err := r.router.Open(&corev3.Node{Id: node, Cluster: "shop"}, &keyer.Peer{Subject: "CN=web", Issuer: "CN=ca", Addr: "10.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(routes.Close)
	return routes
}

var auditRules = []config.AccessRule{
	{Name: "own", Match: `type == sds && name.startsWith("own/")`, Effect: config.Allow, Secrets: true},
	{Name: "no-vault", Match: `name.startsWith("vault/")`, Effect: config.Deny},
}

// What is refused, what is about secrets, and commands are audited; what is allowed else only if the level says so (ACC-2).
func TestAudit_ACC2(t *testing.T) {
	const (
		secrets = "access CN=web allow own extensions.transport_sockets.tls.v3.Secret own/key\naccess CN=web deny otherwise extensions.transport_sockets.tls.v3.Secret other"
		denied  = "access CN=web deny no-vault config.cluster.v3.Cluster vault/a"
	)
	for level, want := range map[config.AuditLevel]string{
		config.AuditDenied: secrets + "\n" + denied,
		config.AuditAll:    secrets + "\naccess CN=web allow otherwise config.cluster.v3.Cluster a\n" + denied,
	} {
		r, x := audited(t, func(c *config.Config) { c.Access.Rules, c.Audit.Level = auditRules, level })
		access := client(t, r, "n").Access()
		for _, name := range []string{"own/key", "other"} {
			if err := access.Subscribes(secretType, name); (err == nil) != (name == "own/key") {
				t.Errorf("ACC-4: %s: %v", name, err)
			}
		}
		for _, name := range []string{"a", "vault/a"} {
			if err := access.Subscribes(clusterType, name); (err == nil) != (name == "a") {
				t.Errorf("ACC-2: %s: %v", name, err)
			}
		}
		if got := x.take(t); got != want {
			t.Errorf("ACC-2: the audit of %s has\n%s\nwant\n%s", level, got, want)
		}
	}
}

// Who is turned away before it is served is in the audit as in the log, and so are commands and reloads (ACC-1, ACC-5, ACC-7).
func TestAuditRefusals_ACC5_ACC7(t *testing.T) {
	r, x := audited(t, func(c *config.Config) {
		c.Access.Verify = []config.VerifyRule{{Name: "not-b", Require: `node.id != "b"`}}
		c.Aggregation.Otherwise = config.Refuse
	})
	if _, err := r.router.Open(&corev3.Node{Id: "b"}, &keyer.Peer{Subject: "CN=web"}); status.Code(err) != codes.PermissionDenied {
		t.Fatal(err)
	}
	if got, want := x.take(t), "verify CN=web deny not-b"; got != want {
		t.Errorf("ACC-5: %s, want %s", got, want)
	}
	if _, err := client(t, r, "n").Scoped(clusterType, "a"); err == nil {
		t.Fatal("AGG-2: a scope is refused")
	}
	if got, want := x.take(t), "scope CN=web deny otherwise config.cluster.v3.Cluster a"; got != want {
		t.Errorf("AGG-2: %s, want %s", got, want)
	}
	r.refusals.TokenRefused("10.0.0.1:1", "expired")
	r.refusals.IdentityEnded("10.0.0.1:1", "CN=web", "expired")
	r.refusals.Unproxied("10.0.0.1:1", "no header")
	if got, want := x.take(t), "token deny\ncertificate CN=web deny\nproxy deny"; got != want {
		t.Errorf("ACC-1: %s, want %s", got, want)
	}
	r.refusals.AdminRefused(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/clients", http.NoBody), "bob", refusals.OtherRole)
	for _, body := range []string{`{"types":["cds"],"future":true}`, `{"types":["sds"]}`} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hold", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		adminPort{relay: r}.handler().ServeHTTP(httptest.NewRecorder(), req)
	}
	next := *r.now.Load().config
	next.Log.PerMinute++
	if err := r.Reload(&next); err != nil {
		t.Fatal(err)
	}
	want := "admin bob deny GET /clients\ncommand allow cds hold\ncommand deny sds hold\nreload allow"
	if got := x.take(t); got != want {
		t.Errorf("ACC-7: %s, want %s", got, want)
	}
}

// A rule that is not enforced decides nothing, and is counted and audited where it would have decided otherwise (ACC-2, ACC-5).
func TestShadow_ACC2_ACC5(t *testing.T) {
	for text, tt := range map[string]struct {
		change        func(*config.Config)
		allowed, want string
	}{
		"a rule": {
			func(c *config.Config) { c.Access.Rules[1].Shadow = true }, "cds a vault/a, sds own/key",
			"access CN=web allow own extensions.transport_sockets.tls.v3.Secret own/key\n" +
				"access CN=web deny otherwise extensions.transport_sockets.tls.v3.Secret other\n" +
				"access CN=web would deny no-vault config.cluster.v3.Cluster vault/a",
		},
		"a rule that allows": {
			func(c *config.Config) { c.Access.Rules[0].Shadow = true }, "cds a, sds",
			"access CN=web would allow own extensions.transport_sockets.tls.v3.Secret own/key\n" +
				"access CN=web deny otherwise extensions.transport_sockets.tls.v3.Secret own/key\n" +
				"access CN=web deny otherwise extensions.transport_sockets.tls.v3.Secret other\n" +
				"access CN=web deny no-vault config.cluster.v3.Cluster vault/a",
		},
		"a list, but for secrets": {
			func(c *config.Config) { c.Access.Otherwise, c.Access.Shadow = config.Deny, true }, "cds a vault/a, sds own/key",
			"access CN=web allow own extensions.transport_sockets.tls.v3.Secret own/key\n" +
				"access CN=web deny otherwise extensions.transport_sockets.tls.v3.Secret other\n" +
				"access CN=web would deny otherwise config.cluster.v3.Cluster a\n" +
				"access CN=web would deny no-vault config.cluster.v3.Cluster vault/a",
		},
	} {
		r, x := audited(t, func(c *config.Config) {
			c.Access.Rules = append([]config.AccessRule(nil), auditRules...)
			c.Access.Verify = []config.VerifyRule{{Name: "not-b", Require: `node.id != "b"`, Shadow: true}}
			tt.change(c)
		})
		access := client(t, r, "n").Access()
		allowed := func(typeURL string, names ...string) (list string) {
			for _, name := range names {
				if access.Subscribes(typeURL, name) == nil {
					list += " " + name
				}
			}
			return list
		}
		secrets := allowed(secretType, "own/key", "other")
		if got := "cds" + allowed(clusterType, "a", "vault/a") + ", sds" + secrets; got != tt.allowed {
			t.Errorf("ACC-2: %s: allowed are %s, want %s", text, got, tt.allowed)
		}
		if got := x.take(t); got != tt.want {
			t.Errorf("ACC-2: %s: the audit has\n%s\nwant\n%s", text, got, tt.want)
		}
		client(t, r, "b") // is not refused
		if got, want := x.take(t), "verify CN=web would deny not-b"; got != want {
			t.Errorf("ACC-5: %s: %s, want %s", text, got, want)
		}
		w := httptest.NewRecorder()
		adminPort{relay: r}.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
		would := strings.Count(tt.want, "would")
		sum := 0
		for line := range strings.Lines(w.Body.String()) {
			var n int
			if _, after, is := strings.Cut(line, "xdsrelay_access_shadow_total{"); is {
				if _, err := fmt.Sscan(after[strings.Index(after, "}")+1:], &n); err != nil {
					t.Fatal(err)
				}
				sum += n
			}
		}
		if sum != would+1 {
			t.Errorf("ACC-2: %s: %d decisions of rules in shadow are counted, want %d", text, sum, would+1)
		}
	}
}

// Without an audit and without rules in shadow nothing is watched.
func TestUnwatched_ACC2(t *testing.T) {
	r, _ := audited(t, func(c *config.Config) { c.Audit.To, c.Access.Rules = "", auditRules })
	if access, is := client(t, r, "n").Access().(*access); !is {
		t.Errorf("ACC-2: access is %T", access)
	}
}

// The audit of docs/security.md is what a relay writes with its configuration. Other spellings of the secret that the client may
// not have are refused, with a line each.
func TestAuditDocumentation_ACC4(t *testing.T) {
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "```yaml\naudit: {to: stderr}\n")
	rules, text, _ := strings.Cut(text, "```")
	_, text, is := strings.Cut(text, "```json\n")
	lines, _, _ := strings.Cut(text, "```")
	if !found || !is {
		t.Fatal("docs/security.md has no audit")
	}
	documented, err := config.Parse("security.md", []byte("upstreams: [{name: a, default: true, endpoints: [\"a:1\"]}]\n"+rules))
	if err != nil {
		t.Fatal(err)
	}
	r, x := audited(t, func(c *config.Config) { c.Access = documented.Access })
	opened, err := r.router.Open(&corev3.Node{Id: "web-1", Cluster: "shop"}, &keyer.Peer{Subject: "CN=web", Addr: "192.0.2.7:51000"})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	for _, ask := range [][2]string{{secretType, "shop/tls"}, {secretType, "bank/tls"}, {clusterType, "vault/a"}} {
		if err := opened.Access().Subscribes(ask[0], ask[1]); (err == nil) != (ask[1] != "bank/tls") {
			t.Errorf("ACC-4: %s: %v", ask[1], err)
		}
	}
	req := httptest.NewRequestWithContext(context.WithValue(t.Context(), operatorKey{}, "ann"), http.MethodPost, "/hold", strings.NewReader(`{"types":["cds"],"future":true}`))
	req.Header.Set("Content-Type", "application/json")
	req.RemoteAddr = "192.0.2.9:40000"
	adminPort{relay: r}.handler().ServeHTTP(httptest.NewRecorder(), req)
	undated := func(text string) (all []string) {
		for line := range strings.Lines(text) {
			all = append(all, line[strings.Index(line, `"event"`):])
		}
		return all
	}
	if diff := cmp.Diff(undated(lines), undated(x.text.String())); diff != "" {
		t.Errorf("ACC-4: docs/security.md, and what is written (-want +got):\n%s", diff)
	}
	x.take(t)
	attacks := [][2]string{
		{formerType, "bank/tls"}, {"example.org/" + strings.TrimPrefix(secretType, "type.googleapis.com/"), "bank/tls"}, {secretType + "Collection", "bank/tls"},
		{secretType, "*"}, {secretType, "SHOP/tls"}, {secretType, "xdstp://a/x/shop/tls"},
	}
	for _, ask := range attacks {
		if opened.Access().Subscribes(ask[0], ask[1]) == nil {
			t.Errorf("ACC-4: %s of %s is given", ask[1], ask[0])
		}
	}
	if got := x.take(t); strings.Count(got, "access CN=web deny otherwise") != len(attacks) {
		t.Errorf("ACC-4: %d refusals are audited as\n%s", len(attacks), got)
	}
}

// A cluster that a client reports the load of is none that it subscribes to (ACC-2).
func TestAuditOfReports_ACC2(t *testing.T) {
	r, x := audited(t, func(c *config.Config) { c.Access.Rules, c.Audit.Level = auditRules, config.AuditAll })
	routes, is := client(t, r, "n").(*routes)
	if !is {
		t.Fatal("these are other routes")
	}
	place := &reporter{router: r.router, routes: routes}
	if !place.Allows("a") || place.Allows("vault/a") {
		t.Error("ACC-2: the wrong clusters are allowed")
	}
	if got := x.take(t); got != "" {
		t.Errorf("ACC-2: the audit has\n%s", got)
	}
}
