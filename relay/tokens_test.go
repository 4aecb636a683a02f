package relay

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/tokens"
)

const issuerName = "https://kubernetes.default.svc"

// pods is a relay that reads the tokens of pods, over TLS without client certificates.
type pods struct {
	*trust

	issuer *tokens.Issuer
	file   string // of the issuer's keys
	conn   *grpc.ClientConn
}

func newPods(t *testing.T, change func(*config.Config)) *pods {
	t.Helper()
	p := &pods{issuer: tokens.NewIssuer(t, issuerName, "1"), file: filepath.Join(t.TempDir(), "keys.json")}
	tokens.File(t, p.file, p.issuer.Key())
	p.trust = newTrustWith(t, func(c *config.Config) {
		c.Server.TLS.ClientCAFile = ""
		c.Server.TLSRefresh = config.Duration(10 * time.Millisecond)
		c.Server.Identity.JWT = []config.Issuer{{Issuer: issuerName, Audiences: []string{"xds"}, JWKSFile: p.file}}
		change(c)
	}, often)
	p.conn = p.dial("spiffe://td/ignored")
	return p
}

// often has tokens judged all the time.
func often(r *Relay) { r.ports[0].tokens.every = 50 * time.Millisecond }

func (p *pods) token(claims tokens.Claims) string {
	all := tokens.Claims{"aud": []string{"xds"}, "sub": "system:serviceaccount:shop:web"}
	maps.Copy(all, claims)
	return p.issuer.Token(all)
}

// with opens a stream with headers.
func (p *pods) with(method string, first proto.Message, headers ...string) grpc.ClientStream {
	p.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), headers...), patience)
	p.Cleanup(cancel)
	stream, err := p.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		p.Fatal(err)
	}
	_ = stream.SendMsg(first) // what comes back says why it fails
	return stream
}

// pollWith polls with headers.
func (p *pods) pollWith(node, version string, authorization ...string) (statusCode int, body string) {
	p.Helper()
	transport := &http.Transport{TLSClientConfig: p.tls("spiffe://td/ignored")}
	p.Cleanup(transport.CloseIdleConnections)
	return p.postTo("https://"+p.rest, &http.Client{Transport: bearerOf{transport, authorization}}, node, version)
}

type bearerOf struct {
	http.RoundTripper

	authorization []string
}

func (b bearerOf) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header["Authorization"] = b.authorization
	return b.RoundTripper.RoundTrip(r)
}

func requireSubject(c *config.Config) {
	c.Access.Verify = []config.VerifyRule{{
		Name:    "own-account",
		Require: `node.id == peer.token.sub.split(":")[3] && peer.token.iss == "` + issuerName + `" && peer.spiffe == ""`,
	}}
}

// A token says who a client of any form is. A bad one ends its stream, and none is no identity
// (ACC-1, ACC-5). Nothing of a token is in the log or on the admin port.
func TestTokens_ACC1_ACC5(t *testing.T) {
	p := newPods(t, requireSubject)
	good, other := p.token(nil), p.token(tokens.Claims{"aud": "other"})
	thief := tokens.NewIssuer(t, issuerName, "1").Token(tokens.Claims{"aud": "xds", "sub": "system:serviceaccount:shop:web"})
	type result struct {
		headers []string
		node    string
		code    codes.Code
		text    string
	}
	cases := []result{
		{[]string{"authorization", "Bearer " + good}, "web", codes.OK, ""},
		{[]string{"authorization", "bearer " + good}, "web", codes.OK, ""},
		{[]string{"authorization", "Bearer " + good}, "api", codes.PermissionDenied, "own-account"},
		{nil, "web", codes.PermissionDenied, "own-account"},
		{[]string{"authorization", "Basic eDp5"}, "web", codes.PermissionDenied, "own-account"},
		{[]string{"authorization", "Bearer " + other}, "web", codes.Unauthenticated, "for another audience"},
		{[]string{"authorization", "Bearer " + thief}, "web", codes.Unauthenticated, "no key of its issuer"},
		{[]string{"authorization", "Bearer nonsense"}, "web", codes.Unauthenticated, "not a signed JSON Web Token"},
		{[]string{"authorization", "Bearer " + good, "authorization", "Bearer " + thief}, "web", codes.Unauthenticated, "more than one authorization"},
		{[]string{"authorization", "Basic eDp5", "authorization", "Bearer " + good}, "web", codes.Unauthenticated, "more than one authorization"},
	}
	over := map[codes.Code]int{codes.OK: http.StatusOK, codes.PermissionDenied: http.StatusForbidden, codes.Unauthenticated: http.StatusUnauthorized}
	for i, c := range cases {
		for _, form := range openForms {
			got, text := code(p.with(form.method, form.first(&corev3.Node{Id: c.node}), c.headers...))
			if got != c.code || !strings.Contains(text, c.text) {
				t.Errorf("ACC-1: %d: %s: %v: %s; want %v", i, form.method, got, text, c.code)
			}
		}
		var values []string
		for n := 1; n < len(c.headers); n += 2 {
			values = append(values, c.headers[n])
		}
		if got, body := p.pollWith(c.node, "", values...); got != over[c.code] || !strings.Contains(body, c.text) {
			t.Errorf("ACC-1: %d: a poll: %d: %s", i, got, body)
		}
	}
	p.shows("/metrics",
		`xdsrelay_downstream_refused_tokens_total{reason="audience"} 8`,
		`xdsrelay_downstream_refused_tokens_total{reason="several"} 16`)
	clients := p.page("/clients")
	if !strings.Contains(clients, `"token_subject": "system:serviceaccount:shop:web"`) {
		t.Errorf("/clients has\n%s", clients)
	}
	shown := p.log.String() + clients + p.page("/config")
	if !strings.Contains(shown, "a client's bearer token is refused") {
		t.Errorf("the log has\n%s", shown)
	}
	for _, secret := range []string{good, other, thief} {
		for part := range strings.SplitSeq(secret, ".") {
			if strings.Contains(shown, part) {
				t.Errorf("ACC-7: a token is shown: %s", shown)
			}
		}
	}
	p.check()
}

