package controlplanes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/logtest"
	"github.com/xdsrelay/xdsrelay/internal/testkit/relays"
	"github.com/xdsrelay/xdsrelay/relay"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// The endpoints of a relay at night. Both lead to the control plane.
const (
	firstEndpoint, secondEndpoint = "127.0.0.1:18000", "127.0.0.2:18000"
)

// nightLength is how long nothing changes.
const nightLength = 24 * time.Hour

// TestQuietNight has a relay and its clients live through a night without a change. Streams to
// the control plane and those of clients end and are resumed, and are silent by right from then
// on. Nothing fails over, no alert is due, no client is sent anything again. Then a change
// arrives.
//
// The relay does not ping: control planes count pings by the machine's clock, for which a night
// takes minutes.
func TestQuietNight_SUR2_UPS2(t *testing.T) {
	built(t)
	for _, s := range []*subject{goControlPlane(), envoyGateway()} {
		t.Run("SUR-2 UPS-2 "+s.name, s.rest)
	}
}

// rest has a control plane rest for a night.
func (s *subject) rest(t *testing.T) {
	plane := s.start(t)
	s.name += ", a quiet night"
	report(t, s, plane.version)
	backends := s.backends
	if backends == nil {
		backends = []string{"127.0.0.1:23001", "127.0.0.1:23002"}
	}
	plane.lead(t, backends[0])
	today := time.Now().Round(0)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(today)) // no certificate is valid when bubbles begin
		n := startNight(t, s, plane)
		n.sleeps(time.Minute)
		before := n.holds()
		n.dusk()
		quarter := nightLength / 4
		n.sleeps(quarter)
		n.resumes()
		n.sleeps(2 * quarter)
		n.resumes()
		n.sleeps(quarter)
		n.dawn(before)

		n.bridge.awake.Store(true)
		plane.lead(t, backends[1])
		n.until("a change arrives", func() bool { return n.lead(backends[1]) })
		n.end()
	})
}

// night is a relay in a bubble, with clients.
type night struct {
	t          *testing.T
	bridge     *bridge
	registry   *prometheus.Registry
	admin      *bufconn.Listener
	clients    []*nightClient
	log        *logtest.Text
	began      time.Time
	first      figures // when the night began
	cuts       int     // how many connections were cut
	complaints int     // so far: a night could have thousands
	end        func()  // ends all, and waits for it
}

func startNight(t *testing.T, s *subject, plane controlPlane) *night {
	t.Helper()
	c, err := config.Load("../../examples/control-planes/"+s.recipe, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	creds := insecure.NewCredentials()
	if s.relay != nil {
		s.relay(plane, c)
	}
	if gateway, ok := plane.(*envoyGatewayPlane); ok {
		creds = clientCredentials(t, gateway.certificates("envoy"))
	}
	c.Upstreams[0].Endpoints = config.Endpoints{{firstEndpoint}, {secondEndpoint}}
	c.Upstreams[0].Keepalive.Time = 0
	c.Server.Drain = config.Duration(10 * time.Millisecond)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	n := &night{t: t, registry: prometheus.NewRegistry(), admin: bufconn.Listen(64 << 10), log: new(logtest.Text), began: time.Now()}
	n.bridge = newBridge(plane.addr(), func() bool { return n.figures()["xdsrelay_upstream_unanswered_seconds"] > 0 })
	n.bridge.awake.Store(true)
	xds := bufconn.Listen(64 << 10)
	r := relays.Run(t, c, relay.Options{
		Version: "test", Registry: n.registry, Log: slog.New(slog.NewTextHandler(n.log, nil)), Dial: upstream.Dial{Connect: n.bridge.connect},
	}, relays.Listeners{XDS: xds, Admin: n.admin})
	var running sync.WaitGroup
	clients, leave := context.WithCancel(context.Background())
	for i := range 3 {
		client := newNightClient(t, s.node(i), xds, creds)
		n.clients = append(n.clients, client)
		running.Go(func() { client.run(clients) })
	}
	n.end = func() {
		leave()
		r.Stop()
		running.Wait()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the relay logged:\n%s", n.log)
		}
	})
	n.until("clients have everything", func() bool {
		h := n.holds()
		for _, typeURL := range nightTypes() {
			if h.count(typeURL) == 0 {
				return false
			}
		}
		return true
	})
	return n
}

func clientCredentials(t *testing.T, of certificates) credentials.TransportCredentials {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(of.cert, of.key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(of.ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: "envoy-gateway"})
}

// until waits, while the server may say something unasked.
func (n *night) until(what string, is func() bool) {
	n.t.Helper()
	for range 1200 {
		if is() {
			return
		}
		time.Sleep(time.Second)
	}
	n.t.Errorf("not so: %s", what)
}

