package adminclient

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type page struct{ Got string }

func TestEach_GATE4(t *testing.T) {
	relay := func(code int, answer string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				t.Error(err)
			}
			w.WriteHeader(code)
			said := req.Method + " " + req.URL.Path + " " + req.Header.Get("Content-Type") + " " + string(body)
			_, _ = io.WriteString(w, strings.ReplaceAll(answer, "GOT", said))
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	addresses := []string{
		relay(http.StatusOK, `{"got": "GOT"}`), relay(http.StatusBadRequest, `{"error": "no such thing"}`),
		relay(http.StatusNotFound, "404 page not found\n"), gone.Addr().String(), relay(http.StatusOK, "<html>"),
	}
	var answers []Answer[page] // in the order of the addresses, whatever that of the client is
	for _, address := range addresses {
		answers = append(answers, Post[page](t.Context(), clientOf(t, Options{}, address), "/hold", []byte("[1]"))...)
	}
	if all := Post[page](t.Context(), clientOf(t, Options{}, addresses...), "/hold", nil); len(all) != len(addresses) {
		t.Errorf("%d answers of %d relays", len(all), len(addresses))
	}
	if a := answers[0]; a.Err != nil || a.Value.Got != "POST /hold application/json [1]" || a.Address != addresses[0] {
		t.Errorf("%+v", a)
	}
	for i, want := range map[int]string{1: "no such thing", 2: "404 page not found"} {
		if refused, ok := errors.AsType[*RefusedError](answers[i].Err); !ok || refused.Reason != want {
			t.Errorf("%+v", answers[i])
		}
	}
	if _, ok := errors.AsType[*UnreachableError](answers[3].Err); !ok {
		t.Errorf("%+v", answers[3])
	}
	if err := answers[4].Err; err == nil || !strings.Contains(err.Error(), "admin port") {
		t.Errorf("%+v", answers[4])
	}
	if a := Get[page](t.Context(), clientOf(t, Options{}, addresses[0]), "/held")[0]; a.Err != nil || a.Value.Got != "GET /held  " {
		t.Errorf("%+v", a)
	}
}

func clientOf(t *testing.T, opts Options, addresses ...string) *Client {
	t.Helper()
	c, err := New(t.Context(), addresses, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAddresses_GATE4(t *testing.T) {
	got := clientOf(t, Options{}, "b:1", " a:1", "b:1", "dns:127.0.0.1:7", "unix:///run/a").Addresses()
	if want := []string{"127.0.0.1:7", "a:1", "b:1", "unix:///run/a"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, bad := range []string{"b", "unix:relative", ""} {
		if _, err := New(t.Context(), []string{bad}, Options{}); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

// A token goes to the relay that is asked and nowhere else, over whatever leads there.
func TestClient_ACC7(t *testing.T) {
	var elsewhere atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Store(true) }))
	defer other.Close()
	answer := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/moved" {
			http.Redirect(w, req, other.URL, http.StatusFound)
			return
		}
		_, _ = fmt.Fprintf(w, `{"got": %q}`, req.Header.Get("Authorization"))
	})
	ca := pki.NewAuthority(t, "ca")
	secure := httptest.NewUnstartedServer(answer)
	secure.TLS = &tls.Config{
		Certificates: []tls.Certificate{ca.Server("localhost")}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	}
	secure.StartTLS()
	defer secure.Close()
	path := filepath.Join(t.TempDir(), "admin")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	local := httptest.NewUnstartedServer(answer)
	local.Listener = lis
	local.Start()
	defer local.Close()
	_, number, err := net.SplitHostPort(secure.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	operator := &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Client("ann")}}
	for name, c := range map[string]*Client{
		"a unix socket": clientOf(t, Options{Token: "s3cret"}, "unix://"+path),
		"TLS":           clientOf(t, Options{Token: "s3cret", TLS: operator}, "localhost:"+number),
	} {
		t.Run(name, func(t *testing.T) {
			a := Get[page](t.Context(), c, "/held")[0]
			if a.Err != nil || a.Value.Got != "Bearer s3cret" {
				t.Errorf("%+v", a)
			}
			if moved := Get[page](t.Context(), c, "/moved")[0]; moved.Err == nil || elsewhere.Load() {
				t.Errorf("followed to another server: %+v", moved)
			}
		})
	}
	named := &port{network: "tcp", address: "192.0.2.1:1", name: "relays.svc"}
	if got := clientOf(t, Options{TLS: operator}, "a:1").transport(named).TLSClientConfig.ServerName; got != "relays.svc" {
		t.Errorf("a certificate of %q is expected of an address of relays.svc", got)
	}
	a := Get[page](t.Context(), clientOf(t, Options{TLS: &tls.Config{RootCAs: ca.Pool()}}, "localhost:"+number), "/held")[0]
	if _, ok := errors.AsType[*UnreachableError](a.Err); !ok {
		t.Errorf("without a certificate: %+v", a)
	}
}
