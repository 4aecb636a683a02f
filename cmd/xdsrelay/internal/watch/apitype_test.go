package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

func TestParseAPIType(t *testing.T) {
	for text, want := range map[string]APIType{
		"AGGREGATED_DELTA_GRPC": AggregatedDeltaGRPC, "aggregated_grpc": AggregatedGRPC, "Delta_GRPC": DeltaGRPC, "grpc": GRPC, "rest": REST,
	} {
		if got, err := ParseAPIType(text); got != want || err != nil {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "ads", "GRPC ", "DELTA"} {
		_, err := ParseAPIType(text)
		if err == nil || err.Error() != "expected one of AGGREGATED_DELTA_GRPC, AGGREGATED_GRPC, DELTA_GRPC, GRPC, REST" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// teller answers state-of-the-world and per-type streams, and polls, with its
// responses, one stream each and a second between them; then it stays, or goes
// away if there are more streams to come.
type teller struct {
	mu      sync.Mutex
	state   scripted[discoveryv3.DiscoveryResponse]
	delta   scripted[discoveryv3.DeltaDiscoveryResponse]
	methods []string
}

// called notes a method. There are the aggregated ones, and those of clusters.
func (s *teller) called(g grpc.ServerStream) error {
	method, _ := grpc.Method(g.Context())
	if method = path.Base(method); !strings.HasSuffix(method, "AggregatedResources") && !strings.HasSuffix(method, "Clusters") {
		return status.Error(codes.Unimplemented, method)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.methods = append(s.methods, method)
	return nil
}

// RoundTrip answers polls: each with the next response of the next stream, with
// 304 when there is none left of the last, and with 503 between two streams.
func (s *teller) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
	if method := r.Method + " " + r.URL.String(); !slices.Contains(s.methods, method) {
		s.methods = append(s.methods, method)
	}
	respond := func(code int, body []byte) (*http.Response, error) {
		return &http.Response{StatusCode: code, Status: http.StatusText(code), Body: io.NopCloser(bytes.NewReader(body))}, nil
	}
	switch script := s.state[0]; {
	case len(script) > 0:
		s.state[0] = script[1:]
		body, err := protojson.Marshal(script[0])
		if err != nil {
			return nil, err
		}
		var compact bytes.Buffer // protojson puts spaces in as it likes, and sizes are shown
		if err := json.Compact(&compact, body); err != nil {
			return nil, err
		}
		return respond(http.StatusOK, compact.Bytes())
	case len(s.state) > 1:
		s.state = s.state[1:]
		return respond(http.StatusServiceUnavailable, []byte("going away"))
	default:
		return respond(http.StatusNotModified, nil)
	}
}

// reach leads to a teller in all variants.
func reach(t *testing.T, s *teller) Transport {
	t.Helper()
	conn := connect(t, &plane.Script{
		State: func(g plane.StateStream) error {
			if err := s.called(g); err != nil {
				return err
			}
			return play(&s.mu, &s.state, nil, g)
		},
		Delta: func(g plane.DeltaStream) error {
			if err := s.called(g); err != nil {
				return err
			}
			return play(&s.mu, &s.delta, nil, g)
		},
	})
	return Transport{Conn: conn, HTTP: &http.Client{Transport: s}, URL: "https://server:18100"}
}

func state(version, nonce string, resources ...*discoveryv3.Resource) *discoveryv3.DiscoveryResponse {
	r := &discoveryv3.DiscoveryResponse{TypeUrl: resource.ClusterType, VersionInfo: version, Nonce: nonce}
	for _, res := range resources {
		r.Resources = append(r.Resources, res.Resource)
	}
	return r
}

// states has what state-of-the-world responses can say of clusters, over two
// streams of which the second has one resource.
func states(other *discoveryv3.Resource, nonces ...string) [][]*discoveryv3.DiscoveryResponse {
	wrapped := state("3", nonces[2])
	wrapped.Resources = []*anypb.Any{encoded.Any(cluster("cart", 3))} // RES-13
	return [][]*discoveryv3.DiscoveryResponse{
		{
			state("1", nonces[0], cluster("checkout", 1), cluster("cart", 1)),
			state("2", nonces[1], cluster("checkout", 1), cluster("cart", 2)),
			wrapped,
			state("4", nonces[3], cluster("twice", 1), cluster("twice", 1)),
		},
		{state("1", nonces[4], other)},
	}
}

func TestAPITypes(t *testing.T) {
	streamed := states(withKey(), "a", "b", "c", "d", "a")
	// JSON has no word for the payload of a payload that withKey has and nobody knows.
	polled := states(cluster("tls", 1), "", "", "", "", "")
	for _, tt := range []struct {
		golden  string
		server  *teller
		options Options
		methods []string
	}{
		{"aggregated_grpc.txt", &teller{state: streamed}, Options{APIType: AggregatedGRPC}, []string{"StreamAggregatedResources", "StreamAggregatedResources"}},
		{"aggregated_grpc.json", &teller{state: streamed}, Options{APIType: AggregatedGRPC, Format: JSON, Payload: true}, []string{"StreamAggregatedResources", "StreamAggregatedResources"}},
		{"grpc.txt", &teller{state: streamed}, Options{APIType: GRPC}, []string{"StreamClusters", "StreamClusters"}},
		{"grpc.json", &teller{state: streamed}, Options{APIType: GRPC, Format: JSON}, []string{"StreamClusters", "StreamClusters"}},
		{"delta_grpc.txt", &teller{delta: [][]*discoveryv3.DeltaDiscoveryResponse{
			{delta(resource.ClusterType, "1", cluster("a", 1)), delta(resource.ClusterType, "2", cluster("a", 1))},
			{without(delta(resource.ClusterType, "1"), "a")},
		}}, Options{APIType: DeltaGRPC}, []string{"DeltaClusters", "DeltaClusters"}},
		{"rest.txt", &teller{state: polled}, Options{APIType: REST}, []string{"POST https://server:18100/v3/discovery:clusters"}},
	} {
		t.Run(tt.golden, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// The scripts are used up.
				tt.server.state = slices.Clone(tt.server.state)
				o := tt.options
				o.Target, o.Timeout = "server:18100", 30*time.Second
				o.Subscriptions = []Subscription{{TypeURL: resource.ClusterType}}
				o.Backoff = xdsclient.Backoff{Base: 1, Max: 1}
				var out bytes.Buffer
				if err := Run(t.Context(), reach(t, tt.server), &out, o); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(out.String(), private) {
					t.Error("OPS-6: a secret is shown")
				}
				got := out.Bytes()
				if o.APIType == REST { // polls begin when the jitter says
					got = timeless(got)
				}
				golden(t, tt.golden, got)
				if !slices.Equal(tt.server.methods, tt.methods) {
					t.Errorf("VAR-1 VAR-2 VAR-3 VAR-5: called %q, want %q", tt.server.methods, tt.methods)
				}
			})
		})
	}
}

