package plane_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"go.uber.org/goleak"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deltaStream is an incremental stream whose responses are read as they come.
type deltaStream struct {
	t         *testing.T
	stream    discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	responses chan *discovery.DeltaDiscoveryResponse
}

func dial(t *testing.T, p *plane.Plane) discovery.AggregatedDiscoveryServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(p.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return discovery.NewAggregatedDiscoveryServiceClient(conn)
}

func openDelta(t *testing.T, p *plane.Plane) *deltaStream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := dial(t, p).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := &deltaStream{t: t, stream: stream, responses: make(chan *discovery.DeltaDiscoveryResponse, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.responses)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			s.responses <- r
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return s
}

func (s *deltaStream) send(r *discovery.DeltaDiscoveryRequest) {
	s.t.Helper()
	r.Node = &corev3.Node{Id: "client"}
	if err := s.stream.Send(r); err != nil {
		s.t.Fatal(err)
	}
}

func (s *deltaStream) subscribe(typeURL string, names ...string) {
	s.t.Helper()
	s.send(&discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names})
}

// next gives the next response as "name name -removed".
func (s *deltaStream) next(want string) *discovery.DeltaDiscoveryResponse {
	s.t.Helper()
	select {
	case r, ok := <-s.responses:
		if !ok {
			s.t.Fatal("the stream ended")
		}
		if got := shown(r); got != want {
			s.t.Fatalf("the response is %q, want %q", got, want)
		}
		return r
	case <-time.After(10 * time.Second):
		s.t.Fatalf("no response, want %q", want)
		return nil
	}
}

func shown(r *discovery.DeltaDiscoveryResponse) string {
	var parts []string
	for _, x := range r.GetResources() {
		part := x.GetName()
		if x.GetResource() == nil {
			part += "(empty)"
		}
		parts = append(parts, part)
	}
	for _, n := range r.GetRemovedResources() {
		parts = append(parts, "-"+n)
	}
	return strings.Join(parts, " ")
}

func (s *deltaStream) ack(r *discovery.DeltaDiscoveryResponse) {
	s.t.Helper()
	s.send(&discovery.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()})
}

// silent checks that nothing is sent before an answer that is due later anyway: the
// subscription to a name of another type.
func (s *deltaStream) silent(p *plane.Plane) {
	s.t.Helper()
	p.Set(&routev3.RouteConfiguration{Name: "marker"})
	s.subscribe(plane.Route, "marker")
	s.ack(s.next("marker"))
	p.Remove(&routev3.RouteConfiguration{Name: "marker"})
	s.ack(s.next("-marker"))
	s.send(&discovery.DeltaDiscoveryRequest{TypeUrl: plane.Route, ResourceNamesUnsubscribe: []string{"marker"}})
}

func cluster(name string, timeout int) *clusterv3.Cluster {
	c := &clusterv3.Cluster{Name: name}
	if timeout > 0 {
		c.AltStatName = strings.Repeat("x", timeout)
	}
	return c
}

func TestDelta_wildcard(t *testing.T) {
	p := plane.Start(t, plane.GoControlPlane())
	p.Set(cluster("a", 0))
	s := openDelta(t, p)
	s.subscribe(plane.Cluster)
	first := s.next("a")
	// Two changes before the acknowledgement are one response after it.
	p.Set(cluster("b", 0))
	p.Set(cluster("c", 0))
	s.silent(p)
	s.ack(first)
	s.ack(s.next("b c"))
	p.Set(cluster("c", 0)) // unchanged
	p.Apply(plane.Change{Set: []plane.Resource{plane.Named(cluster("a", 1))}, Remove: []plane.Key{plane.KeyOf(cluster("b", 0))}})
	s.ack(s.next("a -b"))
	p.Apply(plane.Change{Set: []plane.Resource{{Name: "hidden", Message: cluster("hidden", 0), Unlisted: true}}})
	s.silent(p)
	s.subscribe(plane.Cluster, "hidden")
	s.ack(s.next("hidden"))
}

