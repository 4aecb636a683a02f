package xdsclient

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

func overREST() []variant { return variants()[4:] }

// repeat answers every poll the same way until the test ends it.
func (s *script) repeat(code int, body string) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s.poll("cds") <- reply{code, body}:
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); synctest.Wait() }
}

func (s *script) inJSON(number string, elements ...string) string {
	return protojson.Format(s.response(clusterType, number, elements...))
}

func TestVAR5_REST1_longPoll(t *testing.T) {
	over(t, overREST(), func(s *script) {
		rec := new(recorder)
		c := s.client(Options{OnResponse: rec.record})
		c.Subscribe(clusterType)
		running(s.T, c)
		s.send(clusterType, "1", "a@1")
		expect(s.T, "polls", []string{"cds: Cluster []", "cds: Cluster [] v=1 ack=n1"}, s.next())
		expect(s.T, "changes", []string{"added a >1"}, rec.next())

		// Names that are asked for interrupt the poll, and may not be hidden by the version.
		c.Subscribe(clusterType, "b")
		expect(s.T, "polls", []string{"cds: Cluster [* b] ack=n1"}, s.next())
		s.send(clusterType, "1", "a@1", "b@1")
		expect(s.T, "SUB-5 changes", []string{"unchanged a 1>1", "added b >1"}, rec.next())

		s.next()
		c.Unsubscribe(clusterType, "*", "b")
		expect(s.T, "SUB-2 nothing wanted, nothing asked", nil, s.next())
		expect(s.T, "held", 0, c.Len(clusterType))
		c.Subscribe(clusterType, "b")
		expect(s.T, "polls", []string{"cds: Cluster [b] ack=n1"}, s.next())
		s.send(clusterType, "1", "a@1", "b@1")
		expect(s.T, "held", 1, c.Len(clusterType))
	})
}

func TestREST3_interval(t *testing.T) {
	for _, tt := range []struct {
		name, number string
		code         int
		elements     []string
	}{
		{"304", "1", http.StatusNotModified, nil},
		{"the version", "1", http.StatusOK, []string{"a@1", "b@1"}},
		{"the same body", "1", http.StatusOK, []string{"a@1"}},
		{"what is refused", "2", http.StatusOK, []string{"a@1", "a@1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			over(t, overREST(), func(s *script) {
				responses := 0
				c := s.client(Options{PollInterval: 10 * time.Second, OnResponse: func(*Response) error { responses++; return nil }})
				c.Subscribe(clusterType)
				running(s.T, c)
				s.send(clusterType, "1", "a@1")
				s.next()
				body := ""
				if tt.code == http.StatusOK {
					body = s.inJSON(tt.number, tt.elements...)
				}
				stop := s.repeat(tt.code, body)
				<-time.After(10 * time.Minute)
				stop()
				if n := len(s.next()); n < 40 || n > 60 {
					s.Errorf("%d polls in ten minutes", n)
				}
				if responses > 2 {
					s.Errorf("%d responses were taken up", responses)
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
		over(t, overREST(), func(s *script) {
			rec := new(recorder)
			c := s.client(Options{OnResponse: rec.record})
			c.Subscribe(clusterType)
			running(s.T, c)
			s.sendMessage(clusterType, wire.Raw(body))
			got := rec.next()
			if len(got) != 1 || !strings.HasPrefix(got[0], want) || strings.Contains(got[0], "PRIVATE") {
				s.Errorf("%s: %q, want %q", body, got, want)
			}
			polls := s.next()
			if last := polls[len(polls)-1]; strings.HasPrefix(want, "error") != strings.Contains(last, "nack=") {
				s.Errorf("%s: asked again with %q", body, last)
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
		over(t, overREST(), func(s *script) {
			c := s.client(Options{})
			c.Subscribe(clusterType)
			stop := running(s.T, c)
			s.poll("cds") <- reply{tt.code, tt.body}
			synctest.Wait()
			if err := stop(); status.Code(err) != tt.want || !strings.Contains(err.Error(), tt.text) {
				s.Errorf("HTTP %d: %v", tt.code, err)
			}
		})
	}
}

func TestREST3_backoffAndWhatIsHeldStays(t *testing.T) {
	over(t, overREST(), func(s *script) {
		opened := 0
		c := s.client(Options{OnOpen: func(string) { opened++ }})
		c.Subscribe(clusterType)
		ctx, cancel := context.WithCancel(s.Context())
		var lost []error
		done := make(chan error)
		go func() {
			done <- c.Follow(ctx, Backoff{Base: time.Second, Max: time.Minute}, func(err error, _ time.Duration) error {
				lost = append(lost, err)
				return nil
			})
		}()
		s.send(clusterType, "1", "a@1")
		s.next()
		stop := s.repeat(http.StatusServiceUnavailable, "down")
		<-time.After(time.Hour)
		stop()
		if n := len(s.next()); n < 60 || n > 400 {
			s.Errorf("%d polls in an hour", n)
		}
		expect(s.T, "held", 1, c.Len(clusterType))
		stop = s.repeat(http.StatusNotModified, "")
		<-time.After(5 * time.Minute)
		stop()
		expect(s.T, "ACK-5 a first poll", "cds: Cluster [] v=1", s.next()[0])
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			s.Errorf("Follow: %v", err)
		}
		expect(s.T, "streams", len(lost)+1, opened)
	})
}

func TestREST_unusableURL(t *testing.T) {
	c := New(Options{Form: REST, URL: "http://["})
	c.Subscribe(clusterType)
	if err := c.Run(t.Context()); status.Code(err) != codes.InvalidArgument {
		t.Errorf("Run: %v", err)
	}
}
