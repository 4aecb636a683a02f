package integration

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"google.golang.org/grpc/codes"
)

// An incremental client over a server that is polled (VAR-7): what is there, what
// changes, and what a state of the world leaves out.
func TestREST_VAR5_VAR7_REST3(t *testing.T) {
	p := newRESTPlane(t)
	p.set([]string{"a=one", "b=one"}, []string{"a"})
	relay := startRelay(t, fromREST(time.Second), p.addr)
	c := joined(t, relay, "client")
	c.subscribe(clusterType, []string{"*"}, nil)
	c.subscribe(endpointType, []string{"a", "later"}, nil)
	c.awaitHolding(t, clusterType, "a", "b")
	c.awaitHolding(t, endpointType, "a")
	c.await(t, "RES-7 a name that is not answered has an error after a while", func() bool {
		return c.errorOf(endpointType, "later") == codes.Unavailable
	})
	if n := c.removals()["later"]; n != 0 {
		t.Errorf("RES-7: removed %d times", n)
	}

	p.set([]string{"a=two", "c=one"}, nil)
	p.unset(clusterType, "b")
	p.unset(endpointType, "a")
	c.awaitHolding(t, clusterType, "a", "c") // RES-8
	c.awaitContent(t, clusterType, "a", "two")
	p.set(nil, []string{"later"})
	c.awaitHolding(t, endpointType, "a", "later") // RES-8: of endpoints what is missing stays
	if n := c.sent(clusterType); n["a"] != 2 || n["c"] != 1 {
		t.Errorf("RES-1, ACK-4: clusters sent %v, want a twice and c once", n)
	}
	polls := p.polled(clusterType)
	if first := polls[0]; first.GetVersionInfo() != "" || first.GetNode() == nil || len(first.GetResourceNames()) > 0 {
		t.Errorf("STR-2, SUB-4: the first poll is %v", first)
	}
	if last := polls[len(polls)-1]; last.GetVersionInfo() == "" || last.GetErrorDetail() != nil {
		t.Errorf("ACK-2: the last poll is %v", last)
	}
	if _, shown := relay.get(t, "/upstreams"); !strings.Contains(shown, `"state": "connected"`) {
		t.Errorf("/upstreams: %s", shown)
	}
	relay.consistent(t)
}

// Polls go over TLS with the relay's own certificate, and to nobody who cannot show the
// right one.
func TestRESTMutualTLS_VAR5_OPS6(t *testing.T) {
	dir, planes, foreign := pki.NewFolder(t), pki.NewAuthority(t, "control planes"), pki.NewAuthority(t, "foreign")
	p := newRESTPlaneTLS(t, &tls.Config{
		Certificates: []tls.Certificate{planes.Server(planeHost)},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: planes.Pool(),
	})
	p.set([]string{"a=one"}, nil)
	start := func(ca string) *testRelay {
		up := config.UpstreamTLS{CAFile: ca, ServerName: planeHost}
		up.CertFile, up.KeyFile = dir.PutPair("upstream", planes.Client(relayName))
		return startRelay(t, func(c *config.Config) {
			c.Upstreams[0].TLS = &up
			fromREST(time.Second)(c)
		}, p.addr)
	}
	c := joined(t, start(dir.PutCA("planes", planes)), "client")
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "a")

	polls := len(p.polled(clusterType))
	wrong := start(dir.PutCA("foreign", foreign))
	lost := joined(t, wrong, "lost")
	lost.subscribe(endpointType, []string{"a"}, nil)
	waitFor(t, "the certificate that is not trusted", func() bool {
		_, shown := wrong.get(t, "/upstreams")
		return strings.Contains(shown, "unreachable") && strings.Contains(shown, "certificate")
	})
	if got := p.polled(endpointType); len(got) > 0 || polls == 0 {
		t.Errorf("polled without trust: %v", got)
	}
}
