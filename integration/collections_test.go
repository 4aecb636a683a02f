package integration

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/keyer"
)

const (
	// The directory as its server calls it, and as the client asks for it.
	directoryName    = "xdstp://a/envoy.config.listener.v3.ListenerCollection/d?a=2&z=1"
	directoryAskedAs = "xdstp://a/envoy.config.listener.v3.ListenerCollection/%64?z=1&a=2"
)

// directoryPlane is a control plane of every variant that has one list collection.
type directoryPlane struct {
	t        testing.TB
	resource *discovery.Resource

	mu    sync.Mutex
	asked map[string]int // how often a name was asked for, by "type name"
}

func newDirectoryPlane(t testing.TB) *directoryPlane {
	t.Helper()
	payload, err := anypb.New(&listenerv3.ListenerCollection{Entries: []*xdscorev3.CollectionEntry{
		{ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{Locator: &xdscorev3.ResourceLocator{
			Authority: "a", ResourceType: "envoy.config.listener.v3.Listener", Id: "x",
		}}},
		{ResourceSpecifier: &xdscorev3.CollectionEntry_InlineEntry_{InlineEntry: &xdscorev3.CollectionEntry_InlineEntry{
			Name: "y", Version: "1", Resource: &anypb.Any{TypeUrl: listenerType, Value: []byte("\n\x01y")},
		}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &directoryPlane{
		t: t, asked: make(map[string]int),
		resource: &discovery.Resource{Name: directoryName, Version: "7", Resource: payload},
	}
}

// note counts what is asked for, and tells whether it is the directory.
func (p *directoryPlane) note(typeURL string, names []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := false
	for _, n := range names {
		key, err := keyer.Key(n)
		if err != nil {
			p.t.Errorf("NAME-1: asked for %q: %v", n, err)
		}
		p.asked[typeURL+" "+key]++
		found = key == directoryName
	}
	return found
}

func (p *directoryPlane) serveGRPC() string {
	lis := ports.Listen(p.t)
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, g grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(g)
		if strings.Contains(method, "/Delta") {
			return p.serveDelta(g)
		}
		return p.serveState(g)
	}))
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(lis) }) // ends with Stop
	p.t.Cleanup(func() {
		s.Stop()
		serving.Wait()
	})
	return lis.Addr().String()
}

func (p *directoryPlane) serveDelta(g grpc.ServerStream) error {
	for {
		q := new(discovery.DeltaDiscoveryRequest)
		if err := g.RecvMsg(q); err != nil {
			return err
		}
		if !p.note(q.GetTypeUrl(), q.GetResourceNamesSubscribe()) {
			continue
		}
		if err := g.SendMsg(&discovery.DeltaDiscoveryResponse{TypeUrl: q.GetTypeUrl(), Nonce: "1", Resources: []*discovery.Resource{p.resource}}); err != nil {
			return err
		}
	}
}

func (p *directoryPlane) serveState(g grpc.ServerStream) error {
	for {
		q := new(discovery.DiscoveryRequest)
		if err := g.RecvMsg(q); err != nil {
			return err
		}
		if q.GetResponseNonce() != "" || !p.note(q.GetTypeUrl(), q.GetResourceNames()) {
			continue
		}
		if err := g.SendMsg(p.state(q.GetTypeUrl())); err != nil {
			return err
		}
	}
}

// state is a state of the world, in which only the wrapping tells the name.
func (p *directoryPlane) state(typeURL string) *discovery.DiscoveryResponse {
	wrapped, err := anypb.New(p.resource)
	if err != nil {
		p.t.Error(err)
	}
	return &discovery.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: "1", Nonce: "1", Resources: []*anypb.Any{wrapped}}
}