// TestOneStream has a node have one stream.
func TestOneStream(t *testing.T) {
	p := plane.Start(t, plane.Behaviour{OneStream: true})
	p.Set(cluster("a", 0))
	s, second := openDelta(t, p), openDelta(t, p)
	s.subscribe(plane.Cluster)
	s.next("a")
	second.subscribe(plane.Cluster)
	if _, open := <-second.responses; open {
		t.Error("a second stream was answered")
	}
	p.Set(cluster("b", 0))
	s.next("b")
}

func TestDelta_absent(t *testing.T) {
	for want, absent := range map[string]plane.Absent{
		"": plane.AbsentSilent, "-nobody": plane.AbsentRemoved, "nobody(empty)": plane.AbsentUnresolved,
	} {
		t.Run(want, func(t *testing.T) {
			p := plane.Start(t, plane.Behaviour{Absent: absent})
			s := openDelta(t, p)
			s.subscribe(plane.VirtualHost, "nobody")
			if want != "" {
				s.ack(s.next(want))
			}
			s.silent(p)
			p.Apply(plane.Change{Set: []plane.Resource{{Name: "host", Aliases: []string{"nobody"}, Message: &routev3.VirtualHost{Name: "host"}}}})
			s.ack(s.next("host"))
		})
	}
}

func TestDelta_resumed(t *testing.T) {
	resume(t, plane.GoControlPlane(), "new -gone -hidden")
	ignores := plane.GoControlPlane()
	ignores.IgnoreVersions = true
	resume(t, ignores, "new same -gone -hidden")
}

// resume comes back with versions to a plane that has another content of one of them, one not at all, and one that the
// wildcard does not mean.
func resume(t *testing.T, b plane.Behaviour, want string) {
	t.Helper()
	p := plane.Start(t, b)
	p.Set(cluster("same", 0), cluster("new", 0))
	s := openDelta(t, p)
	s.subscribe(plane.Cluster)
	first := s.next("new same")
	p.Apply(plane.Change{Set: []plane.Resource{{Name: "hidden", Message: cluster("hidden", 0), Unlisted: true}}})
	versions := map[string]string{"gone": "1", "hidden": "1"}
	for _, x := range first.GetResources() {
		versions[x.GetName()] = x.GetVersion()
	}
	p.Set(cluster("new", 1))
	p.BreakStreams()
	again := openDelta(t, p)
	again.send(&discovery.DeltaDiscoveryRequest{TypeUrl: plane.Cluster, InitialResourceVersions: versions})
	again.next(want)
}

func TestDelta_parts(t *testing.T) {
	p := plane.Start(t, plane.Behaviour{PerResponse: 2})
	p.Set(cluster("a", 0), cluster("b", 0), cluster("c", 0))
	s := openDelta(t, p)
	s.subscribe(plane.Cluster)
	s.next("a b")
	s.next("c")
}

// TestDelta_istio pushes endpoints again after their cluster.
func TestDelta_istio(t *testing.T) {
	p := plane.Start(t, plane.Istio())
	p.Set(cluster("a", 0), &endpointv3.ClusterLoadAssignment{ClusterName: "a"})
	s := openDelta(t, p)
	s.subscribe(plane.Cluster)
	r := s.next("a")
	if v := r.GetResources()[0].GetVersion(); v != "" {
		t.Errorf("the version is %q, want none", v)
	}
	s.ack(r)
	s.subscribe(plane.Endpoints, "a")
	s.ack(s.next("a"))
	p.Set(cluster("a", 1))
	if r := s.next("a"); r.GetTypeUrl() != plane.Cluster {
		t.Errorf("first comes %s", r.GetTypeUrl())
	}
	if r := s.next("a"); r.GetTypeUrl() != plane.Endpoints {
		t.Errorf("then comes %s", r.GetTypeUrl())
	}
}

func TestDelta_held(t *testing.T) {
	p := plane.Start(t, plane.GoControlPlane())
	p.Hold(plane.Cluster)
	s := openDelta(t, p)
	p.Set(cluster("a", 0))
	s.subscribe(plane.Cluster)
	s.silent(p)
	p.Set(cluster("b", 0))
	p.Release()
	s.ack(s.next("a b"))

	p.Behave(func(b *plane.Behaviour) { b.Mute = true })
	p.Set(cluster("c", 0))
	s.subscribe(plane.Endpoints, "x") // taken, and not answered
	if _, ok := wait.Until(10*time.Second, func() bool { return p.Asked(plane.Endpoints, "x") }); !ok {
		t.Error("the request was not taken")
	}
	p.Behave(func(b *plane.Behaviour) { b.Mute = false })
	s.next("c")
}

