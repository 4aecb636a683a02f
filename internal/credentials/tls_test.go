package credentials

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/test/bufconn"
)

// pipe is a connection with buffers: in TLS both sides may write at once.
func pipe(t *testing.T) (near, far net.Conn) {
	t.Helper()
	lis := bufconn.Listen(1 << 16)
	defer lis.Close()
	var (
		wg  sync.WaitGroup
		err error
	)
	wg.Go(func() { near, err = lis.DialContext(t.Context()) })
	far, acceptErr := lis.Accept()
	wg.Wait()
	if err := errors.Join(err, acceptErr); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// handshake connects the two sides and returns what each saw.
func handshake(t *testing.T, c *TLSClient, s *TLSServer, authority string) (client, server tls.ConnectionState, clientErr, serverErr error) {
	t.Helper()
	near, far := pipe(t)
	defer near.Close()
	defer far.Close()

	var wg sync.WaitGroup
	wg.Go(func() {
		conn, info, err := s.Credentials().ServerHandshake(far)
		if serverErr = err; err != nil {
			far.Close()
			return
		}
		server = tlsState(t, info)
		// With TLS 1.3 the client learns by its first read that it was refused,
		// so there has to be something to read.
		_, serverErr = conn.Write([]byte("x"))
	})
	conn, info, err := c.Credentials().ClientHandshake(t.Context(), authority, near)
	if clientErr = err; err != nil {
		near.Close()
	} else {
		client = tlsState(t, info)
		_, clientErr = conn.Read(make([]byte, 1))
	}
	wg.Wait()
	return client, server, clientErr, serverErr
}

func tlsState(t *testing.T, info credentials.AuthInfo) tls.ConnectionState {
	t.Helper()
	i, ok := info.(credentials.TLSInfo)
	if !ok {
		t.Errorf("auth info is %T", info)
	}
	return i.State
}

func newClient(t *testing.T, cfg TLSClientConfig) *TLSClient {
	t.Helper()
	c, err := NewTLSClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// clientConfig is what a client dials with now.
func clientConfig(t *testing.T, c *TLSClient) *tls.Config {
	t.Helper()
	config, err := c.Config()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func newServer(t *testing.T, cfg TLSServerConfig) *TLSServer {
	t.Helper()
	s, err := NewTLSServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestHandshake(t *testing.T) {
	dir := pki.NewFolder(t)
	ca, other := pki.NewAuthority(t, "ca"), pki.NewAuthority(t, "other")
	caFile, otherFile := dir.PutCA("ca", ca), dir.PutCA("other-ca", other)
	serverCert, serverKey := dir.PutPair("relay.test", ca.Server("relay.test"))
	clientCert, clientKey := dir.PutPair("client.test", ca.Client("client.test"))
	strangerCert, strangerKey := dir.PutPair("stranger.test", other.Client("stranger.test"))

	plain := TLSServerConfig{CertFile: serverCert, KeyFile: serverKey}
	mutual := TLSServerConfig{CertFile: serverCert, KeyFile: serverKey, ClientCAFile: caFile}
	for _, tt := range []struct {
		name      string
		server    TLSServerConfig
		client    TLSClientConfig
		authority string
		peer      string // the client as the server sees it
		wantErr   string // on the client's side
	}{
		{name: "server only", server: plain, client: TLSClientConfig{CAFile: caFile}, authority: "relay.test:18100"},
		{name: "mutual", server: mutual, client: TLSClientConfig{CAFile: caFile, CertFile: clientCert, KeyFile: clientKey}, authority: "relay.test:18100", peer: "client.test"},
		{name: "mutual without a client certificate", server: mutual, client: TLSClientConfig{CAFile: caFile}, authority: "relay.test", wantErr: "certificate required"},
		{name: "mutual with a stranger", server: mutual, client: TLSClientConfig{CAFile: caFile, CertFile: strangerCert, KeyFile: strangerKey}, authority: "relay.test", wantErr: "tls"},
		{name: "server of another CA", server: plain, client: TLSClientConfig{CAFile: otherFile}, authority: "relay.test", wantErr: "unknown authority"},
		{name: "system roots do not know it", server: plain, client: TLSClientConfig{}, authority: "relay.test", wantErr: "unknown authority"},
		{name: "another host", server: plain, client: TLSClientConfig{CAFile: caFile}, authority: "elsewhere.test:1", wantErr: "not elsewhere.test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c := newServer(t, tt.server), newClient(t, tt.client)
			client, server, err, _ := handshake(t, c, s, tt.authority)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error = %v, want one with %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if client.Version != tls.VersionTLS13 || client.NegotiatedProtocol != "h2" {
				t.Errorf("version %x, protocol %q; want TLS 1.3 and h2", client.Version, client.NegotiatedProtocol)
			}
			var peer string
			if len(server.PeerCertificates) > 0 {
				peer = server.PeerCertificates[0].Subject.CommonName
			}
			if peer != tt.peer {
				t.Errorf("server sees %q, want %q", peer, tt.peer)
			}
		})
	}
}

// The name to verify comes from the configuration where it is given, whatever
// the endpoint is called.
func TestServerName(t *testing.T) {
	dir := pki.NewFolder(t)
	ca := pki.NewAuthority(t, "ca")
	cert, key := dir.PutPair("relay.test", ca.Server("relay.test"))
	s := newServer(t, TLSServerConfig{CertFile: cert, KeyFile: key})
	c := newClient(t, TLSClientConfig{CAFile: dir.PutCA("ca", ca), ServerName: "relay.test"})
	client, _, err, _ := handshake(t, c, s, "192.0.2.1:18100")
	if err != nil {
		t.Fatal(err)
	}
	if config := clientConfig(t, c); client.ServerName != "relay.test" || config.ServerName != "relay.test" {
		t.Errorf("server name %q, in the configuration %q", client.ServerName, config.ServerName)
	}
}

// What grpc asks of credentials beside the handshakes.
func TestClientCredentials(t *testing.T) {
	c := newClient(t, TLSClientConfig{})
	creds := c.Credentials().Clone()
	if got := creds.Info().SecurityProtocol; got != "tls" {
		t.Errorf("security protocol %q", got)
	}
	if _, _, err := creds.ServerHandshake(nil); !errors.Is(err, errClientOnly) {
		t.Errorf("ServerHandshake: %v", err)
	}
}

func TestMinimumVersion(t *testing.T) {
	dir := pki.NewFolder(t)
	ca := pki.NewAuthority(t, "ca")
	cert, key := dir.PutPair("relay.test", ca.Server("relay.test"))
	s := newServer(t, TLSServerConfig{CertFile: cert, KeyFile: key})
	near, far := pipe(t)
	defer near.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		defer far.Close()
		if _, _, err := s.Credentials().ServerHandshake(far); err == nil {
			t.Error("the server took TLS 1.1")
		}
	})
	old := &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, ServerName: "relay.test"}
	if err := tls.Client(near, old).HandshakeContext(t.Context()); err == nil {
		t.Error("a handshake with TLS 1.1 succeeded")
	}
	if got := clientConfig(t, newClient(t, TLSClientConfig{})).MinVersion; got != tls.VersionTLS12 {
		t.Errorf("client minimum = %x", got)
	}
}

