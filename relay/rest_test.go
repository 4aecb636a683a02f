package relay_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/testkit/relays"
	"github.com/xdsrelay/xdsrelay/relay"
)

func runREST(t *testing.T, cfg *config.Config) *relays.Running {
	t.Helper()
	r := relays.Run(t, cfg, relay.Options{}, relays.Listeners{REST: ports.Listen(t)})
	t.Cleanup(r.Stop)
	return r
}

// got is an answer.
type got struct {
	code, protocol int // of HTTP, and its major version
	body           string
}

// ask polls for the endpoints of x, or gets another page.
func ask(t *testing.T, transport *http.Transport, method, url string) (got, error) {
	t.Helper()
	t.Cleanup(transport.CloseIdleConnections)
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(`{"node":{"id":"n"},"resource_names":["x"]}`))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return got{}, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return got{answer.StatusCode, answer.ProtoMajor, string(body)}, err
}

const endpointsPath = "/v3/discovery:endpoints"

// protocols are what a client speaks: HTTP/1 alone, or HTTP/2 alone.
func protocols(two bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(!two)
	p.SetHTTP2(two)
	p.SetUnencryptedHTTP2(two)
	return p
}

// Polls come in plain text and over TLS, in either version of HTTP, with the
// certificates that the configuration asks for.
func TestREST_VAR5(t *testing.T) {
	ca, folder := pki.NewAuthority(t, "ca"), pki.NewFolder(t)
	cert, key := folder.PutPair("server", ca.Server("relay"))
	for _, tt := range []struct {
		name           string
		tls, mutual    bool
		two, presented bool
		refused        bool
	}{
		{name: "plain text"},
		{name: "plain text, HTTP/2", two: true},
		{name: "TLS", tls: true},
		{name: "TLS, HTTP/2", tls: true, two: true},
		{name: "mutual TLS", tls: true, mutual: true, presented: true},
		{name: "mutual TLS, HTTP/2", tls: true, mutual: true, two: true, presented: true},
		{name: "mutual TLS without a certificate", tls: true, mutual: true, refused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := oneUpstream()
			cfg.Server.RESTWait = 0
			if tt.tls {
				cfg.Server.TLS = &config.ServerTLS{CertFile: cert, KeyFile: key}
			}
			if tt.mutual {
				cfg.Server.TLS.ClientCAFile = folder.PutCA("ca", ca)
			}
			r := runREST(t, cfg)
			transport, url := &http.Transport{Protocols: protocols(tt.two)}, "http://"+r.REST
			if tt.tls {
				url = "https://" + r.REST
				transport.TLSClientConfig = &tls.Config{RootCAs: ca.Pool(), ServerName: "relay", MinVersion: tls.VersionTLS12}
			}
			if tt.presented {
				transport.TLSClientConfig.Certificates = []tls.Certificate{ca.Client("proxy")}
			}
			answer, err := ask(t, transport, http.MethodPost, url+endpointsPath)
			switch {
			case tt.refused:
				if err == nil {
					t.Errorf("answered with %+v", answer)
				}
			case err != nil:
				t.Error(err)
			case answer.code != http.StatusNotModified || (answer.protocol == 2) != tt.two:
				t.Errorf("%+v", answer)
			}
			page, err := ask(t, new(http.Transport), http.MethodGet, "http://"+r.Admin+"/metrics")
			if want := map[bool]string{false: "0", true: "1"}[tt.tls && !tt.refused]; err != nil || !strings.Contains(page.body, `xdsrelay_admission_seconds_count{work="handshake"} `+want) {
				t.Errorf("LIM-1: the handshake was not among those that take turns: %v", err)
			}
		})
	}
}

// A poll is on the admin port while it is held, and ends with 304 when the relay
// drains.
func TestREST_OPS4(t *testing.T) {
	cfg := oneUpstream()
	cfg.Server.RESTWait = config.Duration(time.Minute)
	cfg.Server.Drain = config.Duration(50 * time.Millisecond)
	r := runREST(t, cfg)
	type outcome struct {
		answer got
		err    error
	}
	poll := make(chan outcome, 1)
	go func() {
		answer, err := ask(t, new(http.Transport), http.MethodPost, "http://"+r.REST+endpointsPath)
		poll <- outcome{answer, err}
	}()
	shown := func() bool {
		page, err := ask(t, &http.Transport{DisableKeepAlives: true}, http.MethodGet, "http://"+r.Admin+"/clients?node=n")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(page.body, `"variant": "rest"`) && strings.Contains(page.body, endpointsPath)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !shown() {
		select {
		case <-tick.C:
		case o := <-poll:
			t.Fatalf("the poll is not held: %+v", o)
		}
	}
	r.Stop()
	if o := <-poll; o.err != nil || o.answer.code != http.StatusNotModified {
		t.Errorf("the poll got %+v", o)
	}
	if _, err := ask(t, new(http.Transport), http.MethodPost, "http://"+r.REST+endpointsPath); err == nil {
		t.Error("somebody listens still")
	}
}
