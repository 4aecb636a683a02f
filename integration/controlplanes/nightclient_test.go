package controlplanes

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
)

func nightTypes() []string {
	return []string{resource.ClusterType, resource.EndpointType, resource.ListenerType, resource.RouteType}
}

// resourceName is a name of a type.
type resourceName struct{ typeURL, name string }

// resourceState is a resource that a client has.
type resourceState struct{ version, content string }

// holding is all that a client has.
type holding map[resourceName]resourceState

func (h holding) equal(other holding) bool { return maps.Equal(h, other) }

func (h holding) count(typeURL string) (n int) {
	for of := range h {
		if of.typeURL == typeURL {
			n++
		}
	}
	return n
}

// String implements [fmt.Stringer].
func (h holding) String() string {
	var s []byte
	for _, typeURL := range nightTypes() {
		for _, of := range slices.SortedFunc(maps.Keys(h), func(a, b resourceName) int { return len(a.name) - len(b.name) }) {
			if of.typeURL == typeURL {
				s = append(s, typeURL+" "+of.name+" "+h[of].version+"\n"...)
			}
		}
	}
	return string(s)
}

// nightClient asks for all resources of four types. Its streams end when the relay ends them,
// and it comes back with the versions that it has.
type nightClient struct {
	node *corev3.Node
	conn *grpc.ClientConn

	mu      sync.Mutex
	has     holding
	streams int // opened
	sent    int // resources and removals received
}

func newNightClient(t *testing.T, node *corev3.Node, at *bufconn.Listener, creds credentials.TransportCredentials) *nightClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///relay", grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return at.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	return &nightClient{node: node, conn: conn, has: make(holding)}
}

// run keeps a stream open until ctx ends.
func (c *nightClient) run(ctx context.Context) {
	defer func() { _ = c.conn.Close() }()
	for ctx.Err() == nil {
		c.stream(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// stream opens a stream and follows it to its end.
func (c *nightClient) stream(ctx context.Context) {
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(c.conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return
	}
	for _, typeURL := range nightTypes() {
		request := &discoveryv3.DeltaDiscoveryRequest{Node: c.node, TypeUrl: typeURL, ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: c.versions(typeURL)}
		if s.Send(request) != nil {
			return
		}
	}
	c.mu.Lock()
	c.streams++
	c.mu.Unlock()
	for {
		response, err := s.Recv()
		if err != nil {
			return
		}
		c.take(response)
		if s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: response.GetTypeUrl(), ResponseNonce: response.GetNonce()}) != nil {
			return
		}
	}
}

func (c *nightClient) versions(typeURL string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	versions := make(map[string]string)
	for of, h := range c.has {
		if of.typeURL == typeURL {
			versions[of.name] = h.version
		}
	}
	return versions
}

func (c *nightClient) take(response *discoveryv3.DeltaDiscoveryResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range response.GetResources() {
		c.has[resourceName{response.GetTypeUrl(), r.GetName()}] = resourceState{r.GetVersion(), string(r.GetResource().GetValue())}
	}
	for _, name := range response.GetRemovedResources() {
		delete(c.has, resourceName{response.GetTypeUrl(), name})
	}
	c.sent += len(response.GetResources()) + len(response.GetRemovedResources())
}

func (c *nightClient) holds() holding {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.has)
}

// dusk begins to count.
func (c *nightClient) dusk() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams, c.sent = 0, 0
}

// dawn says what was counted.
func (c *nightClient) dawn() (streams, sent int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams, c.sent
}

// holds is what all clients have; nil if they differ.
func (n *night) holds() holding {
	all := n.clients[0].holds()
	for _, c := range n.clients[1:] {
		if !c.holds().equal(all) {
			return nil
		}
	}
	return all
}

// lead says whether all clients have endpoints with the port of a backend.
func (n *night) lead(backend string) bool {
	_, port, err := net.SplitHostPort(backend)
	if err != nil {
		n.t.Fatal(err)
	}
	for of, h := range n.holds() {
		var assignment endpointv3.ClusterLoadAssignment
		if of.typeURL != resource.EndpointType || proto.Unmarshal([]byte(h.content), &assignment) != nil {
			continue
		}
		for _, locality := range assignment.GetEndpoints() {
			for _, e := range locality.GetLbEndpoints() {
				if strconv.Itoa(int(e.GetEndpoint().GetAddress().GetSocketAddress().GetPortValue())) == port {
					return true
				}
			}
		}
	}
	return false
}
