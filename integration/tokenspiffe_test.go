package integration

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/jwtbundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/tokens"
	"github.com/xdsrelay/xdsrelay/internal/testkit/workloads"
)

// spiffeTokens are a trust domain that issues tokens to the relay through its Workload API, and a control
// plane's view of them.
type spiffeTokens struct {
	t      *testing.T
	api    *workloads.API
	issuer *tokens.Issuer
	bundle *jwtbundle.Bundle

	mu     sync.Mutex
	lasts  time.Duration // how long a token does
	issued []string
	shown  []string // to the control plane, each once
	wrong  []string // why the control plane did not take one
	refuse bool     // the control plane takes none, and quotes it
}

const xdsAudience = "xds.plane.test"

func newSPIFFETokens(t *testing.T) *spiffeTokens {
	t.Helper()
	s := &spiffeTokens{
		t: t, api: workloads.New(t), issuer: tokens.NewIssuer(t, "https://spire.test", "k1"),
		bundle: jwtbundle.New(spiffeid.RequireTrustDomainFromString("td")), lasts: time.Hour,
	}
	if err := s.bundle.AddJWTAuthority("k1", s.issuer.Key().Key); err != nil {
		t.Fatal(err)
	}
	s.api.Issue(func(audiences []string) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		token := s.issuer.Token(tokens.Claims{
			"sub": "spiffe://td/relay", "aud": audiences, "exp": time.Now().Add(s.lasts).Unix(), "jti": strconv.Itoa(len(s.issued)),
		})
		s.issued = append(s.issued, token)
		return token
	})
	return s
}

// configure has an upstream show tokens.
func (s *spiffeTokens) configure(c *config.Config) {
	c.Upstreams[0].Credentials.SPIFFE = &config.TokenSPIFFE{Socket: s.api.Socket(), Audiences: []string{"other", xdsAudience}}
}

// judge is the control plane's: a token must be of the trust domain, for the control plane, and valid now.
func (s *spiffeTokens) judge(authorization []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, bearer := strings.CutPrefix(strings.Join(authorization, ","), "Bearer ")
	if s.refuse {
		return status.Errorf(codes.Unauthenticated, "%s is on no list", token)
	}
	_, err := jwtsvid.ParseAndValidate(token, s.bundle, []string{xdsAudience})
	if err != nil || !bearer {
		s.wrong = append(s.wrong, status.Convert(err).Message())
		return status.Error(codes.Unauthenticated, "no token that counts")
	}
	if !slices.Contains(s.shown, token) {
		s.shown = append(s.shown, token)
	}
	return nil
}

func (s *spiffeTokens) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// others is how many tokens the control plane was shown.
func (s *spiffeTokens) others() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.shown)
}

// check holds the relay to showing good tokens only, and to nobody else.
func (s *spiffeTokens) check(relay *testRelay) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, reason := range s.wrong {
		s.t.Errorf("ACC-6: the control plane was shown something else: %s", reason)
	}
	if len(s.issued) == 0 {
		s.t.Error("no token was issued")
	}
	for _, token := range s.issued {
		relay.hides(s.t, token)
		relay.hides(s.t, token[strings.LastIndexByte(token, '.'):])
	}
}

// failures is how often the upstream was not tried for want of a token.
func failures(t *testing.T, relay *testRelay) bool {
	t.Helper()
	_, page := relay.get(t, "/metrics")
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "xdsrelay_upstream_connect_failures_total{") && strings.Contains(line, `reason="no_token"`) {
			return !strings.HasSuffix(strings.TrimSpace(line), " 0")
		}
	}
	t.Error("the metric has no such reason")
	return false
}

