package deltaclient

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	clusterType  = resource.ClusterType
	endpointType = resource.EndpointType
)

// cluster makes a payload whose content follows from its arguments.
func cluster(name string, seconds int) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: name, ConnectTimeout: &durationpb.Duration{Seconds: int64(seconds)}}
}

// serve gives a connection to a server with s's delta ADS, and with services of
// clusters if there are any; both end with t.
func serve(t *testing.T, s discoveryv3.AggregatedDiscoveryServiceServer, perType ...clusterservice.ClusterDiscoveryServiceServer) *grpc.ClientConn {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, s)
	for _, p := range perType {
		clusterservice.RegisterClusterDiscoveryServiceServer(server, p)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(lis) })
	conn, err := xdsclient.Dial("passthrough:///server", nil, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
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

// script is a server that does what a test tells it.
type script struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	end chan error // a value ends the stream

	mu       sync.Mutex
	stream   discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	requests []*discoveryv3.DeltaDiscoveryRequest
	streams  int
}

func newScript() *script { return &script{end: make(chan error)} }

func (s *script) DeltaAggregatedResources(g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	s.mu.Lock()
	s.stream = g
	s.streams++
	s.mu.Unlock()
	go func() { // Recv returns after the handler has, so only the bubble can wait for it
		for {
			r, err := g.Recv()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.requests = append(s.requests, r)
			s.mu.Unlock()
		}
	}()
	select {
	case err := <-s.end:
		return err
	case <-g.Context().Done():
		return nil
	}
}

func (s *script) current() discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream
}

func (s *script) opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams
}

// send sends a response and waits until it was dealt with.
func (s *script) send(t *testing.T, r *discoveryv3.DeltaDiscoveryResponse) {
	t.Helper()
	if err := s.current().Send(r); err != nil {
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
	var all []string
	for _, r := range s.requests {
		all = append(all, short(r))
	}
	s.requests = nil
	return all
}

// short shows a request: its type, then what is in it.
func short(r *discoveryv3.DeltaDiscoveryRequest) string {
	parts := []string{r.TypeUrl[strings.LastIndexByte(r.TypeUrl, '.')+1:]}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if r.Node != nil {
		add("node=%s", r.Node.Id)
	}
	for _, name := range r.ResourceNamesSubscribe {
		add("+%s", name)
	}
	for _, name := range r.ResourceNamesUnsubscribe {
		add("-%s", name)
	}
	var versions []string
	for name, version := range r.InitialResourceVersions {
		versions = append(versions, name+"@"+version)
	}
	slices.Sort(versions)
	parts = append(parts, versions...)
	switch {
	case r.ErrorDetail != nil:
		add("nack=%s(%s)", r.ResponseNonce, r.ErrorDetail.Message)
	case r.ResponseNonce != "":
		add("ack=%s", r.ResponseNonce)
	}
	return strings.Join(parts, " ")
}

// response makes one of elements: "a@1" is resource a in version 1 and "a@"
// without one, "a@1!" is without payload, "a/b@1" has the alias b, "-a" is
// removed, and "!a" gets the error NOT_FOUND, "?a" UNAVAILABLE.
func response(nonce string, elements ...string) *discoveryv3.DeltaDiscoveryResponse {
	r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: clusterType, Nonce: nonce, SystemVersionInfo: "s" + nonce}
	fail := func(name string, code codes.Code) {
		r.ResourceErrors = append(r.ResourceErrors, &discoveryv3.ResourceError{
			ResourceName: &discoveryv3.ResourceName{Name: name}, ErrorDetail: status.New(code, "because").Proto(),
		})
	}
	for _, e := range elements {
		switch e[0] {
		case '-':
			r.RemovedResources = append(r.RemovedResources, e[1:])
		case '!':
			fail(e[1:], codes.NotFound)
		case '?':
			fail(e[1:], codes.Unavailable)
		default:
			name, version, _ := strings.Cut(e, "@")
			version, bare := strings.CutSuffix(version, "!")
			name, alias, aliased := strings.Cut(name, "|")
			res := &discoveryv3.Resource{Name: name, Version: version}
			if aliased {
				res.Aliases = []string{alias}
			}
			if !bare {
				res.Resource = encoded.Any(cluster(name, len(version)))
			}
			r.Resources = append(r.Resources, res)
		}
	}
	return r
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
		line := ch.Kind.String() + " " + ch.Name
		if ch.Old != "" || ch.Version != "" {
			line += " " + ch.Old + ">" + ch.Version
		}
		r.lines = append(r.lines, line)
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

var errEnd = io.ErrUnexpectedEOF
