package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// rawStream is a stream on which a test says whatever it likes.
type rawStream struct {
	t *testing.T
	v variant
	grpc.ClientStream
}

// say is a request of either form.
type say struct {
	node    *corev3.Node // nil: one with an id
	noNode  bool
	typeURL string
	names   []string
	nonce   string
	nack    bool
}

func openRaw(t *testing.T, relay *testRelay, v variant, typeURL string) *rawStream {
	t.Helper()
	conn := dial(t, relay.addr)
	t.Cleanup(func() { _ = conn.Close() })
	s, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, v.method(typeURL))
	if err != nil {
		t.Fatal(err)
	}
	return &rawStream{t, v, s}
}

func (s *rawStream) say(r say) {
	if r.node == nil && !r.noNode {
		r.node = &corev3.Node{Id: "raw"}
	}
	var detail *statuspb.Status
	if r.nack {
		detail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: "no"}
	}
	if s.v.sotw {
		_ = s.SendMsg(&discovery.DiscoveryRequest{
			Node: r.node, TypeUrl: r.typeURL, ResourceNames: r.names, ResponseNonce: r.nonce, ErrorDetail: detail,
		}) // what the stream ended with is told by reading it
		return
	}
	_ = s.SendMsg(&discovery.DeltaDiscoveryRequest{
		Node: r.node, TypeUrl: r.typeURL, ResourceNamesSubscribe: r.names, ResponseNonce: r.nonce, ErrorDetail: detail,
	})
}

// hear reads one response: the names in it, the removed ones, and its nonce. The
// incremental form is acknowledged at once; the other with the next request.
func (s *rawStream) hear() (names, removed []string, nonce string, err error) {
	if s.v.sotw {
		r := new(discovery.DiscoveryResponse)
		if err := s.RecvMsg(r); err != nil {
			return nil, nil, "", err
		}
		for _, a := range r.GetResources() {
			names = append(names, nameOf(a.GetValue()))
		}
		return names, nil, r.GetNonce(), nil
	}
	r := new(discovery.DeltaDiscoveryResponse)
	if err := s.RecvMsg(r); err != nil {
		return nil, nil, "", err
	}
	for _, x := range r.GetResources() {
		names = append(names, x.GetName())
	}
	s.say(say{typeURL: r.GetTypeUrl(), nonce: r.GetNonce()})
	return names, r.GetRemovedResources(), "", nil
}

// hearOf reads until a name comes, which must come once in its response, and
// returns what was removed by then and the last nonce.
func (s *rawStream) hearOf(name string) (removed []string, nonce string) {
	s.t.Helper()
	for {
		names, gone, n, err := s.hear()
		if err != nil {
			s.t.Fatalf("the stream ended: %v", err)
		}
		removed = append(removed, gone...)
		if got := slices.Compact(slices.Sorted(slices.Values(names))); len(got) != len(names) {
			s.t.Errorf("RES-4: a response holds %q", names)
		}
		if slices.Contains(names, name) {
			return removed, n
		}
	}
}

// label is the variant's name in metrics.
func (v variant) label() string {
	switch {
	case v.perType && v.sotw:
		return downstream.State
	case v.perType:
		return downstream.Delta
	case v.sotw:
		return downstream.StateADS
	}
	return downstream.DeltaADS
}