// The relay shows a control plane JWT-SVIDs: none before the Workload API is there, a new one before the
// old one expires, the last one while the API is away, and none that has expired.
func TestTokenSPIFFE_ACC6_OPS6(t *testing.T) {
	s := newSPIFFETokens(t)
	p := newPlane(t, grpc.StreamInterceptor(func(srv any, g grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		md, _ := metadata.FromIncomingContext(g.Context())
		if err := s.judge(md.Get("authorization")); err != nil {
			return err
		}
		return handler(srv, g)
	}))
	p.set(clusterType, "c1", true)
	relay := startRelay(t, s.configure, p.addr)
	c := newClient(t, relay.addr, "a")
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	upstreams := func(text string) func() bool {
		return func() bool {
			_, page := relay.get(t, "/upstreams")
			return strings.Contains(page, text)
		}
	}
	waitFor(t, "the reason", upstreams("the relay has no token to show: the SPIFFE Workload API at "+s.api.Socket()+" gives the relay no token"))
	if !failures(t, relay) {
		t.Error("attempts without a token are not counted")
	}
	s.change(func() { s.lasts = 3 * time.Second })
	s.api.Start()
	c.awaitHolding(t, clusterType, "c1")

	asked := s.api.Asked()
	waitFor(t, "streams with three tokens", func() bool {
		if n := s.api.Asked(); n != asked {
			asked = n
			p.breakStreams()
		}
		return s.others() >= 3
	})
	s.change(func() { s.refuse = true })
	p.breakStreams()
	waitFor(t, "a refused token", func() bool { return strings.Contains(relay.log.String(), "(hidden) is on no list") })
	s.change(func() { s.refuse = false })
	p.set(clusterType, "c2", true)
	c.awaitHolding(t, clusterType, "c1", "c2")

	s.change(func() { s.lasts = 8 * time.Second })
	asked = s.api.Asked()
	waitFor(t, "a longer token", func() bool { return s.api.Asked() > asked })
	s.api.Stop()
	p.breakStreams()
	p.set(clusterType, "c3", true)
	c.awaitHolding(t, clusterType, "c1", "c2", "c3") // by the last token
	waitFor(t, "a word of the log", func() bool { return strings.Contains(relay.log.String(), "keeps its token until it expires") })
	waitFor(t, "the end of the token", func() bool { return strings.Contains(relay.log.String(), "token has expired") })
	p.set(clusterType, "c4", true)
	c.awaitHolding(t, clusterType, "c1", "c2", "c3", "c4") // the stream that is open stays
	p.breakStreams()
	waitFor(t, "the reason", upstreams("the relay has no token to show: the relay's token of the SPIFFE Workload API at "+s.api.Socket()+" expired at"))
	other := newClient(t, relay.addr, "b")
	if err := other.connect(false); err != nil {
		t.Fatal(err)
	}
	other.subscribe(clusterType, []string{"*"}, nil)
	other.awaitHolding(t, clusterType, "c1", "c2", "c3", "c4")

	p.set(clusterType, "c5", true)
	s.change(func() { s.lasts = time.Hour })
	s.api.Start()
	c.awaitHolding(t, clusterType, "c1", "c2", "c3", "c4", "c5")
	if !c.connected() {
		t.Error("the client lost its stream")
	}
	s.check(relay)
	relay.consistent(t)
}

// So do polls.
func TestTokenSPIFFEREST_ACC6(t *testing.T) {
	s, p := newSPIFFETokens(t), newRESTPlane(t)
	p.set([]string{"a=one"}, nil)
	p.see(func(r *http.Request) {
		if err := s.judge(r.Header.Values("Authorization")); err != nil {
			t.Errorf("a poll without a token that counts: %v", err)
		}
	})
	relay := startRelay(t, func(c *config.Config) {
		c.Upstreams[0].APIType = config.REST
		s.configure(c)
	}, p.addr)
	c := newClient(t, relay.addr, "a")
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	waitFor(t, "a poll that is not sent", func() bool { return failures(t, relay) })
	s.change(func() { s.lasts = 3 * time.Second })
	s.api.Start()
	c.awaitHolding(t, clusterType, "a")
	waitFor(t, "polls with two tokens", func() bool { return s.others() >= 2 })
	s.api.Stop()
	waitFor(t, "the end of the token", func() bool { return strings.Contains(relay.log.String(), "token has expired") })
	p.set([]string{"b=two"}, nil)
	s.change(func() { s.lasts = time.Hour })
	s.api.Start()
	c.awaitHolding(t, clusterType, "a", "b")
	s.check(relay)
}

// A reload gives an upstream tokens, and takes them away. Clients notice nothing.
func TestTokenSPIFFEReload_ACC6(t *testing.T) {
	s, seen := newSPIFFETokens(t), new(ledger)
	p := newPlane(t, grpc.StreamInterceptor(seen.intercept))
	p.set(clusterType, "c1", true)
	relay := startRelay(t, nil, p.addr)
	c := newClient(t, relay.addr, "a")
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "c1")
	s.api.Start()
	relay.mustReload(t, s.configure)
	waitFor(t, "a stream with a token", func() bool {
		return slices.ContainsFunc(seen.of("authorization"), func(a string) bool { return strings.HasPrefix(a, "Bearer ") })
	})
	relay.mustReload(t, func(c *config.Config) { c.Upstreams[0].Credentials = config.Credentials{} })
	waitFor(t, "a stream without one", func() bool { return len(seen.of("authorization")) == 3 })
	if got := seen.of("authorization"); got[0] != "-" || got[1] != "-" {
		t.Error("the streams are not one without a token, one with, and one without")
	}
	asked := s.api.Asked()
	p.set(clusterType, "c2", true)
	c.awaitHolding(t, clusterType, "c1", "c2")
	if !c.connected() || s.api.Asked() != asked {
		t.Error("the client lost its stream, or tokens are still asked for")
	}
	relay.consistent(t)
}
