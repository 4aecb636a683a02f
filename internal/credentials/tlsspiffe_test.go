package credentials

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/internal/testkit/workloads"
)

type unobserved struct{}

func (unobserved) WorkloadAnswered() {}
func (unobserved) WorkloadFailed()   {}

// agent is a Workload API that gives an SVID of ca.
func agent(t *testing.T, ca *pki.Authority, id string, federated workloads.Bundles) (*workloads.API, *WorkloadParty) {
	t.Helper()
	api := workloads.New(t)
	api.Give(ca.SVID(id), ca, federated)
	api.Start()
	return api, &WorkloadParty{Sources: NewWorkloads(slog.New(slog.DiscardHandler), unobserved{}, nil), Socket: api.Socket()}
}

// Two sides with SPIFFE know each other by their IDs, whatever the host is called.
func TestSPIFFEHandshake_ACC1(t *testing.T) {
	a, b := pki.NewAuthority(t, "a"), pki.NewAuthority(t, "b")
	_, serves := agent(t, a, "spiffe://a/server", workloads.Bundles{"b": b})
	_, asks := agent(t, b, "spiffe://b/client", workloads.Bundles{"a": a})
	for _, tt := range []struct {
		name             string
		server, client   []string // trust domains
		ids              []string
		refuses, refused string
	}{
		{"federated", []string{"b"}, []string{"a"}, nil, "", ""},
		{"the ID that is expected", []string{"a", "b"}, []string{"a"}, []string{"spiffe://a/server"}, "", ""},
		{"another ID", []string{"b"}, []string{"a"}, []string{"spiffe://a/other"}, "none of the SPIFFE IDs", ""},
		{"another trust domain of the server", []string{"b"}, nil, nil, "the trust domain \"a\" is not trusted", ""},
		{"another trust domain of the client", nil, []string{"a"}, nil, "", "tls: unknown certificate authority"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			serves.Domains, asks.Domains, asks.IDs = tt.server, tt.client, tt.ids
			s, c := newServer(t, TLSServerConfig{SPIFFE: serves}), newClient(t, TLSClientConfig{SPIFFE: asks})
			client, server, clientErr, serverErr := handshake(t, c, s, "any.host:1")
			for _, want := range []string{tt.refuses, tt.refused} {
				if want != "" && (clientErr == nil || !strings.Contains(clientErr.Error(), want)) {
					t.Errorf("ACC-1: the client: %v, want %s", clientErr, want)
				}
			}
			if tt.refuses+tt.refused != "" {
				return
			}
			if err := errors.Join(clientErr, serverErr); err != nil {
				t.Fatal(err)
			}
			if ours, theirs := client.PeerCertificates[0].URIs[0], server.PeerCertificates[0].URIs[0]; ours.String() != "spiffe://a/server" ||
				theirs.String() != "spiffe://b/client" || len(server.VerifiedChains) == 0 {
				t.Errorf("ACC-1: the two know each other as %v and %v", ours, theirs)
			}
			if s.Ready() != nil {
				t.Error(s.Ready())
			}
		})
	}
}

// A session that is resumed is judged by the bundles of today, each by its own trust domain.
func TestSPIFFEResume_ACC1(t *testing.T) {
	a, b := pki.NewAuthority(t, "a"), pki.NewAuthority(t, "b")
	api, serves := agent(t, a, "spiffe://a/server", workloads.Bundles{"b": b})
	serves.Domains = []string{"a", "b"}
	s := newServer(t, TLSServerConfig{SPIFFE: serves})
	lis, err := tls.Listen("tcp", "127.0.0.1:0", s.Config())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = lis.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { answer(conn) })
		}
	})
	client := &tls.Config{
		RootCAs: a.Pool(), InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(1),
		Certificates: []tls.Certificate{b.SVID("spiffe://b/client")},
	}
	if resumed, err := visit(t, lis.Addr().String(), client); resumed || err != nil {
		t.Fatalf("resumed %t, %v", resumed, err)
	}
	if resumed, err := visit(t, lis.Addr().String(), client); !resumed || err != nil {
		t.Fatalf("ACC-1: resumed %t, %v: the test shows nothing", resumed, err)
	}
	// The root of b is still there, and is that of another trust domain.
	other := pki.NewAuthority(t, "b, later")
	api.Give(b.SVID("spiffe://a/server"), b, workloads.Bundles{"b": other})
	roots := s.Clients()
	if _, ok := wait.Until(30*time.Second, func() bool { return !s.Clients().Equal(roots) }); !ok {
		t.Fatal("the bundles do not change")
	}
	if _, err := visit(t, lis.Addr().String(), client); err == nil {
		t.Error("ACC-1: a session is resumed although the bundle of its trust domain changed")
	}
}

// answer shakes hands and writes a byte.
func answer(conn net.Conn) {
	defer conn.Close()
	_, _ = conn.Write([]byte("x")) // the client sees whether it came
	_, _ = conn.Read(make([]byte, 1))
}

// visit connects and reads a byte, and the ticket before it.
func visit(t *testing.T, address string, config *tls.Config) (resumed bool, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	return conn.(*tls.Conn).ConnectionState().DidResume, err
}

// While a Workload API gives nothing no handshake begins, on either side.
func TestSPIFFEAway_ACC1(t *testing.T) {
	api := workloads.New(t)
	party := &WorkloadParty{Sources: NewWorkloads(slog.New(slog.DiscardHandler), unobserved{}, nil), Socket: api.Socket()}
	s, c := newServer(t, TLSServerConfig{SPIFFE: party}), newClient(t, TLSClientConfig{SPIFFE: party})
	const want = "gives the relay no certificate"
	if err := s.Ready(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("ACC-1: the server: %v", err)
	}
	_, _, clientErr, serverErr := handshake(t, c, s, "a:1")
	if clientErr == nil || !strings.Contains(clientErr.Error(), want) || serverErr == nil {
		t.Errorf("ACC-1: %v, %v", clientErr, serverErr)
	}
	web := s.HTTPConfig()
	if _, err := web.GetConfigForClient(nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("ACC-1: an HTTP server: %v", err)
	}
	if s.Clients() == nil {
		t.Error("ACC-1: clients are not asked for a certificate")
	}
}

func TestSPIFFEAndFiles(t *testing.T) {
	party := new(WorkloadParty)
	if _, err := NewTLSServer(TLSServerConfig{CertFile: "a", KeyFile: "b", SPIFFE: party}); !errors.Is(err, errTwoSources) {
		t.Error(err)
	}
	if _, err := NewTLSClient(TLSClientConfig{CAFile: "a", SPIFFE: party}); !errors.Is(err, errTwoSources) {
		t.Error(err)
	}
}