// sleeps lets time pass, and looks at the relay each minute.
func (n *night) sleeps(d time.Duration) {
	n.t.Helper()
	for range d / time.Minute {
		time.Sleep(time.Minute)
		n.calm()
	}
}

// calm looks for what an operator would be told.
func (n *night) calm() {
	n.t.Helper()
	if status, page := n.get("/readyz"); status != http.StatusOK {
		n.complain("/readyz is %d: %s", status, page)
	}
	now := n.figures()
	for _, name := range []string{"staleness_seconds", "replicas_silent", "replicas_unreachable", "version_reuses_total", "silences_total", "nacks_total"} {
		if v := now["xdsrelay_upstream_"+name]; v != 0 {
			n.complain("%s is %v", name, v)
		}
	}
	if v := now["xdsrelay_upstream_unanswered_seconds"]; v > (2 * lookPause).Seconds() {
		n.complain("a request is not answered for %v seconds", v)
	}
	if v := now["xdsrelay_upstream_answer_age_seconds"]; v > (time.Minute + 2*lookPause).Seconds() { // a server that says nothing is asked each minute
		n.complain("the last answer is %v seconds old", v)
	}
}

// complain fails the test, and says so a few times.
func (n *night) complain(format string, args ...any) {
	n.t.Helper()
	if n.complaints++; n.complaints > 10 {
		n.t.Fail()
		return
	}
	n.t.Errorf("after "+time.Since(n.began).String()+": "+format, args...)
}

// dusk has the server be left to itself.
func (n *night) dusk() {
	n.bridge.awake.Store(false)
	n.first, n.began = n.figures(), time.Now()
	for _, c := range n.clients {
		c.dusk()
	}
}

// resumes cuts the connection to the server, and waits until the stream is resumed.
func (n *night) resumes() {
	n.t.Helper()
	n.bridge.awake.Store(true)
	n.cuts += n.bridge.cut()
	n.until("the connection is back", func() bool {
		return n.bridge.dialled(firstEndpoint) == n.cuts+1 && n.figures()["xdsrelay_upstream_staleness_seconds"] == 0
	})
	time.Sleep(time.Minute)
	n.bridge.awake.Store(false)
}

// dawn looks at what the night has left behind.
func (n *night) dawn(before holding) {
	n.t.Helper()
	now := n.figures()
	grown := func(name string) float64 { return now[name] - n.first[name] }
	for _, name := range []string{
		"xdsrelay_upstream_endpoint_changes_total", "xdsrelay_upstream_connect_failures_total",
		"xdsrelay_downstream_nacks_total", "xdsrelay_cache_evictions_total", "xdsrelay_downstream_overdue_acks_total",
	} {
		if v := grown(name); v != 0 {
			n.t.Errorf("%s has grown by %v", name, v)
		}
	}
	if n.cuts != 2 || n.bridge.dialled(firstEndpoint) != 1+n.cuts || n.bridge.dialled(secondEndpoint) != 0 {
		n.t.Errorf("%d connections were cut, %d made to the first endpoint, %d to the second",
			n.cuts, n.bridge.dialled(firstEndpoint), n.bridge.dialled(secondEndpoint))
	}
	if after := n.holds(); !after.equal(before) {
		n.t.Errorf("clients had %v, and have %v", before, after)
	}
	streams, again := int64(0), int64(0)
	for _, c := range n.clients {
		streams, again = streams+c.streams.Load(), again+c.sent.Load()
	}
	if streams == 0 || again > 0 {
		n.t.Errorf("clients resumed %d streams, and were sent %d resources, or removals of them", streams, again)
	}
	n.t.Logf("%v: %v streams to the control plane, %d connections cut, %d streams of clients resumed",
		time.Since(n.began), grown("xdsrelay_upstream_streams_opened_total"), n.cuts, streams)
}

// figures are sums of metrics, over their labels.
type figures map[string]float64

func (n *night) figures() figures {
	families, err := n.registry.Gather()
	if err != nil {
		n.t.Error(err)
	}
	f := make(figures)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				f[family.GetName()] += m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				f[family.GetName()] += m.GetGauge().GetValue()
			}
		}
	}
	return f
}

// get reads a page of the admin port.
func (n *night) get(path string) (int, string) {
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return n.admin.DialContext(ctx) },
		DisableKeepAlives: true,
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1"+path, http.NoBody)
	if err != nil {
		n.t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	page := make([]byte, 4096)
	size, _ := response.Body.Read(page) // for the message of a failure
	return response.StatusCode, string(page[:size])
}
