package controlplanes

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
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
	*xdsclient.Client

	conn    *grpc.ClientConn
	streams atomic.Int64 // opened
	sent    atomic.Int64 // resources and removals received
}

func newNightClient(t *testing.T, node *corev3.Node, at *bufconn.Listener, creds credentials.TransportCredentials) *nightClient {
	t.Helper()
	conn, err := xdsclient.Dial("passthrough:///relay", creds,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return at.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	c := &nightClient{conn: conn}
	c.Client = xdsclient.New(xdsclient.Options{
		Conn: conn, Node: node, KeepResources: true,
		OnOpen: func(string) { c.streams.Add(1) },
		OnResponse: func(r *xdsclient.Response) error {
			c.sent.Add(int64(len(r.Changes)))
			return r.Err
		},
	})
	for _, typeURL := range nightTypes() {
		c.Subscribe(typeURL, xdsclient.Wildcard)
	}
	return c
}

// run keeps a stream open until ctx ends.
func (c *nightClient) run(ctx context.Context) {
	_ = c.Follow(ctx, xdsclient.Backoff{Base: time.Second, Max: time.Second}, nil) // ctx's error
	_ = c.conn.Close()
}

func (c *nightClient) holds() holding {
	all := make(holding)
	for _, typeURL := range nightTypes() {
		for name, version := range c.Versions(typeURL) {
			if h, ok := c.Get(typeURL, name); ok {
				all[resourceName{typeURL, name}] = resourceState{version, encoded.Payload(h.Resource.Any())}
			}
		}
	}
	return all
}

// dusk begins to count.
func (c *nightClient) dusk() {
	c.streams.Store(0)
	c.sent.Store(0)
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