// timeless takes the time off lines of text.
func timeless(text []byte) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		b.Write(line[len(timeFormat):])
	}
	return b.Bytes()
}

func TestTypesThatCannotBeAskedFor(t *testing.T) {
	for _, tt := range []struct {
		api  APIType
		url  string
		want string
	}{
		{AggregatedGRPC, resource.VirtualHostType, "vhds cannot be asked for: there is no state-of-the-world service for it"},
		{REST, resource.VirtualHostType, "vhds cannot be asked for: there is no REST service for it"},
		{DeltaGRPC, resource.RateLimitConfigType, "there is no incremental per-type service for it"},
		{GRPC, resource.RateLimitConfigType, "there is no state-of-the-world per-type service for it"},
	} {
		var out bytes.Buffer
		// There is no transport: it would be found out.
		err := Run(t.Context(), Transport{}, &out, Options{APIType: tt.api, Subscriptions: []Subscription{{TypeURL: tt.url}}})
		if _, ok := errors.AsType[*xdsclient.UnservedError](err); !ok || !strings.Contains(err.Error(), tt.want) || out.Len() > 0 {
			t.Errorf("%s: %v, want %q", tt.api, err, tt.want)
		}
	}
}

// A permanent reason of one stream ends all of them.
func TestPerTypeEndsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &teller{delta: [][]*discoveryv3.DeltaDiscoveryResponse{nil}}
		subs := []Subscription{{TypeURL: resource.ClusterType}, {TypeURL: resource.EndpointType}}
		err := Run(t.Context(), reach(t, s), new(bytes.Buffer), Options{APIType: DeltaGRPC, Subscriptions: subs})
		if status.Code(err) != codes.Unimplemented || !strings.HasPrefix(err.Error(), "eds: ") {
			t.Errorf("%v", err)
		}
	})
}