// A token that expires ends the streams and polls that began with it, and nobody else's.
func TestTokenExpires_ACC1(t *testing.T) {
	p := newPods(t, func(*config.Config) {})
	short := "Bearer " + p.token(tokens.Claims{"exp": time.Now().Add(-6 * time.Second).Unix()}) // clocks may differ by 10 s
	stays := p.with(openForms[0].method, firstDelta(&corev3.Node{Id: "stays"}), "authorization", "Bearer "+p.token(nil))
	if got, text := code(stays); got != codes.OK {
		t.Fatalf("%v: %s", got, text)
	}
	streams := make([]grpc.ClientStream, len(openForms))
	for i, form := range openForms {
		streams[i] = p.with(form.method, form.first(&corev3.Node{Id: "web"}), "authorization", short)
		if got, text := code(streams[i]); got != codes.OK {
			t.Fatalf("%s: %v: %s", form.method, got, text)
		}
	}
	_, body := p.pollWith("web", "", short)
	var first struct {
		Version string `json:"versionInfo"`
	}
	if err := json.Unmarshal([]byte(body), &first); err != nil || first.Version == "" {
		t.Fatalf("%v: %s", err, body)
	}
	if got, body := p.pollWith("web", first.Version, short); got != http.StatusUnauthorized {
		t.Errorf("ACC-1: a held poll: %d: %s", got, body)
	}
	for i, form := range openForms {
		if got, text := code(streams[i]); got != codes.Unauthenticated || !strings.Contains(text, "has expired") {
			t.Errorf("ACC-1: %s: %v: %s", form.method, got, text)
		}
	}
	if got, text := code(p.with(openForms[0].method, firstDelta(&corev3.Node{Id: "web"}), "authorization", short)); got != codes.Unauthenticated {
		t.Errorf("ACC-1: coming back with it: %v: %s", got, text)
	}
	if !strings.Contains(p.page("/clients"), `"stays"`) {
		t.Error("a client whose token counts lost its stream")
	}
	if log := p.log.String(); !strings.Contains(log, `a client's bearer token does not count any more`) || !strings.Contains(log, "identity=system:serviceaccount:shop:web reason=expired") {
		t.Errorf("the log has\n%s", log)
	}
}

// A key that is taken away ends streams and held polls, and so does a reload that trusts the issuer
// no more.
func TestTokenWithdrawn_ACC1(t *testing.T) {
	for name, withdraw := range map[string]func(p *pods){
		"the key": func(p *pods) { tokens.File(p, p.file, tokens.NewIssuer(p, issuerName, "2").Key()) },
		"the issuer": func(p *pods) {
			p.reload(func(c *config.Config) { c.Server.TLSRefresh, c.Server.Identity.JWT = config.Duration(time.Minute), nil })
		},
		"the audience": func(p *pods) {
			p.reload(func(c *config.Config) {
				c.Server.TLSRefresh = config.Duration(time.Minute)
				c.Server.Identity.JWT = []config.Issuer{{Issuer: issuerName, Audiences: []string{"other"}, JWKSFile: p.file}}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPods(t, func(*config.Config) {})
			authorization := "Bearer " + p.token(nil)
			stream := p.with(openForms[0].method, firstDelta(&corev3.Node{Id: "web"}), "authorization", authorization)
			if got, text := code(stream); got != codes.OK {
				t.Fatalf("%v: %s", got, text)
			}
			withdraw(p)
			if got, text := code(stream); got != codes.Unauthenticated || !strings.Contains(text, "does not trust the bearer token any more") {
				t.Errorf("ACC-1: %v: %s", got, text)
			}
			p.shows("/metrics", `xdsrelay_downstream_identities_ended_total{reason="token_untrusted"} 1`)
		})
	}
}

// A token goes to the control plane if it is forwarded, and only then; a listener without issuers
// reads none.
func TestTokenForwarded_ACC6(t *testing.T) {
	p := newPods(t, func(c *config.Config) {
		c.Upstreams[0].Forward = []string{"authorization"}
	})
	if got, text := code(p.with(openForms[0].method, firstDelta(&corev3.Node{Id: "a"}), "authorization", "Bearer "+p.token(nil))); got != codes.OK {
		t.Errorf("ACC-6: %v: %s", got, text)
	}
	p.reload(func(c *config.Config) { c.Server.TLSRefresh, c.Server.Identity.JWT = config.Duration(time.Minute), nil })
	if got, text := code(p.with(openForms[0].method, firstDelta(&corev3.Node{Id: "a"}), "authorization", "Bearer opaque")); got != codes.OK {
		t.Errorf("ACC-6: without issuers: %v: %s", got, text)
	}
}
