package baseline

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var clusters = content.Set{TypeURL: content.ClusterType, Count: 3, Size: 200}

func serve(t *testing.T) (*Server, discoveryv3.AggregatedDiscoveryServiceClient) {
	t.Helper()
	s, err := New(clusters)
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(lis) }()
	cc, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cc.Close()
		s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, discoveryv3.NewAggregatedDiscoveryServiceClient(cc)
}

// holds gives the versions in a response, by name, after having compared the payloads.
func holds(t *testing.T, r *discoveryv3.DeltaDiscoveryResponse, revisions map[int]int) map[string]int {
	t.Helper()
	got := make(map[string]int)
	for _, res := range r.GetResources() {
		for item, revision := range revisions {
			want, err := clusters.Resource(item, revision)
			if err != nil {
				t.Fatal(err)
			}
			if proto.Equal(want, res) {
				got[res.GetName()] = revision
			}
		}
	}
	if len(got) != len(r.GetResources()) {
		t.Errorf("the response has something else: %v", r)
	}
	return got
}

// Everything first, then each update once; a stream that comes later, and one that presents
// versions, gets what there is then.
func TestBaselineSendsEverythingAndThenUpdates(t *testing.T) {
	s, client := serve(t)
	open := func(first *discoveryv3.DeltaDiscoveryRequest) discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient {
		stream, err := client.DeltaAggregatedResources(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first.TypeUrl = clusters.TypeURL
		if err := stream.Send(first); err != nil {
			t.Fatal(err)
		}
		return stream
	}
	receive := func(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, revisions, want map[int]int) {
		t.Helper()
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		names := make(map[string]int)
		for item, revision := range want {
			names[clusters.Name(item)] = revision
		}
		if diff := cmp.Diff(names, holds(t, r, revisions)); diff != "" {
			t.Errorf("another response (-want +got):\n%s", diff)
		}
		if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: clusters.TypeURL, ResponseNonce: r.GetNonce()}); err != nil {
			t.Fatal(err)
		}
	}
	early := open(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{"*"}})
	all := map[int]int{0: 0, 1: 0, 2: 0}
	receive(early, all, all)
	if err := s.Update(clusters.TypeURL, 1, 4); err != nil {
		t.Fatal(err)
	}
	all[1] = 4
	receive(early, all, map[int]int{1: 4})

	late := open(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{"*"}})
	receive(late, all, all)
	named := open(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{clusters.Name(2), "none"}})
	receive(named, all, map[int]int{2: 0})
	warm := open(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: map[string]string{"a": "1"}})
	if err := warm.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: clusters.TypeURL, ResourceNamesSubscribe: []string{clusters.Name(0)}}); err != nil {
		t.Fatal(err)
	}
	receive(warm, all, map[int]int{0: 0}) // what was asked for behind it, and nothing before

	if err := s.Update(clusters.TypeURL, 0, 7); err != nil {
		t.Fatal(err)
	}
	all[0] = 7
	for _, stream := range []discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient{early, late, warm} {
		receive(stream, all, map[int]int{0: 7})
	}
	if err := s.Update(clusters.TypeURL, clusters.Count, 1); err == nil {
		t.Error("a resource was updated that there is not")
	}
	if s.Streams() != 4 {
		t.Errorf("%d streams were counted, expected 4", s.Streams())
	}
}

func TestBaselineSendsLists(t *testing.T) {
	s, client := serve(t)
	if err := s.Update(clusters.TypeURL, 2, 1); err != nil { // before anybody wants lists
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := client.StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: clusters.TypeURL}); err != nil {
		t.Fatal(err)
	}
	for revision := 1; revision < 3; revision++ {
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(r.GetResources()) != clusters.Count || r.GetVersionInfo() == "" || r.GetNonce() == "" {
			t.Fatalf("the list is %v", r)
		}
		want, err := clusters.Resource(2, revision)
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(want.GetResource(), r.GetResources()[2]) {
			t.Errorf("the list does not hold revision %d", revision)
		}
		if err := s.Update(clusters.TypeURL, 2, revision+1); err != nil {
			t.Fatal(err)
		}
	}
}

// A first state larger than a message is split, and its resources have one copy.
func TestBaselineSplitsTheFirstState(t *testing.T) {
	set := content.Set{TypeURL: content.ClusterType, Count: 100, Size: 100 << 10}
	table, err := newTable(set)
	if err != nil {
		t.Fatal(err)
	}
	responses := table.everything()
	if len(responses) != 3 {
		t.Errorf("10 MB are split into %d responses, expected 3", len(responses))
	}
	item := 0
	for _, r := range responses {
		if r.Len() > maxResponse+1<<10 {
			t.Errorf("a response has %d bytes", r.Len())
		}
		var p discoveryv3.DeltaDiscoveryResponse
		if err := proto.Unmarshal(r.Materialize(), &p); err != nil {
			t.Fatal(err)
		}
		if first := r[0].ReadOnlyData(); &first[0] != &table.framed[item][0] {
			t.Errorf("resource %d does not lie in its response", item)
		}
		for _, res := range p.GetResources() {
			if want := set.Name(item); res.GetName() != want {
				t.Fatalf("resource %d is %q, expected %q", item, res.GetName(), want)
			}
			item++
		}
	}
	if item != set.Count {
		t.Errorf("%d resources, expected %d", item, set.Count)
	}
}

