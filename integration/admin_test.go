package integration

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// TestAdminPort reads every page while something is cached.
func TestAdminPort_OPS6_ACK7(t *testing.T) {
	const hush = "the private key"
	const rejection = "no such thing as a cluster: -----BEGIN PRIVATE KEY-----\n" + hush + "\n-----END PRIVATE KEY-----"
	const shown = "no such thing as a cluster: -----BEGIN PRIVATE KEY-----(masked)-----END PRIVATE KEY-----"
	cp := startControlPlane(t)
	update(t, cp, "c1", cluster("c1", 1))
	if _, err := cp.UpdateResource("s1", &tlsv3.Secret{Name: "s1", Type: &tlsv3.Secret_GenericSecret{
		GenericSecret: &tlsv3.GenericSecret{Secret: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: hush}}},
	}}); err != nil {
		t.Fatal(err)
	}
	relay := startRelay(t, nil, cp.Addr())
	c := newClient(t, relay.addr, "proxy-1")
	c.nack = func(r *discovery.DeltaDiscoveryResponse) string {
		if r.TypeUrl == clusterType {
			return rejection
		}
		return ""
	}
	if err := c.connect(true); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.subscribe(secretType, []string{"s1"}, nil)
	c.awaitHolding(t, secretType, "s1")

	type typeStatus struct {
		Nacks    int `json:"nacks"`
		LastNack struct {
			Message string `json:"message"`
		} `json:"last_nack"`
	}
	var clients []struct {
		Node  string                `json:"node"`
		Types map[string]typeStatus `json:"types"`
	}
	waitFor(t, "the rejection on /clients", func() bool {
		decode(t, relay, "/clients?node=proxy-1", &clients)
		return len(clients) == 1 && clients[0].Types[clusterType].LastNack.Message == shown
	})
	for _, page := range []struct {
		path string
		want []string
	}{
		{"/", []string{"/metrics", "/readyz"}},
		{"/livez", []string{"ok"}},
		{"/metrics", []string{`xdsrelay_downstream_nacks_total{type="cds"} 1`, `xdsrelay_upstream_subscriptions{type="cds",upstream="plane-0"} 1`}},
		{"/upstreams", []string{`"state": "connected"`, cp.Addr()}},
		{"/resources?type=cds", []string{`"name":"c1"`, `"state":"present"`}},
		{"/resources?type=cds&name=c1", []string{`"payload":{"@type":"type.googleapis.com/envoy.config.cluster.v3.Cluster"`}},
		{"/resources?type=sds&name=s1", []string{`"name":"s1"`, "redacted"}},
		{"/resources?payload=true", []string{`"c1"`, `"s1"`}},
		{"/config", []string{"plane-0", "otherwise: share"}},
		{"/check", []string{"consistent"}},
		{"/debug/pprof/", []string{"goroutine"}},
	} {
		code, body := relay.get(t, page.path)
		if code != http.StatusOK {
			t.Errorf("%s: %d", page.path, code)
		}
		flat := strings.ReplaceAll(body, `": `, `":`)
		for _, want := range page.want {
			if !strings.Contains(flat, strings.ReplaceAll(want, `": `, `":`)) {
				t.Errorf("%s lacks %s:\n%s", page.path, want, body)
			}
		}
		if strings.Contains(body, hush) {
			t.Errorf("OPS-6: %s gives a secret away", page.path)
		}
	}
	for path, want := range map[string]int{"/nothing": http.StatusNotFound, "/resources?payload=maybe": http.StatusBadRequest,
		"/resources?name=xdstp://bad": http.StatusBadRequest} {
		if code, _ := relay.get(t, path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
}

func decode(t *testing.T, relay *testRelay, path string, v any) {
	t.Helper()
	_, body := relay.get(t, path)
	if err := json.Unmarshal([]byte(body), v); err != nil {
		t.Fatalf("%s: %v in %s", path, err, body)
	}
}

// TestDrain: new streams are refused, those that are open are told to go, and the
// relay ends.
func TestDrain_OPS4(t *testing.T) {
	p := newPlane(t)
	p.set(clusterType, "c1", true)
	relay := startRelay(t, nil, p.addr)
	c := newClient(t, relay.addr, "a")
	if err := c.connect(true); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "c1")
	// The relay looks for its control plane by itself: a session may have found it before.
	var health *grpc_health_v1.HealthCheckResponse
	var err error
	if _, ok := wait.Until(time.Minute, func() bool {
		health, err = grpc_health_v1.NewHealthClient(c.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		return err == nil && health.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
	}); !ok {
		t.Errorf("health: %v, %v", health, err)
	}
	relay.stop()
	c.await(t, "OPS-4: the stream's end", func() bool { return !c.connected() })
	if err := c.ended(); status.Code(err) != codes.Unavailable {
		t.Errorf("OPS-4: after the drain the stream ended with %v", err)
	}
	conn, err := xdsclient.Dial("passthrough:///"+relay.addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := xdsclient.New(xdsclient.Options{Conn: conn}).Run(t.Context()); status.Code(err) != codes.Unavailable {
		t.Errorf("OPS-4: a new stream after the drain: %v", err)
	}
}
