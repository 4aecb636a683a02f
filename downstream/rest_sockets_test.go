package downstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// restServer is a server for clients that poll over real sockets.
type restServer struct {
	*httptest.Server

	plane  *plane
	router *testRouter
	seen   *recorder
	server *Server
}

func newRESTServer(t testing.TB, change ...func(*Config, *httptest.Server)) *restServer {
	t.Helper()
	s := &restServer{plane: newPlane(t, cache.New(cache.Limits{}, nil).Open(source())), seen: newRecorder()}
	s.router = &testRouter{scoped: func(*corev3.Node, string, keyer.Peer) (*cache.Store, error) { return s.plane.store, nil }}
	s.Server = httptest.NewUnstartedServer(nil)
	config := Config{Router: s.router, Observer: s.seen, Limits: Limits{RESTWait: time.Minute}}
	for _, f := range change {
		f(&config, s.Server)
	}
	s.server = NewServer(config)
	s.Config.Handler = s.server.REST()
	t.Cleanup(func() {
		s.server.Stop()
		s.Close()
		if err := s.plane.store.Check(); err != nil || s.plane.store.Clients() != 0 {
			t.Errorf("%d clients left, %v", s.plane.store.Clients(), err)
		}
	})
	return s
}

// post polls, and gives the status and the body.
func (s *restServer) post(t testing.TB, path, body string) (code int, text string) {
	t.Helper()
	code, text, err := s.try(t.Context(), path, body)
	if err != nil {
		t.Fatal(err)
	}
	return code, text
}

func (s *restServer) try(ctx context.Context, path, body string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// ready has the store synced, with some clusters.
func (s *restServer) ready(clusters ...string) {
	c := delivery.Join(s.plane.store, func() {}, delivery.Form{})
	c.Update(&delivery.Change{TypeURL: clusterType, Subscribe: []cache.Name{{Spelling: cache.Wildcard, Key: cache.Wildcard}}})
	s.plane.pump()
	s.plane.real(clusterType, "1", clusters...)
	s.plane.settle()
	c.Leave()
}

// version is the version_info of the store's clusters now.
func (s *restServer) version(t testing.TB) string {
	t.Helper()
	code, text := s.post(t, clusterPath, `{}`)
	rest, ok := strings.CutPrefix(text, `{"versionInfo":"`)
	version, _, closed := strings.Cut(rest, `"`)
	if code != http.StatusOK || !ok || !closed {
		t.Fatalf("%d %s", code, text)
	}
	return version
}

// until waits for what tells nobody when it happens.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: never happened", what)
		}
	}
}

// Polls of 100 clients are held. Half of the clients hang up, the others all get the
// change, and nothing is left of any.
func TestREST_Sockets_VAR5_REST1(t *testing.T) {
	s := newRESTServer(t)
	s.Start()
	s.ready("a")
	body := fmt.Sprintf(`{"version_info":%q}`, s.version(t))
	staying, leaving := t.Context(), t.Context()
	leaving, hangUp := context.WithCancel(leaving)
	var wg sync.WaitGroup
	answers, left := make(chan string, 50), make(chan error, 50)
	for range 50 {
		wg.Go(func() {
			code, text, err := s.try(staying, clusterPath, body)
			answers <- fmt.Sprintf("%d %s %v", code, text, err)
		})
		wg.Go(func() {
			_, _, err := s.try(leaving, clusterPath, body)
			left <- err
		})
	}
	until(t, "all polls are held", func() bool { return len(s.server.Clients(nil, nil)) == 100 })
	hangUp()
	until(t, "half of the clients are gone", func() bool { return len(s.server.Clients(nil, nil)) == 50 })
	s.plane.real(clusterType, "2", "a")
	wg.Wait()
	for range 50 {
		if text := <-answers; !strings.HasPrefix(text, "200 ") || !strings.Contains(text, `"altStatName":"2"`) {
			t.Errorf("a poll got %s", text)
		}
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a client that hung up got %v", err)
		}
	}
}