// counter reads one counter on /metrics; what is not there counts as zero.
func (r *testRelay) counter(t *testing.T, series string) (n int) {
	t.Helper()
	_, body := r.get(t, "/metrics")
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// malformed is a request that should not be, and what comes of it.
type malformed struct {
	name     string
	only     func(variant) bool // nil: every variant
	policy   config.Policy      // "": either
	request  say
	code     codes.Code // of the stream's end; OK: it goes on, and e1 is answered
	reason   string
	refused  []string // names that incremental clients are told do not exist
	counter  string   // that moves, or stays if it moves by 0
	moves    int
	followUp bool // e1 was not in the request
}

func malformedRequests() []malformed {
	aggregated := func(v variant) bool { return !v.perType }
	perType := func(v variant) bool { return v.perType }
	wrong := "xdstp://a/envoy.config.cluster.v3.Cluster/x"
	endless := strings.Repeat("n", 65537)
	refusedNames := `xdsrelay_downstream_refused_names_total{code="InvalidArgument",type="eds"}`
	return []malformed{
		{name: "VAR-10 no type", only: aggregated, request: say{names: []string{"e1"}},
			code: codes.InvalidArgument, reason: "type_url is missing: on an aggregated stream every request must name its resource type"},
		{name: "VAR-10 no type where only one is served", only: perType, request: say{names: []string{"e1"}}},
		{name: "VAR-10 another type than the service's", only: perType, request: say{typeURL: clusterType, names: []string{"e1"}},
			code: codes.InvalidArgument, reason: `type_url is "` + clusterType + `": envoy.service.endpoint.v3.EndpointDiscoveryService serves ` + endpointType + " only"},
		{name: "VAR-8 a type that nobody knows", only: aggregated, request: say{typeURL: "type.googleapis.com/no.such.Type", names: []string{"x"}}, followUp: true},
		{name: "OPS-5 a type without end", request: say{typeURL: strings.Repeat("t", 513)},
			code: codes.ResourceExhausted, reason: "type_url has 513 bytes, at most 512 are served"},
		{name: "ABS-4 OPS-5 a name without end", request: say{typeURL: endpointType, names: []string{endless, "e1"}},
			refused: []string{endless}, counter: `xdsrelay_downstream_refused_names_total{code="ResourceExhausted",type="eds"}`, moves: 1},
		{name: "NAME-1 a bad xdstp name", request: say{typeURL: endpointType, names: []string{"xdstp://", "e1"}},
			refused: []string{"xdstp://"}, counter: refusedNames, moves: 1},
		{name: "NAME-5 a name of another type", request: say{typeURL: endpointType, names: []string{wrong, "e1"}},
			refused: []string{wrong}, counter: refusedNames, moves: 1},
		{name: "NAME-9 an empty name", request: say{typeURL: endpointType, names: []string{"", "e1"}}},
		{name: "RES-4 a name twice", request: say{typeURL: endpointType, names: []string{"e1", "e1"}}},
		{name: "STR-3 a nonce that was never given", request: say{typeURL: endpointType, names: []string{"e1"}, nonce: "garbage"}},
		{name: "ACK-1 a rejection of nothing", request: say{typeURL: endpointType, names: []string{"e1"}, nack: true},
			counter: `xdsrelay_downstream_nacks_total{type="eds"}`},
		{name: "STR-1 a node without anything", request: say{node: &corev3.Node{}, typeURL: endpointType, names: []string{"e1"}}},
		{name: "STR-1 no node where all share", policy: config.Share, request: say{noNode: true, typeURL: endpointType, names: []string{"e1"}}},
		{name: "STR-1 AGG-2 no node where the node decides", policy: config.Isolate, request: say{noNode: true, typeURL: endpointType, names: []string{"e1"}},
			code: codes.InvalidArgument, reason: "the stream's first request has no node, and the relay needs the node to choose the client's resources"},
	}
}

// TestMalformed says to a whole relay what no client should say, in every variant:
// the stream ends with a code and a reason, or goes on; it is counted, and other
// clients do not notice.
func TestMalformed_VAR10_STR1_STR3_OPS5_NAME1_NAME5(t *testing.T) {
	for _, policy := range []config.Policy{config.Share, config.Isolate} {
		for _, v := range variants {
			if v.rest {
				continue // it has no streams (REST-2)
			}
			t.Run(string(policy)+"/"+v.name, func(t *testing.T) { sayMalformed(t, policy, v) })
		}
	}
}

func sayMalformed(t *testing.T, policy config.Policy, v variant) {
	t.Helper()
	p := newPlane(t)
	p.set(clusterType, "c1", true)
	p.set(endpointType, "e1", false)
	p.set(endpointType, "e2", false)
	relay := startRelay(t, func(c *config.Config) {
		c.Aggregation.Otherwise, c.Limits.FirstRequest = policy, config.Duration(time.Second)
	}, p.addr)
	other := newVariantClient(t, v, relay.addr, "other")
	if err := other.connect(false); err != nil {
		t.Fatal(err)
	}
	other.subscribe(clusterType, []string{"*"}, nil)
	other.common().awaitHolding(t, clusterType, "c1")
	for _, m := range malformedRequests() {
		if (m.only != nil && !m.only(v)) || (m.policy != "" && m.policy != policy) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			m.play(t, relay, v)
			p.set(clusterType, "c1", true)
			want := p.payloads(clusterType, map[string]bool{"*": true})["c1"]
			if h := other.common(); !h.happens(func() bool { return h.payloads(clusterType)["c1"] == want }) {
				t.Error("another client does not get its update")
			}
		})
	}
	if found := other.common().found(); !other.connected() || len(found) > 0 {
		t.Errorf("the other client is connected: %t; it noticed %q", other.connected(), found)
	}
	relay.consistent(t)
	p.checkClient(t)
}

func (m malformed) play(t *testing.T, relay *testRelay, v variant) {
	t.Helper()
	if m.code != codes.OK {
		m.counter, m.moves = fmt.Sprintf("xdsrelay_downstream_streams_closed_total{code=%q,variant=%q}", m.code, v.label()), 1
	}
	before := 0
	if m.counter != "" {
		before = relay.counter(t, m.counter)
	}
	s := openRaw(t, relay, v, endpointType)
	s.say(m.request)
	if m.code != codes.OK {
		if _, _, _, err := s.hear(); status.Code(err) != m.code || !strings.Contains(err.Error(), m.reason) {
			t.Errorf("the stream ended with %v, want %v and %q", err, m.code, m.reason)
		}
	} else {
		m.goesOn(t, s)
	}
	if m.counter != "" {
		// A stream is counted as closed when its client has been told already.
		waitFor(t, m.counter, func() bool { return relay.counter(t, m.counter) >= before+m.moves })
		if n := relay.counter(t, m.counter) - before; n != m.moves {
			t.Errorf("%s moved by %d, want %d", m.counter, n, m.moves)
		}
	}
}

// goesOn checks that what is right of the request is answered, and the next one too.
func (m malformed) goesOn(t *testing.T, s *rawStream) {
	t.Helper()
	if m.followUp {
		s.say(say{typeURL: endpointType, names: []string{"e1"}})
	}
	removed, nonce := s.hearOf("e1")
	if !s.v.sotw && !slices.Equal(removed, m.refused) && !m.followUp {
		t.Errorf("RES-6: told that %q do not exist, want %q", removed, m.refused)
	}
	s.say(say{typeURL: endpointType, names: []string{"e1", "e2"}, nonce: nonce})
	s.hearOf("e2")
}
