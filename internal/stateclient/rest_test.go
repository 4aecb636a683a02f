package stateclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// polled is an HTTP server as a client's transport sees it.
type polled struct {
	t *testing.T

	mu     sync.Mutex
	polls  []string
	answer func() (int, string) // of a poll; a status of 0 holds it for ever
}

func (p *polled) RoundTrip(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var req discoveryv3.DiscoveryRequest
	if err := protojson.Unmarshal(body, &req); err != nil {
		p.t.Errorf("%s: %v", body, err)
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		p.t.Errorf("%s with %v", r.Method, r.Header)
	}
	p.mu.Lock()
	p.polls = append(p.polls, r.URL.String()+" "+short(&req))
	code, text := p.answer()
	p.mu.Unlock()
	if code == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Body: io.NopCloser(bytes.NewBufferString(text)),
	}, nil
}

func (p *polled) set(code int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = func() (int, string) { return code, text }
}

// next waits, then takes the polls since the last call.
func (p *polled) next(wait time.Duration) []string {
	<-time.After(wait)
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.polls
	p.polls = nil
	return all
}

func inJSON(m proto.Message) string { return protojson.Format(m) }

// rested runs a REST client against a server that answers as it is told.
func rested(t *testing.T, o xdsclient.Options, begin func(*xdsclient.Client, *polled)) (*xdsclient.Client, *polled, func() error) {
	t.Helper()
	p := &polled{t: t}
	o.Node = &corev3.Node{Id: "n"}
	c := NewREST(&http.Client{Transport: p}, "http://server", o)
	begin(c, p)
	return c, p, running(t, c)
}

const clusters = "http://server/v3/discovery:clusters Cluster node=n "

func TestVAR5_longPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := new(recorder)
		c, p, _ := rested(t, xdsclient.Options{OnResponse: rec.record}, func(c *xdsclient.Client, p *polled) {
			c.Subscribe(clusterType)
			p.answer = func() (int, string) {
				p.answer = func() (int, string) { return 0, "" } // holds the next one
				return http.StatusOK, inJSON(response("", "1", "a@1"))
			}
		})
		expect(t, "VAR-5 polls", []string{clusters + "[]", clusters + "[] v=1 n=n1"}, p.next(time.Hour))
		expect(t, "changes", []string{"added a"}, rec.next())

		// Names that are asked for interrupt the poll, and may not be hidden by the version.
		p.set(http.StatusOK, inJSON(response(clusterType, "1", "a@1", "b@1")))
		c.Subscribe(clusterType, "b")
		synctest.Wait()
		expect(t, "polls", []string{clusters + "[* b] n=n1"}, p.next(0))
		expect(t, "SUB-5 changes", []string{"unchanged a", "added b"}, rec.next())
		p.set(0, "")
		p.next(time.Hour)

		c.Unsubscribe(clusterType, "*", "b")
		expect(t, "SUB-2 nothing wanted, nothing asked", 0, len(p.next(time.Hour)))
		expect(t, "held", 0, c.Len(clusterType))
		p.set(http.StatusOK, inJSON(response(clusterType, "1", "a@1", "b@1")))
		c.Subscribe(clusterType, "b")
		expect(t, "polls", []string{clusters + "[b] n=n1"}, p.next(0))
		expect(t, "held", 1, c.Len(clusterType))
	})
}

func TestREST3_interval(t *testing.T) {
	for name, unchanged := range map[string]struct {
		code int
		body string
	}{
		"304":             {http.StatusNotModified, ""},
		"the version":     {http.StatusOK, inJSON(response(clusterType, "1", "a@1", "b@1"))},
		"the same body":   {http.StatusOK, inJSON(response(clusterType, "", "a@1"))},
		"what is refused": {http.StatusOK, inJSON(response(clusterType, "2", "a@1", "a@1"))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				responses := 0
				count := func(*xdsclient.Response) error { responses++; return nil }
				_, p, _ := rested(t, xdsclient.Options{OnResponse: count, PollInterval: 10 * time.Second}, func(c *xdsclient.Client, p *polled) {
					c.Subscribe(clusterType)
					p.set(http.StatusOK, inJSON(response(clusterType, "1", "a@1")))
				})
				expect(t, "polls", 1, len(p.next(0)))
				p.set(unchanged.code, unchanged.body)
				if n := len(p.next(10 * time.Minute)); n < 40 || n > 60 {
					t.Errorf("%d polls in ten minutes", n)
				}
				if responses > 2 {
					t.Errorf("%d responses were taken up", responses)
				}
			})
		})
	}
}