func TestDelta_delay(t *testing.T) {
	const delay = 50 * time.Millisecond
	p := plane.Start(t, plane.Behaviour{Delay: map[string]time.Duration{plane.Cluster: delay}})
	s := openDelta(t, p)
	s.subscribe(plane.Cluster)
	s.next("")
	begin := time.Now()
	p.Set(cluster("a", 0))
	s.next("a")
	if took := time.Since(begin); took < delay {
		t.Errorf("sent after %v, want %v", took, delay)
	}
}

func TestDelta_globs(t *testing.T) {
	const folder = "xdstp://here/envoy.config.cluster.v3.Cluster/team/"
	p := plane.Start(t, plane.GoControlPlane())
	p.Set(cluster(folder+"a:b?x=1&y=2", 0), cluster(folder+"c", 0))
	s := openDelta(t, p)
	s.subscribe(plane.Cluster, folder+"*?y=2&x=1")
	s.ack(s.next(folder + "a:b?x=1&y=2"))
	s.subscribe(plane.Cluster, folder+"%63")
	s.ack(s.next(folder + "c"))
	s.subscribe(plane.Cluster, "*") // has no xdstp names
	s.silent(p)
}

func TestHeartbeat_TTL3(t *testing.T) {
	p := plane.Start(t, plane.GoControlPlane())
	p.Apply(plane.Change{Set: []plane.Resource{{Name: "a", Message: cluster("a", 0), TTL: time.Minute}, plane.Named(cluster("b", 0))}})
	s := openDelta(t, p)
	s.subscribe(plane.Cluster)
	s.ack(s.next("a b"))
	p.Heartbeat(plane.Cluster)
	r := s.next("a(empty)")
	if x := r.GetResources()[0]; x.GetTtl().AsDuration() != time.Minute || x.GetVersion() == "" {
		t.Errorf("the heartbeat is %v", x)
	}
}

// TestRecord looks at what a plane keeps of its streams.
func TestRecord(t *testing.T) {
	p := plane.Start(t, plane.GoControlPlane())
	p.Set(cluster("a", 0))
	s := openDelta(t, p)
	s.subscribe(plane.Cluster)
	r := s.next("a")
	s.send(&discovery.DeltaDiscoveryRequest{
		TypeUrl: plane.Cluster, ResponseNonce: r.GetNonce(), ErrorDetail: &statuspb.Status{Message: "no good"},
	})
	if _, ok := wait.Until(10*time.Second, func() bool { return len(p.Rejections("")) > 0 }); !ok {
		t.Fatal("no rejection was recorded")
	}
	if got := p.Rejections(plane.Cluster); !slices.Equal(got, []string{"no good"}) {
		t.Errorf("the rejections are %q", got)
	}
	if got := p.Requests(plane.Cluster); len(got) != 2 || got[0].Node != "client" || !got[0].Delta || !got[1].Rejects {
		t.Errorf("the requests are %+v", got)
	}
	if got := p.Responses(plane.Cluster); len(got) != 1 || !slices.Equal(got[0].Names, []string{"a"}) {
		t.Errorf("the responses are %+v", got)
	}
	if !p.Asked(plane.Cluster, "*") || p.Asked(plane.Cluster, "a") || p.Streams() != 1 {
		t.Errorf("asked for: the wildcard %t, a %t; %d streams", p.Asked(plane.Cluster, "*"), p.Asked(plane.Cluster, "a"), p.Streams())
	}
}

// TestRestart stops a plane and has it come back with nothing.
func TestRestart(t *testing.T) {
	p := plane.Start(t, plane.GoControlPlane())
	p.Set(cluster("a", 0))
	s := openDelta(t, p)
	s.subscribe(plane.Cluster)
	s.next("a")
	p.Stop()
	if _, open := <-s.responses; open {
		t.Error("the stream goes on while the plane is stopped")
	}
	p.Forget()
	p.Restart(t)
	again := openDelta(t, p)
	again.subscribe(plane.Cluster)
	again.next("")
}

