package relay

import (
	"crypto/tls"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

// soon has a relay judge certificates, and read files, all the time.
func soon(c *config.Config) {
	c.Server.Identity.Recheck = config.Duration(160 * time.Millisecond)
	c.Server.TLSRefresh = config.Duration(10 * time.Millisecond)
}

// inPEM gives the certificate of an authority as a file has it.
func inPEM(t *testing.T, ca *pki.Authority) []byte {
	t.Helper()
	text, err := os.ReadFile(pki.NewFolder(t).PutCA("ca", ca))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// backAsNew is a stream on a connection of the new certificate.
var backAsNew = regexp.MustCompile(`"spiffe_id": "spiffe://td/new",\s+"node": "back"`)

// A CA that is taken out of the file of client CAs ends the streams and polls of its clients, of
// every form, and of nobody else. Who has another certificate by then comes back with it.
func TestIdentityWithdrawn_ACC1(t *testing.T) {
	other := pki.NewAuthority(t, "other")
	tr := newTrust(t, func(c *config.Config) {
		soon(c)
		file, err := os.OpenFile(c.Server.TLS.ClientCAFile, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.Write(inPEM(t, other)); err != nil {
			t.Fatal(err)
		}
	})
	old, renewed := tr.tls("spiffe://td/old"), tr.tls("spiffe://td/new")
	renewed.Certificates = []tls.Certificate{other.Client("client", pki.URI("spiffe://td/new"))}
	stays := tr.joinWith(credentials.NewTLS(renewed), "new")
	stays.holds(contents{"a": "1"})

	// A client whose next handshake is by the other CA.
	var shown atomic.Pointer[tls.Certificate]
	shown.Store(&old.Certificates[0])
	changing := old.Clone()
	changing.Certificates = nil
	changing.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown.Load(), nil }
	conn, err := grpc.NewClient(tr.xds, grpc.WithTransportCredentials(credentials.NewTLS(changing)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	streams := make([]grpc.ClientStream, len(openForms))
	for i, form := range openForms {
		streams[i] = tr.begin(conn, form.method, form.first(&corev3.Node{Id: "old"}))
		if got, text := code(streams[i]); got != codes.OK {
			t.Fatalf("%s: %v: %s", form.method, got, text)
		}
	}
	held := tr.holdPoll(old, "old")

	shown.Store(&renewed.Certificates[0])
	tr.dir.PutCA("clients", other)
	for i, form := range openForms {
		if got, text := code(streams[i]); got != codes.Unauthenticated || !strings.Contains(text, "does not trust the client's certificate any more") {
			t.Errorf("ACC-1: %s: %v: %s", form.method, got, text)
		}
	}
	if got := <-held; got != http.StatusUnauthorized {
		t.Errorf("ACC-1: the held poll was answered with %d", got)
	}
	if _, back := wait.Until(patience, func() bool {
		got, _ := code(tr.begin(conn, openForms[0].method, firstDelta(&corev3.Node{Id: "back"})))
		return got == codes.OK && backAsNew.MatchString(tr.page("/clients"))
	}); !back {
		t.Errorf("ACC-1: a client with another certificate does not come back with it:\n%s", tr.page("/clients"))
	}
	if lost := stays.lost(); lost != "" {
		t.Errorf("ACC-1: a client whose CA is still there lost %s", lost)
	}
	tr.shows("/metrics", `xdsrelay_downstream_identities_ended_total{reason="untrusted"} 2`)
	if log := tr.log.String(); !strings.Contains(log, "a client's certificate does not count any more") || !strings.Contains(log, "identity=spiffe://td/old reason=untrusted") {
		t.Errorf("ACC-1: the log has\n%s", log)
	}
	tr.check()
}

// A certificate that expires ends its client's streams, and its polls.
func TestIdentityExpired_ACC1(t *testing.T) {
	tr := newTrust(t, soon)
	with := tr.tls("spiffe://td/a")
	with.Certificates = []tls.Certificate{tr.ca.Client("client", pki.URI("spiffe://td/a"), pki.Lifetime(5*time.Second))}
	conn, err := grpc.NewClient(tr.xds, grpc.WithTransportCredentials(credentials.NewTLS(with)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stream := tr.begin(conn, openForms[0].method, firstDelta(&corev3.Node{Id: "a"}))
	if got, text := code(stream); got != codes.OK {
		t.Fatalf("%v: %s", got, text)
	}
	held := tr.holdPoll(with, "a")
	if got, text := code(stream); got != codes.Unauthenticated || !strings.Contains(text, "expired") {
		t.Errorf("ACC-1: %v: %s", got, text)
	}
	if got := <-held; got != http.StatusUnauthorized {
		t.Errorf("ACC-1: the held poll was answered with %d", got)
	}
	tr.shows("/metrics", `xdsrelay_downstream_identities_ended_total{reason="expired"} 2`)
	tr.check()
}