// Every path is served over the wire, and nothing else is.
func TestREST_Paths_REST2_VAR5_VAR9(t *testing.T) {
	s := newRESTServer(t, func(c *Config, _ *httptest.Server) { c.RESTWait = 0 })
	s.Start()
	for _, path := range []string{"listeners", "routes", "scoped-routes", "clusters", "endpoints", "secrets", "runtime", "extension_configs"} {
		for _, version := range []string{"v3", "v2"} {
			code, text := s.post(t, "/"+version+"/discovery:"+path, `{"resource_names":["x"]}`)
			want := http.StatusNotModified
			switch {
			case version == "v3":
			case path == "extension_configs": // they came with v3
				want = http.StatusNotFound
			default: // v2's types are not served as JSON
				want = http.StatusBadRequest
			}
			if code != want || (text == "") != (code == http.StatusNotModified) {
				t.Errorf("%s of %s: %d %s", path, version, code, text)
			}
		}
	}
	for path, want := range map[string]string{
		"/":                                "404",
		"/v2/discovery:health_check":       "404",
		"/v1/discovery:clusters":           "404",
		"/v3/discovery:aggregated":         "404",
		"/v3/discovery:clusters/":          "404",
		"/v3/discovery:virtual_hosts":      "404",
		"/v3/discovery:clusters?anything=": "304",
	} {
		if code, text := s.post(t, path, `{"resource_names":["x"]}`); fmt.Sprint(code) != want {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+clusterPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != http.MethodPost {
		t.Errorf("GET: %s, Allow %q", answer.Status, answer.Header.Get("Allow"))
	}
}

// A client that says less than it announced, and then nothing, is answered or gone.
func TestREST_HalfARequest_REST2(t *testing.T) {
	s := newRESTServer(t)
	s.Start()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST "+clusterPath+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	until(t, "the poll has begun", func() bool { return s.seen.count("opened") == 1 })
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the poll has ended", func() bool { return s.seen.count("closed") == 1 })
	if s.router.open != 0 || s.seen.count("requested") != 0 {
		t.Error("half a request was taken for one")
	}
}

// The certificate of a client is its identity, over either version of HTTP.
func TestREST_Identity_MutualTLS(t *testing.T) {
	const id = "spiffe://example.org/ns/default/sa/proxy"
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			ca := pki.NewAuthority(t, "ca")
			s := newRESTServer(t, func(c *Config, web *httptest.Server) {
				c.RESTWait = 0
				web.EnableHTTP2 = version == 2
				web.TLS = &tls.Config{
					Certificates: []tls.Certificate{ca.Server("relay")},
					ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(), MinVersion: tls.VersionTLS13,
				}
			})
			s.StartTLS()
			s.Client().Transport.(*http.Transport).TLSClientConfig = &tls.Config{
				RootCAs: ca.Pool(), ServerName: "relay", MinVersion: tls.VersionTLS13,
				Certificates: []tls.Certificate{ca.Client("proxy", pki.URI(id))},
			}
			if code, text := s.post(t, clusterPath, `{}`); code != http.StatusNotModified {
				t.Fatalf("%d %s", code, text)
			}
			if len(s.router.peers) != 1 || s.router.peers[0].SPIFFE != id || s.router.peers[0].Addr == "" {
				t.Errorf("the router was shown %+v", s.router.peers)
			}
		})
	}
}

// What is lost of a resource is logged once for each of its contents (VAR-8), and so
// is what cannot be sent at all.
func TestREST_Log_VAR8_OPS6(t *testing.T) {
	var log bytes.Buffer
	s := newRESTServer(t, func(c *Config, _ *httptest.Server) {
		c.RESTWait = 0
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	s.Start()
	s.ready("fine")
	lossy := resourceOf(clusterType, "lossy", "1")
	lossy.Resource.Value = []byte("\x0a\x05lossy\xf2\xff\x0f\x06secret") // field 32766 is unknown
	s.plane.put(clusterType, lossy)
	for range 3 {
		if code, text := s.post(t, clusterPath, `{}`); code != http.StatusOK || !strings.Contains(text, `"name":"lossy"`) {
			t.Fatalf("%d %s", code, text)
		}
	}
	s.plane.set(clusterType, "secret", "broken")
	for range 3 {
		s.post(t, clusterPath, `{"node":{"id":"n"}}`)
	}
	text := log.String()
	if strings.Count(text, "does not know: clients that poll do not get it") != 1 || strings.Count(text, "name=lossy") != 1 ||
		strings.Count(text, "cannot be sent to clients that poll") != 1 || strings.Contains(text, "secret") {
		t.Errorf("the log has\n%s", text)
	}
}