// TestState goes through the state of the world.
func TestState(t *testing.T) {
	p := plane.Start(t, plane.GoControlPlane())
	p.Set(cluster("a", 0), cluster("b", 0), &endpointv3.ClusterLoadAssignment{ClusterName: "a"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := dial(t, p).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var last *discovery.DiscoveryResponse
	send := func(typeURL string, names ...string) {
		t.Helper()
		r := &discovery.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: names}
		if last.GetTypeUrl() == typeURL {
			r.ResponseNonce, r.VersionInfo = last.GetNonce(), last.GetVersionInfo()
		}
		if err := s.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	next := func(typeURL string, want int) {
		t.Helper()
		if last, err = s.Recv(); err != nil {
			t.Fatal(err)
		}
		if last.GetTypeUrl() != typeURL || len(last.GetResources()) != want {
			t.Fatalf("%d of %s came, want %d of %s", len(last.GetResources()), last.GetTypeUrl(), want, typeURL)
		}
	}
	send(plane.Cluster)
	next(plane.Cluster, 2)
	send(plane.Cluster) // the acknowledgement
	p.Remove(cluster("b", 0))
	next(plane.Cluster, 1)
	send(plane.Cluster)
	send(plane.Endpoints, "a", "nobody")
	next(plane.Endpoints, 1)
	send(plane.Endpoints, "a", "nobody")
	p.Set(&endpointv3.ClusterLoadAssignment{ClusterName: "nobody"})
	next(plane.Endpoints, 1) // what changed
	send(plane.Endpoints, "a", "nobody")

	// After a cluster the same request asks again, where that is not ignored.
	p.Behave(func(b *plane.Behaviour) { b.IgnoreRepeats = false })
	endpoints := last
	p.Set(cluster("a", 1))
	next(plane.Cluster, 1)
	send(plane.Cluster)
	last = endpoints
	send(plane.Endpoints, "a", "nobody")
	next(plane.Endpoints, 2)
}

// TestState_heedVersion leaves a request with the current version unanswered, until something changes.
func TestState_heedVersion(t *testing.T) {
	p := plane.Start(t, plane.Behaviour{HeedVersion: true})
	p.Set(cluster("a", 0), cluster("b", 0))
	s, err := dial(t, p).StreamAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&discovery.DiscoveryRequest{TypeUrl: plane.Cluster, VersionInfo: "1"}); err != nil {
		t.Fatal(err)
	}
	if _, held := wait.Until(10*time.Second, func() bool { return len(p.Requests(plane.Cluster)) == 1 }); !held {
		t.Fatal("the request did not come")
	}
	p.Set(cluster("a", 1))
	if r, err := s.Recv(); err != nil || r.GetVersionInfo() != "2" {
		t.Errorf("the first response is %v, %v, want version 2", r, err)
	}
}

func TestREST(t *testing.T) {
	p := plane.Start(t, plane.GoControlPlane())
	p.Set(cluster("a", 0))
	poll := func(path, version string, names ...string) (int, *discovery.DiscoveryResponse) {
		t.Helper()
		body, err := protojson.Marshal(&discovery.DiscoveryRequest{VersionInfo: version, ResourceNames: names, Node: &corev3.Node{Id: "client"}})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Post("http://"+p.RESTAddr()+path, "application/json", strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		r := new(discovery.DiscoveryResponse)
		if resp.StatusCode == http.StatusOK {
			if err := protojson.Unmarshal(answer, r); err != nil {
				t.Fatal(err)
			}
		}
		return resp.StatusCode, r
	}
	code, first := poll("/v3/discovery:clusters", "")
	if code != http.StatusOK || len(first.GetResources()) != 1 {
		t.Fatalf("the first poll is answered with %d: %v", code, first)
	}
	if code, _ := poll("/v3/discovery:clusters", first.GetVersionInfo()); code != http.StatusNotModified {
		t.Errorf("a poll with the current version is answered with %d", code)
	}
	p.Set(cluster("b", 0))
	if code, r := poll("/v3/discovery:clusters", first.GetVersionInfo()); code != http.StatusOK || len(r.GetResources()) != 2 {
		t.Errorf("a poll after a change is answered with %d: %v", code, r)
	}
	_, named := poll("/v3/discovery:clusters", "", "b")
	p.Remove(cluster("b", 0))
	if code, r := poll("/v3/discovery:clusters", named.GetVersionInfo(), "b"); code != http.StatusOK || len(r.GetResources()) != 0 {
		t.Errorf("a poll of a list that has become empty is answered with %d: %v", code, r)
	}
	if code, _ := poll("/v3/discovery:endpoints", "", "b"); code != http.StatusNotModified {
		t.Errorf("a poll of a name that does not exist is answered with %d", code)
	}
	if code, _ := poll("/v3/discovery:nothing", ""); code != http.StatusNotFound {
		t.Errorf("a poll of a path that is not there is answered with %d", code)
	}
}

// TestTyped_VAR10 asks services for a type that they do not have.
func TestTyped_VAR10(t *testing.T) {
	p := plane.Start(t, plane.GoControlPlane())
	s := openDelta(t, p)
	s.send(&discovery.DeltaDiscoveryRequest{})
	if _, open := <-s.responses; open {
		t.Error("a request without type was answered")
	}
	if _, err := s.stream.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("the stream ended with %v", err)
	}
}

// TestSet_keepsMessages looks at whether a plane sends what it was given.
func TestSet_keepsMessages(t *testing.T) {
	p := plane.Start(t, plane.GoControlPlane())
	want := cluster("a", 3)
	p.Set(want)
	s := openDelta(t, p)
	s.subscribe(plane.Cluster)
	got, err := s.next("a").GetResources()[0].GetResource().UnmarshalNew()
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("the resource is %v (%v), want %v", got, err, want)
	}
}

