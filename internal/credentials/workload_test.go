package credentials_test

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/tokens"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/internal/testkit/workloads"
)

const patience = 30 * time.Second

// counts is an observer.
type counts struct{ answered, failed atomic.Int64 }

func (c *counts) WorkloadAnswered() { c.answered.Add(1) }
func (c *counts) WorkloadFailed()   { c.failed.Add(1) }

func open(t *testing.T, p credentials.WorkloadParty) *credentials.Workload {
	t.Helper()
	s, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// comes waits for a certificate.
func comes(t *testing.T, s *credentials.Workload, want tls.Certificate) {
	t.Helper()
	if _, ok := wait.Until(patience, func() bool {
		cert, _, err := s.Certificate(time.Now())
		return err == nil && cert.Leaf.Equal(want.Leaf)
	}); !ok {
		_, _, err := s.Certificate(time.Now())
		t.Fatalf("ACC-1: the new certificate does not come: %v", err)
	}
}

// trusts reports whether a certificate counts.
func trusts(s *credentials.Workload, cert tls.Certificate) bool {
	_, err := s.Roots().Verify([]*x509.Certificate{cert.Leaf}, x509.ExtKeyUsageClientAuth, time.Now())
	return err == nil
}

// What a Workload API says is in use at once, and stays while it is away.
func TestSource_ACC1(t *testing.T) {
	api, seen := workloads.New(t), new(counts)
	sources := credentials.NewWorkloads(slog.New(slog.DiscardHandler), seen, nil)
	own, partner := pki.NewAuthority(t, "own"), pki.NewAuthority(t, "partner")
	s := open(t, credentials.WorkloadParty{Sources: sources, Socket: api.Socket()})
	far := open(t, credentials.WorkloadParty{Sources: sources, Socket: api.Socket(), Domains: []string{"partner"}})
	if _, _, err := s.Certificate(time.Now()); err == nil || !strings.Contains(err.Error(), api.Socket()) {
		t.Errorf("ACC-1: before the first word: %v", err)
	}
	if now := sources.State(); now.Away != 1 || !now.Certificate.IsZero() {
		t.Errorf("%d are away, and a certificate expires at %v", now.Away, now.Certificate)
	}
	client, theirs := own.SVID("spiffe://own/c"), partner.SVID("spiffe://partner/c")
	if trusts(s, client) || trusts(far, theirs) {
		t.Error("ACC-1: somebody is trusted before the first word")
	}

	first := own.SVID("spiffe://own/relay")
	api.Give(first, own, workloads.Bundles{"partner": partner})
	api.Start()
	comes(t, s, first)
	if now := sources.State(); now.Away != 0 || !now.Certificate.Equal(first.Leaf.NotAfter) {
		t.Errorf("%d are away, and a certificate expires at %v", now.Away, now.Certificate)
	}
	if !trusts(s, client) || trusts(s, theirs) || trusts(far, client) || !trusts(far, theirs) {
		t.Error("ACC-1: trust domains are mixed up")
	}
	before := s.Roots()
	second := own.SVID("spiffe://own/relay")
	api.Give(second, own, nil)
	comes(t, s, second)
	if s.Roots() != before {
		t.Error("roots that stayed the same are others")
	}
	if trusts(far, theirs) {
		t.Error("ACC-1: a bundle that was withdrawn is in use")
	}

	api.Stop()
	failed := seen.failed.Load()
	if _, ok := wait.Until(patience, func() bool { return seen.failed.Load() > failed }); !ok {
		t.Error("nobody is told that the Workload API is away")
	}
	comes(t, s, second)
	if !trusts(s, client) {
		t.Error("ACC-1: the bundle is not kept")
	}
	if _, _, err := s.Certificate(second.Leaf.NotAfter.Add(time.Second)); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("ACC-1: a certificate that has expired: %v", err)
	}
	third := own.SVID("spiffe://own/relay")
	api.Give(third, own, nil)
	api.Start()
	comes(t, s, third)

	api.Deny()
	if _, ok := wait.Until(patience, func() bool {
		_, _, err := s.Certificate(time.Now())
		return err != nil && strings.Contains(err.Error(), "no identity issued")
	}); !ok {
		t.Error("ACC-1: an identity that was taken away is in use")
	}
	if !trusts(s, client) {
		t.Error("ACC-1: a client that is connected does not count any more")
	}
	if got := seen.answered.Load(); got != 3 {
		t.Errorf("%d answers were counted, want 3", got)
	}
}

// A relay that starts beside a Workload API has a certificate at once.
func TestOpen_ACC1(t *testing.T) {
	api := workloads.New(t)
	own := pki.NewAuthority(t, "own")
	svid := own.SVID("spiffe://own/relay")
	api.Give(svid, own, nil)
	api.Start()
	t.Setenv("SPIFFE_ENDPOINT_SOCKET", api.Socket())
	sources := credentials.NewWorkloads(slog.New(slog.DiscardHandler), new(counts), nil)
	s := open(t, credentials.WorkloadParty{Sources: sources})
	if cert, _, err := s.Certificate(time.Now()); err != nil || !cert.Leaf.Equal(svid.Leaf) {
		t.Errorf("ACC-1: %v", err)
	}
	again := open(t, credentials.WorkloadParty{Sources: sources, Socket: api.Socket()})
	if cert, _, err := again.Certificate(time.Now()); err != nil || !cert.Leaf.Equal(svid.Leaf) {
		t.Errorf("ACC-1: a second user: %v", err)
	}
}

