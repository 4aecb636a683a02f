package main

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// plane is a control plane with one cluster that serves all variants.
func plane(t *testing.T) *gocontrolplane.ControlPlane {
	t.Helper()
	c := gocontrolplane.NewSnapshot()
	if _, err := c.UpdateResource("cart", cluster("cart", 1)); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestWatchVariants(t *testing.T) {
	control := plane(t)
	rest := httptest.NewServer(control.REST())
	t.Cleanup(rest.Close)
	for _, tt := range []struct {
		name, address, api, service string
		delta                       bool
	}{
		{"VAR-4", control.Addr(), "AGGREGATED_DELTA_GRPC", "", true},
		{"VAR-3", control.Addr(), "aggregated_grpc", "", false},
		{"VAR-2", control.Addr(), "DELTA_GRPC", resource.ClusterType, true},
		{"VAR-1", control.Addr(), "grpc", resource.ClusterType, false},
		{"VAR-5", strings.TrimPrefix(rest.URL, "http://"), "REST", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, _, stop := background(t, "watch", tt.address, "--type", "cds", "--api-type", tt.api, "--output", "json")
			until(t, lines, map[string]string{"event": "connected", "target": tt.address})
			until(t, lines, map[string]string{"event": "added", "name": "cart"})
			until(t, lines, map[string]string{"event": "response", "changes": "map[added:1]"})
			if streams := control.Stats().Streams; tt.api != "REST" && (len(streams) != 1 || streams[0].Delta != tt.delta || streams[0].Service != tt.service) {
				t.Errorf("the control plane has streams %+v", streams)
			}
			if code := stop(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if err := control.Await(t.Context(), func(s gocontrolplane.Stats) bool { return len(s.Streams) == 0 }); err != nil {
				t.Error(err)
			}
		})
	}
	if n := control.Stats().Fetches[resource.ClusterType]; n == 0 {
		t.Error("nothing was asked for over REST")
	}
}

func TestWatchOverHTTPS(t *testing.T) {
	ca, dir := pki.NewAuthority(t, "ca"), pki.NewFolder(t)
	handler := plane(t).REST()
	var proto atomic.Value
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proto.Store(r.Proto)
		handler.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{ca.Server("xds.example.com")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	cert, key := dir.PutPair("client", ca.Client("client"))
	args := []string{
		"watch", strings.TrimPrefix(server.URL, "https://"), "--type", "cds", "--once", "--api-type", "REST",
		"--ca-file", dir.PutCA("ca", ca), "--cert-file", cert, "--key-file", key,
	}
	if got := xdsrelay(t, append(args, "--server-name", "xds.example.com")...); got.code != 0 || !strings.Contains(got.stdout, "+ cart") || proto.Load() != "HTTP/2.0" {
		t.Errorf("over %v: %+v", proto.Load(), got)
	}
	if got := xdsrelay(t, args...); got.code != cli.ExitUnreachable || !strings.Contains(got.stderr, "hint: the server's certificate is for another name") {
		t.Errorf("without the server's name: %+v", got)
	}
	hintsAtTLSFlags(t, args, dir.PutCA("other", pki.NewAuthority(t, "other")))
}

// hintsAtTLSFlags holds the hints of a handshake that lacks a CA or a certificate. args end with --ca-file, --cert-file and
// --key-file; other is a CA that the server's certificate is not of.
func hintsAtTLSFlags(t *testing.T, args []string, other string) {
	t.Helper()
	first, own := args[:len(args)-6:len(args)-6], args[len(args)-6:]
	for why, tt := range map[string]struct {
		flags []string
		hint  string
	}{
		"an unknown CA":  {append([]string{own[0], other}, own[2:]...), "hint: give the CA of the server's certificate with --ca-file\n"},
		"no certificate": {own[:2], "give one with --cert-file and --key-file\n"},
	} {
		all := slices.Concat(first, []string{"--server-name", "xds.example.com"}, tt.flags)
		holds(t, func() bool { // a server may close before this end has written all: then there is no reason
			got := xdsrelay(t, all...)
			t.Logf("%s: %+v", why, got)
			return got.code == cli.ExitUnreachable && strings.Contains(got.stderr, tt.hint)
		})
	}
}

func TestWatchRESTFails(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := strings.TrimPrefix(server.URL, "http://")
	got := xdsrelay(t, "watch", address, "--type", "cds", "--api-type", "REST")
	if got.code != cli.ExitFailure || !strings.HasPrefix(got.stderr, "error: cds: HTTP status 404 (Not Found): 404 page not found\nhint: is this an xDS server that speaks REST?") {
		t.Errorf("no xDS server: %+v", got)
	}
	server.Close()
	got = xdsrelay(t, "watch", address, "--type", "cds", "--api-type", "REST", "--once")
	if got.code != cli.ExitUnreachable || !strings.Contains(got.stderr, "connection refused\nhint: is there a server at this address, and does it need TLS") {
		t.Errorf("nobody listens: %+v", got)
	}
}