// TestLegacyWildcard_SUB14 takes only an empty first request for a wildcard.
func TestLegacyWildcard_SUB14(t *testing.T) {
	p := plane.Start(t, plane.Consul())
	p.Set(cluster("a", 0))
	s := openDelta(t, p)
	s.subscribe(plane.Cluster)
	s.ack(s.next("a"))
	p.Apply(plane.Change{Set: []plane.Resource{{Name: "hidden", Message: cluster("hidden", 0), Unlisted: true}}})
	s.subscribe(plane.Cluster, "hidden")
	s.silent(p)
	explicit := openDelta(t, p)
	explicit.subscribe(plane.Cluster, "*")
	explicit.silent(p)
	explicit.subscribe(plane.Cluster, "hidden")
	explicit.ack(explicit.next("hidden"))
}

// TestCut breaks an answer off behind its second part.
func TestCut(t *testing.T) {
	p := plane.Start(t, plane.Behaviour{PerResponse: 1})
	p.Set(cluster("a", 0), cluster("b", 0), cluster("c", 0))
	p.Cut(2, time.Hour)
	s := openDelta(t, p)
	s.subscribe(plane.Cluster)
	s.next("a")
	s.next("b")
	if r, open := <-s.responses; open {
		t.Errorf("%q came after the cut", shown(r))
	}
	if _, err := s.stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
	if r, open := <-openDelta(t, p).responses; open {
		t.Errorf("a plane that refuses streams sent %q", shown(r))
	}
	body := strings.NewReader(`{"node": {"id": "n"}}`)
	poll, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.RESTAddr()+"/v3/discovery:clusters", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(poll)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a poll was answered with %d", resp.StatusCode)
	}
	p.Uncut()
	again := openDelta(t, p)
	again.send(&discovery.DeltaDiscoveryRequest{TypeUrl: plane.Cluster, InitialResourceVersions: map[string]string{"a": "1", "b": "2"}})
	again.next("c")
	if n := len(p.Responses(plane.Cluster)); n != 3 {
		t.Errorf("%d responses are recorded, 3 were sent", n)
	}
	p.Cut(0, 0) // refuses for no time
	if _, open := <-again.responses; open {
		t.Error("a stream outlived a cut")
	}
	_, back := wait.Until(10*time.Second, func() bool {
		s := openDelta(t, p)
		s.subscribe(plane.Cluster)
		_, open := <-s.responses
		return open
	})
	if !back {
		t.Error("the plane goes on refusing streams")
	}
}