func TestOpenFails(t *testing.T) {
	t.Setenv("SPIFFE_ENDPOINT_SOCKET", "")
	sources := credentials.NewWorkloads(slog.New(slog.DiscardHandler), new(counts), nil)
	for name, tt := range map[string]struct {
		party credentials.WorkloadParty
		want  string
	}{
		"no socket":       {credentials.WorkloadParty{}, "SPIFFE_ENDPOINT_SOCKET is not set"},
		"another network": {credentials.WorkloadParty{Socket: "tcp://127.0.0.1:1"}, "expected unix:///path"},
		"no path":         {credentials.WorkloadParty{Socket: "unix:"}, "must include a path"},
		"a trust domain":  {credentials.WorkloadParty{Socket: "unix:///a", Domains: []string{"A"}}, `trust domain "A"`},
		"an ID":           {credentials.WorkloadParty{Socket: "unix:///a", IDs: []string{"a"}}, `SPIFFE ID "a"`},
	} {
		tt.party.Sources = sources
		if _, err := tt.party.Open(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	if now := sources.State(); now.Away != 0 {
		t.Errorf("%d are used", now.Away)
	}
}

// The same trouble is logged once, and no key ever.
func TestLog_OPS6(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	api, seen := workloads.New(t), new(counts)
	sources := credentials.NewWorkloads(slog.New(slog.NewTextHandler(file, nil)), seen, nil)
	s := open(t, credentials.WorkloadParty{Sources: sources, Socket: api.Socket()})
	if _, ok := wait.Until(patience, func() bool { return seen.failed.Load() > 2 }); !ok {
		t.Fatal("the relay does not try again")
	}
	own := pki.NewAuthority(t, "own")
	svid := own.SVID("spiffe://own/relay", pki.Lifetime(3*time.Second))
	api.Give(svid, own, nil)
	api.Start()
	comes(t, s, svid)
	if _, ok := wait.Until(patience, func() bool { return strings.Contains(read(t, path), "certificate has expired") }); !ok {
		t.Errorf("the log does not say that the certificate expired:\n%s", read(t, path))
	}
	log := read(t, path)
	if n := strings.Count(log, "until it gives a certificate"); n != 1 {
		t.Errorf("%d lines about one trouble:\n%s", n, log)
	}
	if !strings.Contains(log, "spiffe_id=spiffe://own/relay") || strings.Contains(log, "PRIVATE") {
		t.Errorf("the log has\n%s", log)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Tokens are for the audiences that are asked for, and come from the API that gives certificates.
func TestBearer_ACC6(t *testing.T) {
	api, seen := workloads.New(t), new(counts)
	issuer := tokens.NewIssuer(t, "https://spire", "k")
	api.Issue(func(audiences []string) string {
		return issuer.Token(tokens.Claims{"sub": "spiffe://own/relay", "aud": audiences})
	})
	api.Start()
	t.Setenv("SPIFFE_ENDPOINT_SOCKET", api.Socket())
	sources := credentials.NewWorkloads(slog.New(slog.DiscardHandler), seen, nil)
	b := credentials.WorkloadTokens{Sources: sources, Audiences: []string{"xds", "dr"}}
	token, err := b.Open()
	if err != nil {
		t.Fatal(err)
	}
	text, err := token.Token()
	if err != nil {
		t.Fatalf("ACC-6: no token beside an API that answers: %v", err)
	}
	for _, audience := range b.Audiences {
		if svid, err := jwtsvid.ParseInsecure(text, []string{audience}); err != nil || svid.ID.String() != "spiffe://own/relay" {
			t.Errorf("ACC-6: the token for %s: %v", audience, err)
		}
	}
	if now := sources.State(); now.Away != 0 || now.Token.IsZero() || !now.Certificate.IsZero() {
		t.Errorf("%+v", now)
	}
	token.Close()
	if now := sources.State(); now.Away != 0 || !now.Token.IsZero() || seen.answered.Load() != 1 {
		t.Errorf("after the end: %+v", now)
	}
}

func TestBearerFails_ACC6(t *testing.T) {
	t.Setenv("SPIFFE_ENDPOINT_SOCKET", "")
	sources := credentials.NewWorkloads(slog.New(slog.DiscardHandler), new(counts), nil)
	for want, b := range map[string]credentials.WorkloadTokens{
		"SPIFFE_ENDPOINT_SOCKET is not set": {Audiences: []string{"a"}},
		"expected unix:///path":             {Socket: "tcp://127.0.0.1:1", Audiences: []string{"a"}},
		"for nobody":                        {Socket: "unix:///a"},
	} {
		b.Sources = sources
		if token, err := b.Open(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %q", token, err, want)
		}
	}
}
