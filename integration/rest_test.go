package integration

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/pkitest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// An incremental client over a server that is polled (VAR-7): what is there, what
// changes, and what a state of the world leaves out.
func TestREST_VAR5_VAR7_REST3(t *testing.T) {
	p := newRESTPlane(t)
	p.set("1", []string{"a=one", "b=one"}, []string{"a"})
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

	p.set("2", []string{"a=two", "c=one"}, nil)
	c.awaitHolding(t, clusterType, "a", "c") // RES-8
	c.awaitContent(t, clusterType, "a", "two")
	p.set("3", []string{"a=two", "c=one"}, []string{"later"})
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

// The server dies and comes back with the version that it had, for something else.
func TestRESTOutage_REST3_ACK4_OPS1(t *testing.T) {
	p := newRESTPlane(t)
	p.set("1", []string{"a=one", "b=one"}, nil)
	relay := startRelay(t, fromREST(time.Second), p.addr)
	c := joined(t, relay, "client")
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "a", "b")
	p.stop()
	waitFor(t, "the outage on /upstreams", func() bool {
		_, shown := relay.get(t, "/upstreams")
		return strings.Contains(shown, `"state": "connecting"`) && strings.Contains(shown, "unreachable")
	})
	during := joined(t, relay, "during")
	during.subscribe(clusterType, []string{"*", "unknown"}, nil)
	during.awaitHolding(t, clusterType, "a", "b")
	before := len(p.polled(clusterType))
	p.restart("1", []string{"a=two", "c=one"}, nil)
	for _, c := range []*client{c, during} {
		c.awaitHolding(t, clusterType, "a", "c")
		c.awaitContent(t, clusterType, "a", "two")
	}
	// The wildcard is asked for with no name; of what "unknown" names nothing is held.
	again := p.polled(clusterType)[before:]
	// What presents nothing is the relay's question whether the server answers: nothing of its
	// answer is used.
	at := slices.IndexFunc(again, func(r *discovery.DiscoveryRequest) bool {
		return len(r.GetResourceNames()) == 0 && r.GetVersionInfo() != ""
	})
	if at < 0 || again[at].GetVersionInfo() != wire.Unconfirmed {
		t.Errorf("RES-2, ACK-4: after the outage the relay polled %v", again)
	}
	if n := c.removals(); n["a"] != 0 || n["b"] != 1 {
		t.Errorf("OPS-1: told of removals %v, want b", n)
	}
	relay.consistent(t)
}

// What cannot be right is told to the server, counted and shown; what was cached stays.
func TestRESTRejects_ACK6_OPS6(t *testing.T) {
	const secret = "hunter2"
	p := newRESTPlane(t)
	p.set("1", []string{"a=one"}, nil)
	relay := startRelay(t, fromREST(time.Second), p.addr)
	c := joined(t, relay, "client")
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "a")
	for what, body := range map[string]string{
		"a name that comes twice": `{"versionInfo": "bad", "nonce": "n", "resources": [
			{"@type": "` + clusterType + `", "name": "a"}, {"@type": "` + clusterType + `", "name": "a"}]}`,
		"a field of another kind": `{"versionInfo": "bad", "nonce": "n", "resources": [
			{"@type": "` + clusterType + `", "name": "a", "connectTimeout": "` + secret + `"}]}`,
	} {
		before := len(p.polled(clusterType))
		p.say([]byte(body))
		waitFor(t, what, func() bool {
			return slices.ContainsFunc(p.polled(clusterType)[before:], func(r *discovery.DiscoveryRequest) bool {
				return r.GetErrorDetail() != nil && r.GetResponseNonce() == "n" && r.GetVersionInfo() != "bad"
			})
		})
		p.say(nil)
	}
	waitFor(t, "the counter", func() bool {
		_, body := relay.get(t, "/metrics")
		return strings.Contains(body, `xdsrelay_upstream_nacks_total{type="cds",upstream="plane-0"}`) &&
			!strings.Contains(body, `xdsrelay_upstream_nacks_total{type="cds",upstream="plane-0"} 0`)
	})
	_, shown := relay.get(t, "/upstreams")
	if !strings.Contains(shown, "last_rejection") {
		t.Errorf("/upstreams does not show the rejection: %s", shown)
	}
	if strings.Contains(shown+relay.log.String(), secret) {
		t.Error("OPS-6: the payload is told")
	}
	p.set("2", []string{"a=two"}, nil)
	c.awaitContent(t, clusterType, "a", "two")
	if n := c.removals(); len(n) != 0 {
		t.Errorf("removed %v", n)
	}
	relay.consistent(t)
}

// The second endpoint serves while the first is away, and no longer.
func TestRESTFailover_LOC6(t *testing.T) {
	first, second := newRESTPlane(t), newRESTPlane(t)
	first.set("1", []string{"a=first"}, nil)
	second.set("1", []string{"a=second"}, nil)
	relay := startRelay(t, func(c *config.Config) {
		c.Upstreams[0].Endpoints = append(c.Upstreams[0].Endpoints, []string{second.addr})
		fromREST(time.Second)(c)
	}, first.addr)
	c := joined(t, relay, "client")
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitContent(t, clusterType, "a", "first")
	first.stop()
	c.awaitContent(t, clusterType, "a", "second")
	first.restart("1", []string{"a=third"}, nil)
	c.awaitContent(t, clusterType, "a", "third")
	if n := c.removals(); len(n) != 0 {
		t.Errorf("LOC-6: removed %v on the way", n)
	}
	relay.consistent(t)
}

// A type that has no path, and one of which the server has nothing.
func TestRESTUnavailable_VAR5(t *testing.T) {
	p := newRESTPlane(t)
	p.set("1", []string{"a=one"}, nil)
	relay := startRelay(t, fromREST(time.Second), p.addr)
	c := joined(t, relay, "client")
	c.subscribe("type.googleapis.com/envoy.config.route.v3.VirtualHost", []string{"x/y"}, nil)
	c.subscribe(listenerType, []string{"*"}, nil)
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "a")
	c.await(t, "the answer for the type of which there is nothing", func() bool {
		return slices.ContainsFunc(c.responses(), func(r *discovery.DeltaDiscoveryResponse) bool { return r.GetTypeUrl() == listenerType })
	})
	waitFor(t, "the type without a path on /upstreams", func() bool {
		_, shown := relay.get(t, "/upstreams")
		return strings.Contains(shown, `"unavailable"`) && strings.Contains(shown, "VirtualHost")
	})
	relay.consistent(t)
}

// Polls go over TLS with the relay's own certificate, and to nobody who cannot show the
// right one.
func TestRESTMutualTLS_VAR5_OPS6(t *testing.T) {
	dir, planes, foreign := pkitest.NewFolder(t), pkitest.NewAuthority(t, "control planes"), pkitest.NewAuthority(t, "foreign")
	p := newRESTPlaneTLS(t, &tls.Config{
		Certificates: []tls.Certificate{planes.Server(planeHost)},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: planes.Pool(),
	})
	p.set("1", []string{"a=one"}, nil)
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