func TestRequests(t *testing.T) {
	received := newCodec()
	for name, c := range map[string]struct {
		state bool
		m     proto.Message
		want  request
	}{
		"subscribe": {m: &discoveryv3.DeltaDiscoveryRequest{TypeUrl: "t", ResourceNamesSubscribe: []string{"a", "b"}},
			want: request{typeURL: "t", names: []string{"a", "b"}}},
		"versions": {m: &discoveryv3.DeltaDiscoveryRequest{TypeUrl: "t", InitialResourceVersions: map[string]string{"a": "1"}},
			want: request{typeURL: "t", presented: true}},
		"acknowledgement": {m: &discoveryv3.DeltaDiscoveryRequest{TypeUrl: "t", ResponseNonce: "1"},
			want: request{typeURL: "t", answers: true}},
		"state of the world": {state: true, m: &discoveryv3.DiscoveryRequest{TypeUrl: "t", ResourceNames: []string{"a"}},
			want: request{state: true, typeURL: "t", names: []string{"a"}}},
		"acknowledgement of a list": {state: true, m: &discoveryv3.DiscoveryRequest{VersionInfo: "v", TypeUrl: "t", ResponseNonce: "1"},
			want: request{state: true, typeURL: "t", answers: true}},
	} {
		b, err := proto.Marshal(c.m)
		if err != nil {
			t.Fatal(err)
		}
		for _, data := range []mem.BufferSlice{
			{mem.SliceBuffer(b)},
			{mem.SliceBuffer(b[:1]), mem.SliceBuffer(b[1:])}, // two frames
		} {
			got := request{state: c.state, names: []string{"of the request before"}}
			if err := received.Unmarshal(data, &got); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(request{})); diff != "" {
				t.Errorf("%s in %d frames: another request (-want +got):\n%s", name, len(data), diff)
			}
		}
	}
	if err := received.Unmarshal(mem.BufferSlice{mem.SliceBuffer{0x0a, 9}}, &request{}); err == nil {
		t.Error("a request that is cut off is taken")
	}
}

// However often a client lets go of everything and subscribes to it again, it is sent each update once; and
// none while it wants nothing.
func TestBaselineFollowsOnceForEachStream(t *testing.T) {
	s, client := serve(t)
	stream, err := client.DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	send := func(subscribe, unsubscribe []string) {
		t.Helper()
		r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: clusters.TypeURL, ResourceNamesSubscribe: subscribe, ResourceNamesUnsubscribe: unsubscribe}
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(want int) {
		t.Helper()
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(r.GetResources()) != want {
			t.Errorf("%d resources, expected %d", len(r.GetResources()), want)
		}
	}
	all := []string{clusters.Name(0), "*"}
	for range 100 {
		send(all, nil)
		receive(clusters.Count)
		send(nil, all)
	}
	send([]string{clusters.Name(2)}, nil)
	receive(1)
	if err := s.Update(clusters.TypeURL, 1, 1); err != nil { // for nobody
		t.Fatal(err)
	}
	send([]string{"*"}, nil)
	send([]string{"*"}, nil)
	receive(clusters.Count)
	receive(clusters.Count)
	if err := s.Update(clusters.TypeURL, 1, 2); err != nil {
		t.Fatal(err)
	}
	receive(1)
	send([]string{clusters.Name(0), clusters.Name(2)}, nil)
	receive(2) // the update came once
}

// Polls get everything that there is, as often as they come.
func TestBaselineAnswersPolls(t *testing.T) {
	s, _ := serve(t)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.ServeREST(lis) }()
	t.Cleanup(func() {
		_ = lis.Close()
		<-done
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for revision := range 2 {
		if err := s.Update(clusters.TypeURL, 1, revision); err != nil {
			t.Fatal(err)
		}
		r, err := client.Post("http://"+lis.Addr().String()+"/v3/discovery:clusters", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		var got discoveryv3.DiscoveryResponse
		if err := protojson.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		want, err := clusters.Resource(1, revision)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.GetResources()) != clusters.Count || !proto.Equal(got.GetResources()[1], want.GetResource()) {
			t.Errorf("the answer is %v", &got)
		}
	}
}
