package stateclient

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

const (
	clusterType  = resource.ClusterType
	endpointType = resource.EndpointType
)

func expect[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// script is a server that does what a test tells it, over ADS and for two types.
type script struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	clusterservice.UnimplementedClusterDiscoveryServiceServer
	endpointservice.UnimplementedEndpointDiscoveryServiceServer

	mu       sync.Mutex
	streams  map[string]*scriptStream // open ones by method
	requests []string
}

type scriptStream struct {
	grpc.BidiStreamingServer[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]

	end chan error
}

func (s *script) StreamAggregatedResources(g discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.serve("ads", g)
}

func (s *script) StreamClusters(g clusterservice.ClusterDiscoveryService_StreamClustersServer) error {
	return s.serve("cds", g)
}

func (s *script) StreamEndpoints(g endpointservice.EndpointDiscoveryService_StreamEndpointsServer) error {
	return s.serve("eds", g)
}

func (s *script) serve(method string, g grpc.BidiStreamingServer[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]) error {
	stream := &scriptStream{g, make(chan error)}
	s.mu.Lock()
	s.streams[method] = stream
	s.mu.Unlock()
	go func() { // Recv returns after the handler has, so only the bubble can wait for it
		for {
			r, err := g.Recv()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.requests = append(s.requests, method+": "+short(r))
			s.mu.Unlock()
		}
	}()
	select {
	case err := <-stream.end:
		return err
	case <-g.Context().Done():
		return nil
	}
}

func (s *script) stream(method string) *scriptStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[method]
}

// send sends a response and waits until it was dealt with.
func (s *script) send(t *testing.T, method string, r *discoveryv3.DiscoveryResponse) {
	t.Helper()
	if err := s.stream(method).SendMsg(r); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// next waits for all that is on the way, and takes the requests that came since
// the last call, in a short form.
func (s *script) next() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.requests
	s.requests = nil
	return all
}

// short shows a request: its type, names, version, and what it answers.
func short(r *discoveryv3.DiscoveryRequest) string {
	parts := []string{r.TypeUrl[strings.LastIndexByte(r.TypeUrl, '.')+1:]}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if r.Node != nil {
		add("node=%s", strings.Join(append([]string{r.Node.Id}, r.Node.ClientFeatures...), ","))
	}
	add("%v", r.ResourceNames)
	if r.VersionInfo != "" {
		add("v=%s", r.VersionInfo)
	}
	switch {
	case r.ErrorDetail != nil:
		add("nack=%s(%s)", r.ResponseNonce, r.ErrorDetail.Message)
	case r.ResponseNonce != "":
		add("n=%s", r.ResponseNonce)
	}
	return strings.Join(parts, " ")
}

// serve gives a connection to a server with s; both end with t.
func serve(t *testing.T, s *script) *grpc.ClientConn {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{wire.Codec()}))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, s)
	clusterservice.RegisterClusterDiscoveryServiceServer(server, s)
	endpointservice.RegisterEndpointDiscoveryServiceServer(server, s)
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(lis) })
	conn, err := xdsclient.Dial("passthrough:///server", nil, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return lis.DialContext(ctx)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		wg.Wait()
	})
	return conn
}

func newScript() *script { return &script{streams: make(map[string]*scriptStream)} }

// running starts c and gives a function that ends it and returns Run's error.
func running(t *testing.T, c *xdsclient.Client) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { err = c.Run(ctx) })
	stop = func() error {
		cancel()
		wg.Wait()
		return err
	}
	t.Cleanup(func() { _ = stop() })
	synctest.Wait()
	return stop
}

// response makes one in a version of elements: "a@1" is resource a with content 1
// as it is, "a@1=v" is wrapped with version v, "a=v" wrapped without payload, and
// "!a" gets the error NOT_FOUND, "?a" UNAVAILABLE.
func response(typeURL, version string, elements ...string) *discoveryv3.DiscoveryResponse {
	r := &discoveryv3.DiscoveryResponse{TypeUrl: typeURL, Nonce: "n" + version, VersionInfo: version}
	fail := func(name string, code codes.Code) {
		r.ResourceErrors = append(r.ResourceErrors, &discoveryv3.ResourceError{
			ResourceName: &discoveryv3.ResourceName{Name: name}, ErrorDetail: status.New(code, "because").Proto(),
		})
	}
	for _, e := range elements {
		switch e[0] {
		case '!':
			fail(e[1:], codes.NotFound)
		case '?':
			fail(e[1:], codes.Unavailable)
		default:
			r.Resources = append(r.Resources, element(typeURL, e))
		}
	}
	return r
}

func element(typeURL, e string) *anypb.Any {
	e, resourceVersion, wrapped := strings.Cut(e, "=")
	name, content, hasPayload := strings.Cut(e, "@")
	var packed *anypb.Any
	if hasPayload {
		packed = encoded.Any(payload(typeURL, name, content))
	}
	if wrapped {
		return encoded.Any(&discoveryv3.Resource{Name: name, Version: resourceVersion, Resource: packed})
	}
	return packed
}

// payload makes one whose content follows from its arguments.
func payload(typeURL, name, content string) proto.Message {
	if typeURL == endpointType {
		policy := &endpointv3.ClusterLoadAssignment_Policy{EndpointStaleAfter: &durationpb.Duration{Seconds: int64(content[0])}}
		return &endpointv3.ClusterLoadAssignment{ClusterName: name, Policy: policy}
	}
	return &clusterv3.Cluster{Name: name, AltStatName: content}
}

// recorder shows responses in a short form.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) record(resp *xdsclient.Response) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if resp.Err != nil {
		r.lines = append(r.lines, "error "+resp.Err.Error())
	}
	for _, ch := range resp.Changes {
		r.lines = append(r.lines, ch.Kind.String()+" "+ch.Name)
	}
	return nil
}

func (r *recorder) next() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}