func TestConstructionErrors(t *testing.T) {
	dir := pki.NewFolder(t)
	ca := pki.NewAuthority(t, "ca")
	cert, key := dir.PutPair("a.test", ca.Server("a.test"))
	_, foreign := dir.PutPair("b.test", ca.Server("b.test"))
	oldCertFile, oldKeyFile := dir.PutPair("old", ca.Server("old.test", pki.Lifetime(-time.Minute)))
	garbage := dir.Put("garbage", []byte("not a certificate"))
	missing := dir.Path("missing")

	for _, tt := range []struct {
		name           string
		cert, key, ca  string
		want, wantFile string
	}{
		{"no such certificate", missing, key, "", "no such file", missing},
		{"no such key", cert, missing, "", "no such file", missing},
		{"no such CA", cert, key, missing, "no such file", missing},
		{"certificate without key", cert, "", "", "needs a key", cert},
		{"key without certificate", "", key, "", "needs a certificate", key},
		{"garbage certificate", garbage, key, "", "failed to find any PEM data", garbage},
		{"garbage CA", cert, key, garbage, "no PEM block", garbage},
		{"key of another certificate", cert, foreign, "", "does not match", foreign},
		{"expired", oldCertFile, oldKeyFile, "", "expired at", oldCertFile},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, clientErr := NewTLSClient(TLSClientConfig{CertFile: tt.cert, KeyFile: tt.key, CAFile: tt.ca})
			_, serverErr := NewTLSServer(TLSServerConfig{CertFile: tt.cert, KeyFile: tt.key, ClientCAFile: tt.ca})
			for side, err := range map[string]error{"tls client": clientErr, "tls server": serverErr} {
				if err == nil {
					t.Fatalf("%s: no error", side)
				}
				for _, want := range []string{side, tt.want, tt.wantFile} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%v: does not say %q", err, want)
					}
				}
			}
		})
	}
	if _, err := NewTLSServer(TLSServerConfig{ClientCAFile: garbage}); !errors.Is(err, errNoServer) {
		t.Errorf("server without a certificate: %v", err)
	}
}

