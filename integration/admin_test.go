package integration

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
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
		{"/metrics", []string{`xdsrelay_downstream_nacks_total{reason="certificate",type="cds"} 1`, `xdsrelay_upstream_subscriptions{type="cds",upstream="plane-0"} 1`}},
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