func (p *directoryPlane) serveREST() string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := new(discovery.DiscoveryRequest)
		body, err := io.ReadAll(r.Body)
		if err != nil || protojson.Unmarshal(body, q) != nil || r.URL.Path != "/v3/discovery:listeners" {
			http.Error(w, r.URL.Path, http.StatusBadRequest)
			return
		}
		if q.GetVersionInfo() == "1" || !p.note(q.GetTypeUrl(), q.GetResourceNames()) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		text, err := protojson.Marshal(p.state(q.GetTypeUrl()))
		if err != nil {
			p.t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
	}))
	p.t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func (p *directoryPlane) writeFiles() string {
	dir := p.t.TempDir()
	for _, typeURL := range []string{listenerType, listenerCollectionType} {
		text, err := protojson.Marshal(p.state(typeURL))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, typeURL[strings.LastIndexByte(typeURL, '.')+1:]+".json"), text, 0o600)
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	return dir
}

// TestListCollection asks for a list collection in every variant downstream, over every
// variant upstream, under its own type and that of its members. It comes back under the
// name that was asked with, and the server is asked for it once.
func TestListCollection_LIST1_NAME3_NAME4_NAME5_VAR7(t *testing.T) {
	for _, up := range upstreamVariants {
		t.Run(up.apiType, func(t *testing.T) {
			p := newDirectoryPlane(t)
			addr := ""
			switch {
			case up.rest:
				addr = p.serveREST()
			case !up.files:
				addr = p.serveGRPC()
			}
			relay := startRelay(t, func(c *config.Config) {
				c.Resolve.Prefetch = false // nothing but the directory is to be asked for
				u := &c.Upstreams[0]
				if up.files {
					u.Endpoints, u.Path, u.APIType = nil, p.writeFiles(), ""
				} else {
					u.APIType = config.APIType(up.apiType)
				}
			}, addr)
			for _, down := range variants {
				for _, asked := range []string{listenerType, listenerCollectionType} {
					t.Run(down.name+" "+asked, func(t *testing.T) {
						want := proto.CloneOf(p.resource)
						want.Name = directoryAskedAs
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
			p.mu.Lock()
			defer p.mu.Unlock()
			want := map[string]int{listenerType + " " + directoryName: 1, listenerCollectionType + " " + directoryName: 1}
			if diff := cmp.Diff(want, p.asked); diff != "" && !up.files && !up.rest { // a poll asks each time
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
	p := newDirectoryPlane(t)
	nacks := make(chan string, 16)
	lis := ports.Listen(t)
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, g grpc.ServerStream) error {
		named := &anypb.Any{TypeUrl: listenerType, Value: []byte("\n\x01x")}
		for {
			q := new(discovery.DiscoveryRequest)
			if err := g.RecvMsg(q); err != nil {
				return err
			}
			if q.GetErrorDetail() != nil {
				nacks <- q.GetErrorDetail().GetMessage()
			}
			if q.GetResponseNonce() != "" {
				continue
			}
			if err := g.SendMsg(&discovery.DiscoveryResponse{
				TypeUrl: q.GetTypeUrl(), VersionInfo: "1", Nonce: "1", Resources: []*anypb.Any{p.resource.Resource, named},
			}); err != nil {
				return err
			}
		}
	}))
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(lis) }) // ends with Stop
	defer serving.Wait()
	defer s.Stop()
	relay := startRelay(t, func(c *config.Config) { c.Upstreams[0].APIType = "AGGREGATED_GRPC" }, lis.Addr().String())
	c := newClient(t, relay.addr, "client")
	if err := c.connect(true); err != nil {
		t.Fatal(err)
	}
	c.subscribe(listenerType, []string{"x"}, nil)
	c.awaitHolding(t, listenerType, "x")
	select {
	case reason := <-nacks:
		if want := "resources[0].value: a payload of this type has no name of its own: it must be wrapped in envoy.service.discovery.v3.Resource with a name"; !strings.Contains(reason, want) {
			t.Errorf("ACK-6: rejected with %q, want %q", reason, want)
		}
	case <-time.After(patience):
		t.Error("ACK-6: not rejected")
	}
}
