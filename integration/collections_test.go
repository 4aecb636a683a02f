package integration

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

const (
	// The directory as its server calls it, and as the client asks for it.
	directoryName    = "xdstp://a/envoy.config.listener.v3.ListenerCollection/d?a=2&z=1"
	directoryAskedAs = "xdstp://a/envoy.config.listener.v3.ListenerCollection/%64?z=1&a=2"
)

// newDirectoryPlane starts a control plane that has one list collection, under its own type and that of its members.
func newDirectoryPlane(t *testing.T) (*testPlane, *discovery.Resource) {
	t.Helper()
	p, payload := newPlane(t), new(anypb.Any)
	if err := payload.MarshalFrom(&listenerv3.ListenerCollection{Entries: []*xdscorev3.CollectionEntry{
		{ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{Locator: &xdscorev3.ResourceLocator{
			Authority: "a", ResourceType: "envoy.config.listener.v3.Listener", Id: "x",
		}}},
		{ResourceSpecifier: &xdscorev3.CollectionEntry_InlineEntry_{InlineEntry: &xdscorev3.CollectionEntry_InlineEntry{
			Name: "y", Version: "1", Resource: &anypb.Any{TypeUrl: listenerType, Value: []byte("\n\x01y")},
		}}},
	}}); err != nil {
		t.Fatal(err)
	}
	p.Behave(func(b *plane.Behaviour) { b.Wrap = true }) // only the wrapping tells the name
	for _, typeURL := range []string{listenerType, listenerCollectionType} {
		p.Apply(plane.Change{Set: []plane.Resource{{TypeURL: typeURL, Name: directoryName, Version: "7", Payload: payload}}})
	}
	return p, &discovery.Resource{Name: directoryAskedAs, Version: "7", Resource: payload}
}

// TestListCollection asks for a list collection in every variant downstream, over every
// variant upstream, under its own type and that of its members. It comes back under the
// name that was asked with, and the server is asked for it once.
func TestListCollection_LIST1_NAME3_NAME4_NAME5_VAR7(t *testing.T) {
	for _, up := range upstreamVariants {
		t.Run(up.apiType, func(t *testing.T) {
			p, directory := newDirectoryPlane(t)
			relay := startRelayOver(t, up, p, func(c *config.Config) {
				c.Resolve.Prefetch = false // nothing but the directory is to be asked for
			})
			for _, down := range variants {
				for _, asked := range []string{listenerType, listenerCollectionType} {
					t.Run(down.name+" "+asked, func(t *testing.T) {
						want := proto.CloneOf(directory)
						got := fetchDirectory(t, relay, down, asked)
						if up.sotw && !down.sotw { // the version is a digest (ACK-4), or the server's
							want.Version, got.Version = "", ""
						}
						if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
							t.Errorf("NAME-4 (-want +got):\n%s", diff)
						}
					})
				}
			}
			relay.consistent(t)
			asked := make(map[string]int) // how often a name was asked for
			for _, q := range p.Requests("") {
				for _, name := range keysOf(q.Subscribe) {
					if q.Nonce == "" {
						asked[q.TypeURL+" "+name]++
					}
				}
			}
			want := map[string]int{listenerType + " " + directoryName: 1, listenerCollectionType + " " + directoryName: 1}
			if diff := cmp.Diff(want, asked); diff != "" && !up.files && !up.rest { // a poll asks each time
				t.Errorf("NAME-3: asked for (-want +got):\n%s", diff)
			}
		})
	}
}

// fetchDirectory asks as a client of a variant, and gives the one resource that it gets.
func fetchDirectory(t *testing.T, relay *testRelay, v variant, asked string) *discovery.Resource {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	node := &corev3.Node{Id: "client", ClientFeatures: []string{resourceInSotw}}
	state := &discovery.DiscoveryRequest{Node: node, TypeUrl: asked, ResourceNames: []string{directoryAskedAs}}
	if v.rest {
		return unwrapDirectory(t, asked, pollDirectory(ctx, t, relay.rest, state))
	}
	conn := dial(t, relay.addr)
	defer conn.Close()
	g, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, v.method(listenerType))
	if err != nil {
		t.Fatal(err)
	}
	if v.sotw {
		r := new(discovery.DiscoveryResponse)
		exchange(t, g, state, r)
		return unwrapDirectory(t, asked, r)
	}
	r := new(discovery.DeltaDiscoveryResponse)
	exchange(t, g, &discovery.DeltaDiscoveryRequest{Node: node, TypeUrl: asked, ResourceNamesSubscribe: state.GetResourceNames()}, r)
	if r.GetTypeUrl() != asked || len(r.GetResources()) != 1 || len(r.GetRemovedResources()) > 0 {
		t.Fatalf("got %v", r)
	}
	return r.GetResources()[0]
}

func exchange(t *testing.T, g grpc.ClientStream, request, response proto.Message) {
	t.Helper()
	if err := g.SendMsg(request); err != nil {
		t.Fatal(err)
	}
	if err := g.RecvMsg(response); err != nil {
		t.Fatal(err)
	}
}

func pollDirectory(ctx context.Context, t *testing.T, addr string, q *discovery.DiscoveryRequest) *discovery.DiscoveryResponse {
	t.Helper()
	body, err := protojson.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v3/discovery:listeners", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	r := new(discovery.DiscoveryResponse)
	if err != nil || answer.StatusCode != http.StatusOK || protojson.Unmarshal(text, r) != nil {
		t.Fatalf("%s %s, %v", answer.Status, text, err)
	}
	return r
}

// unwrapDirectory gives the resource that a state of the world wraps (RES-13).
func unwrapDirectory(t *testing.T, asked string, r *discovery.DiscoveryResponse) *discovery.Resource {
	t.Helper()
	resource := new(discovery.Resource)
	if r.GetTypeUrl() != asked || len(r.GetResources()) != 1 {
		t.Fatalf("got %v", r)
	}
	if err := r.GetResources()[0].UnmarshalTo(resource); err != nil {
		t.Fatal(err)
	}
	return resource
}

// A state of the world with a bare list collection is rejected with the reason, and
// costs nothing that has a name.
func TestListCollection_LIST1_bare(t *testing.T) {
	p, directory := newDirectoryPlane(t)
	p.Behave(func(b *plane.Behaviour) { b.Wrap = false })
	p.Apply(plane.Change{Set: []plane.Resource{{TypeURL: listenerType, Name: "bare", Payload: directory.GetResource()}}})
	p.set(listenerType, "x", true)
	relay := startRelayOver(t, upSotwADS, p, nil)
	c := newClient(t, relay.addr, "client")
	if err := c.connect(true); err != nil {
		t.Fatal(err)
	}
	c.subscribe(listenerType, []string{"*"}, nil)
	c.awaitHolding(t, listenerType, "x")
	waitFor(t, "ACK-6: a NACK", func() bool { return len(p.Rejections(listenerType)) > 0 })
	const want = "resources[0].value: a payload of this type has no name of its own: it must be wrapped in envoy.service.discovery.v3.Resource with a name"
	if reason := p.Rejections(listenerType)[0]; !strings.Contains(reason, want) {
		t.Errorf("ACK-6: rejected with %q, want %q", reason, want)
	}
}