func TestACK6_OPS6_undecodableJSON(t *testing.T) {
	const head = `{"resources": [{"@type": "` + resource.APITypePrefix
	for body, want := range map[string]string{
		"":                         "error cannot decode the response: line 1:1: unexpected token",
		"{":                        "error cannot decode the response: the text ends too early",
		`{"resources": PRIVATE}`:   "error cannot decode the response: line 1:15: ",
		head + `example.Thing"}]}`: `error cannot decode resources[0]: line 1:11: this build does not know the type type.googleapis.com/example.Thing`,
		head + `envoy.config.cluster.v3.Cluster", "metadata": "PRIVATE"}]}`:              "error cannot decode resources[0]: line 1:",
		head + `envoy.config.core.v3.DataSource", "inline_bytes": "PRIVATE!"}]}`:         "error cannot decode resources[0]: line 1:82: invalid value for bytes field inlineBytes",
		head + `envoy.config.endpoint.v3.ClusterLoadAssignment", "cluster_name": "a"}]}`: `error cannot decode resources[0]: its type is "`,
		`{"type_url": "` + endpointType + `"}`:                                           "error cannot decode the response: its type_url is ",
		head + `envoy.config.cluster.v3.Cluster", "name": "a", "unknown": "field"}]}`:    "added a",
	} {
		synctest.Test(t, func(t *testing.T) {
			rec := new(recorder)
			_, p, _ := rested(t, xdsclient.Options{OnResponse: rec.record}, func(c *xdsclient.Client, p *polled) {
				c.Subscribe(clusterType)
				p.set(http.StatusOK, body)
			})
			got := rec.next()
			if len(got) != 1 || !strings.HasPrefix(got[0], want) || strings.Contains(got[0], "PRIVATE") {
				t.Errorf("%s: %q, want %q", body, got, want)
			}
			polls := p.next(time.Minute)
			if last := polls[len(polls)-1]; strings.HasPrefix(want, "error") != strings.Contains(last, "nack=") {
				t.Errorf("%s: asked again with %q", body, last)
			}
		})
	}
}

func TestREST3_errors(t *testing.T) {
	for _, tt := range []struct {
		code int
		body string
		want codes.Code
		text string
	}{
		{http.StatusBadRequest, " no \n", codes.InvalidArgument, "HTTP status 400 (Bad Request): no"},
		{http.StatusUnsupportedMediaType, "", codes.InvalidArgument, "HTTP status 415 (Unsupported Media Type)"},
		{http.StatusUnauthorized, "", codes.Unauthenticated, "HTTP status 401 (Unauthorized)"},
		{http.StatusForbidden, "", codes.PermissionDenied, "HTTP status 403 (Forbidden)"},
		{http.StatusNotFound, "", codes.Unimplemented, "HTTP status 404 (Not Found)"},
		{http.StatusMethodNotAllowed, "", codes.Unimplemented, "HTTP status 405 (Method Not Allowed)"},
		{http.StatusServiceUnavailable, "", codes.Unavailable, "HTTP status 503 (Service Unavailable)"},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, _, stop := rested(t, xdsclient.Options{}, func(c *xdsclient.Client, p *polled) {
				c.Subscribe(clusterType)
				p.set(tt.code, tt.body)
			})
			synctest.Wait()
			if err := stop(); status.Code(err) != tt.want || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("HTTP %d: %v", tt.code, err)
			}
		})
	}
	t.Run("back-off, and what is held stays", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &polled{t: t}
			p.set(http.StatusOK, inJSON(response(clusterType, "1", "a@1")))
			opened := 0
			c := NewREST(&http.Client{Transport: p}, "http://server", xdsclient.Options{OnOpen: func() { opened++ }})
			c.Subscribe(clusterType)
			ctx, cancel := context.WithCancel(t.Context())
			var lost []error
			done := make(chan error)
			go func() {
				done <- c.Follow(ctx, xdsclient.Backoff{Base: time.Second, Max: time.Minute}, func(err error, _ time.Duration) error {
					lost = append(lost, err)
					return nil
				})
			}()
			p.next(0)
			p.set(http.StatusServiceUnavailable, "down")
			if n := len(p.next(time.Hour)); n < 60 || n > 400 {
				t.Errorf("%d polls in an hour", n)
			}
			expect(t, "held", 1, c.Len(clusterType))
			p.set(http.StatusNotModified, "")
			polls := p.next(5 * time.Minute)
			expect(t, "ACK-5 first poll", "http://server/v3/discovery:clusters Cluster [] v=1", polls[0])
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("Follow: %v", err)
			}
			expect(t, "streams", len(lost)+1, opened)
		})
	})
}

func TestREST_unusableURL(t *testing.T) {
	c := NewREST(nil, "http://[", xdsclient.Options{})
	c.Subscribe(clusterType)
	if err := c.Run(t.Context()); status.Code(err) != codes.InvalidArgument {
		t.Errorf("Run: %v", err)
	}
}