// reports gathers what Report was told.
type reports struct {
	mu   sync.Mutex
	list []error
}

func (r *reports) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, err)
}

func (r *reports) take() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.list
	r.list = nil
	return l
}

// Both sides move to another CA while they run: the certificate of a new
// connection is the new one, and roots that were withdrawn no longer count.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := pki.NewFolder(t)
		before, after := pki.NewAuthority(t, "before"), pki.NewAuthority(t, "after")
		caFile := dir.PutCA("ca", before)
		serverCert, serverKey := dir.PutPair("relay.test", before.Server("relay.test"))
		clientCert, clientKey := dir.PutPair("client.test", before.Client("client.test"))
		s := newServer(t, TLSServerConfig{CertFile: serverCert, KeyFile: serverKey, ClientCAFile: caFile})
		c := newClient(t, TLSClientConfig{CertFile: clientCert, KeyFile: clientKey, CAFile: caFile})

		issuers := func() (of, by string) {
			t.Helper()
			client, server, err, serverErr := handshake(t, c, s, "relay.test")
			if err := errors.Join(err, serverErr); err != nil {
				t.Fatal(err)
			}
			return client.PeerCertificates[0].Issuer.CommonName, server.PeerCertificates[0].Issuer.CommonName
		}
		if of, by := issuers(); of != "before" || by != "before" {
			t.Fatalf("issuers %q, %q", of, by)
		}
		stranger := newClient(t, TLSClientConfig{CertFile: clientCert, KeyFile: clientKey, CAFile: caFile, Refresh: 24 * time.Hour})

		dir.PutCA("ca", after)
		dir.PutPair("relay.test", after.Server("relay.test"))
		dir.PutPair("client.test", after.Client("client.test"))
		if of, by := issuers(); of != "before" || by != "before" {
			t.Fatalf("changed without a look at the files: issuers %q, %q", of, by)
		}
		<-time.After(DefaultRefresh + time.Second)
		if of, by := issuers(); of != "after" || by != "after" {
			t.Fatalf("issuers %q, %q after the change", of, by)
		}
		if _, _, err, _ := handshake(t, stranger, s, "relay.test"); err == nil {
			t.Fatal("a client that stands by the old CA was served")
		}
	})
}

func TestBrokenFileKeepsLastGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := pki.NewFolder(t)
		ca := pki.NewAuthority(t, "ca")
		caFile := dir.PutCA("ca", ca)
		first := ca.Server("relay.test")
		cert, key := dir.PutPair("relay.test", first)
		var told reports
		s := newServer(t, TLSServerConfig{CertFile: cert, KeyFile: key, Refresh: time.Second, Report: told.add})
		c := newClient(t, TLSClientConfig{CAFile: caFile})
		works := func() {
			t.Helper()
			if _, _, err, _ := handshake(t, c, s, "relay.test"); err != nil {
				t.Fatal(err)
			}
		}
		// Never ends at the moment of a look, which comes every full second: that would
		// see the pair of the next step half replaced.
		wait := func() { <-time.After(3300 * time.Millisecond) }

		for _, step := range []struct {
			name   string
			change func()
			want   string // in the one report; "" for a report of success
		}{
			{"a key that does not fit", func() { dir.PutKey("relay.test", ca.Server("relay.test")) }, "does not match"},
			{"mended", func() { dir.PutKey("relay.test", first) }, ""},
			{"gone", func() { os.Remove(cert) }, "no such file"},
			{"expired", func() { dir.PutPair("relay.test", ca.Server("relay.test", pki.Lifetime(-time.Minute))) }, "expired"},
			{"new", func() { dir.PutPair("relay.test", ca.Server("relay.test")) }, ""},
		} {
			step.change()
			wait()
			got := told.take()
			if len(got) != 1 {
				t.Fatalf("%s: reports = %v, want one", step.name, got)
			}
			switch err := got[0]; {
			case step.want == "" && err != nil, step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)):
				t.Errorf("%s: report = %v, want %q", step.name, err, step.want)
			case err != nil && strings.Contains(err.Error(), "PRIVATE"):
				t.Errorf("%s: OPS-6: the report quotes the file: %v", step.name, err)
			}
			works()
		}
	})
}
