package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// fleet is a relay with clients.
type fleet struct {
	state

	all   []downstream.Status
	looks *atomic.Int32 // at the clients
}

func (f fleet) Clients(of func(string) bool, names downstream.Wanted) []downstream.Status {
	if f.looks != nil {
		f.looks.Add(1)
	}
	all := slices.DeleteFunc(slices.Clone(f.all), func(s downstream.Status) bool { return of != nil && !of(s.Node) })
	if names == nil {
		for i := range all {
			all[i].Types = nil
		}
	}
	return all
}

// statusClient asks the service over HTTP/2 without TLS.
func statusClient(t *testing.T, all ...downstream.Status) statusv3.ClientStatusDiscoveryServiceClient {
	t.Helper()
	return statusClientOf(t, &admin.Pages{State: fleet{all: all}, Commands: state{}})
}

func statusClientOf(t *testing.T, p *admin.Pages) statusv3.ClientStatusDiscoveryServiceClient {
	t.Helper()
	mux := http.NewServeMux()
	p.Handle(mux)
	s := httptest.NewUnstartedServer(mux)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	conn, err := grpc.NewClient("passthrough:///"+s.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return statusv3.NewClientStatusDiscoveryServiceClient(conn)
}

// shown is what a response says, a line for each name.
func shown(r *statusv3.ClientStatusResponse) (lines []string) {
	for _, c := range r.GetConfig() {
		for _, x := range c.GetGenericXdsConfigs() {
			line := fmt.Sprintf("%s %s %s %s %s", c.GetNode().GetId(), x.GetName(), x.GetVersionInfo(), x.GetClientStatus(), x.GetConfigStatus())
			if e := x.GetErrorState(); e != nil {
				line += fmt.Sprintf(" (%s %q)", e.GetVersionInfo(), e.GetDetails())
			}
			if x.GetXdsConfig() != nil {
				line += " with its content"
			}
			lines = append(lines, line)
		}
		if len(c.GetGenericXdsConfigs()) == 0 {
			lines = append(lines, c.GetNode().GetId())
		}
	}
	return lines
}

// However few nodes are asked for, the clients are walked once.
func TestClientStatusLooksOnce_CSDS1(t *testing.T) {
	f := fleet{looks: new(atomic.Int32), all: []downstream.Status{{Node: "a"}, {Node: "b"}}}
	client := statusClientOf(t, &admin.Pages{State: f, Commands: state{}})
	for _, match := range []*matcherv3.StringMatcher{nil, {MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "a"}}} {
		req := &statusv3.ClientStatusRequest{}
		if match != nil {
			req.NodeMatchers = []*matcherv3.NodeMatcher{{NodeId: match}}
		}
		if _, err := client.FetchClientStatus(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if n := f.looks.Swap(0); n != 1 {
			t.Errorf("matching %v the clients were walked %d times", match, n)
		}
	}
}

func TestClientStatus_CSDS1(t *testing.T) {
	at := time.Unix(1000, 0)
	client := statusClient(t,
		downstream.Status{Node: "b", Types: map[string]downstream.TypeView{clusterType: {
			Config: "ERROR", TypeStatus: downstream.TypeStatus{LastNack: &downstream.Nack{At: at, Message: "bad"}},
			Names: []delivery.Detail{
				{Name: "y", Status: delivery.StatusNacked, Held: "1", Sent: "2", Cached: "2", Changed: at},
				{Name: "x", Status: delivery.StatusAcked, Held: "1", Sent: "1", Cached: "1"},
			},
		}}},
		downstream.Status{Node: "a", Cluster: "c\xff", Types: map[string]downstream.TypeView{clusterType: {Config: "NOT_SENT", Names: []delivery.Detail{
			{Name: "z", Status: delivery.StatusRequested}, {Name: "w", Status: delivery.StatusMissing}, {Name: "v", Status: delivery.StatusTimeout},
			{Name: "s", Status: delivery.StatusStale, Held: "2", Sent: "3"},
			{Name: "u", Status: delivery.StatusStale, Sent: "3"}, {Name: "t", Status: delivery.StatusError, Error: "gone"},
		}}}},
		downstream.Status{Node: "c", Variant: downstream.StateADS, Types: map[string]downstream.TypeView{clusterType: {
			Held: "10", Sent: "11", Names: []delivery.Detail{{Name: "r", Status: delivery.StatusAcked, Held: "h", Sent: "h"}, {Name: "q", Status: delivery.StatusStale, Sent: "i"}},
		}}},
		downstream.Status{},
	)
	want := []string{
		"", // a client without a node
		"a s 2 ACKED STALE", `a t  RECEIVED_ERROR ERROR ( "gone")`, "a u 3 REQUESTED STALE", "a v  TIMEOUT NOT_SENT", "a w  DOES_NOT_EXIST SYNCED",
		"a z  REQUESTED NOT_SENT", "b x 1 ACKED SYNCED", `b y 1 NACKED ERROR (2 "bad")`, "c q 11 REQUESTED STALE", "c r 10 ACKED SYNCED",
	}
	r, err := client.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{})
	if got := shown(r); err != nil || !slices.Equal(got, want) {
		t.Errorf("fetched %q, %v, want %q", got, err, want)
	}
	stream, err := client.StreamClientStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := stream.Send(&statusv3.ClientStatusRequest{}); err != nil {
			t.Fatal(err)
		}
		if r, err := stream.Recv(); err != nil || !slices.Equal(shown(r), want) {
			t.Errorf("the stream has %q, %v", shown(r), err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if r, err := stream.Recv(); err == nil {
		t.Errorf("the stream goes on: %q", shown(r))
	}
}

// broken is a relay in which a look at the clients panics.
type broken struct{ state }

func (broken) Clients(func(string) bool, delivery.Wanted) []downstream.Status { panic("broken") }

// A panic ends the call, in whatever goroutine gRPC carries it out (SUR-6).
func TestClientStatusContained_SUR6(t *testing.T) {
	contain := func(f func() error) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = status.Error(codes.Internal, fmt.Sprint(v))
			}
		}()
		return f()
	}
	client := statusClientOf(t, &admin.Pages{State: broken{}, Commands: state{}, Contain: contain})
	if _, err := client.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{}); status.Code(err) != codes.Internal {
		t.Errorf("fetching: %v", err)
	}
	stream, err := client.StreamClientStatus(t.Context())
	if err == nil {
		err = stream.Send(&statusv3.ClientStatusRequest{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("streaming: %v", err)
	}
}

func TestNodeMatcher_CSDS1(t *testing.T) {
	client := statusClient(t, downstream.Status{Node: "edge-1"}, downstream.Status{Node: "EDGE-2"}, downstream.Status{Node: "mesh-1"})
	id := func(m *matcherv3.StringMatcher) []*matcherv3.NodeMatcher {
		return []*matcherv3.NodeMatcher{{NodeId: m}}
	}
	regex := func(re string) *matcherv3.StringMatcher {
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: re}}}
	}
	exact := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "mesh-1"}}
	for name, tc := range map[string]struct {
		matchers []*matcherv3.NodeMatcher
		want     string // the nodes, or a part of the error
	}{
		"none":     {nil, "EDGE-2 edge-1 mesh-1"},
		"exact":    {id(exact), "mesh-1"},
		"prefix":   {id(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "edge"}}), "edge-1"},
		"any case": {id(&matcherv3.StringMatcher{IgnoreCase: true, MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "Edge"}}), "EDGE-2 edge-1"},
		"suffix":   {id(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: "-1"}}), "edge-1 mesh-1"},
		"contains": {id(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: "h-"}}), "mesh-1"},
		"regex":    {id(regex("edge|mesh-.")), "mesh-1"},
		"either":   {append(id(exact), id(regex("edge-.*"))...), "edge-1 mesh-1"},
		"bad":      {id(regex("(")), "node_id: error parsing regexp"},
		"nothing":  {id(&matcherv3.StringMatcher{}), "none of exact, prefix"},
		"empty":    {[]*matcherv3.NodeMatcher{{}}, "without node_id"},
		"metadata": {[]*matcherv3.NodeMatcher{{NodeMetadatas: []*matcherv3.StructMatcher{{Value: &matcherv3.ValueMatcher{}}}}}, "node_metadatas"},
	} {
		r, err := client.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{NodeMatchers: tc.matchers})
		if err != nil {
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %q", name, err, tc.want)
			}
			continue
		}
		if got := strings.Join(shown(r), " "); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
