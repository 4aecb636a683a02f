package integration

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
)

// A client comes back with a node that leads to another scope. The server uses the same versions there, for other
// contents: direct and through the relay, the client gets what is there. A client that comes back to its scope is sent
// nothing.
func TestVersionOfAnotherScope_ACK4_ACK5_RES11(t *testing.T) {
	p, web, db := newPlane(t), plane.New(plane.Behaviour{}), plane.New(plane.Behaviour{IgnoreVersions: true})
	for _, divided := range []struct {
		*plane.Plane
		content string
	}{{web, "for web"}, {db, "for db"}} {
		divided.Apply(plane.Change{Set: []plane.Resource{
			{Name: "c", Version: "1", Message: &clusterv3.Cluster{Name: "c", AltStatName: divided.content}},
			{Name: "e", Version: "1", Message: &endpointv3.ClusterLoadAssignment{ClusterName: "e"}},
		}})
	}
	divide := func(n *corev3.Node) *plane.Plane {
		if n.GetCluster() == "web" {
			return web
		}
		return db
	}
	p.Divide(divide)
	other := newPlane(t)
	other.Divide(divide)
	scoped := func(api config.APIType, rules ...config.Rule) string {
		return startRelay(t, func(c *config.Config) {
			for i := range c.Upstreams {
				c.Upstreams[i].APIType = api
			}
			c.Aggregation.Rules = rules
		}, []string{p.addr, other.addr}[:len(rules)]...).addr
	}
	one := config.Rule{Name: "clusters", Match: "true", Scope: []string{"node.cluster"}}
	two := one
	two.Name, two.Match, two.Upstream = "db", `node.cluster == "db"`, "plane-1"
	for name, server := range map[string]struct {
		addr   string
		direct bool
	}{
		"direct":                     {p.addr, true},
		"SotW":                       {scoped(config.AggregatedGRPC, one), false},
		"incremental":                {scoped(config.AggregatedDeltaGRPC, one), false},
		"SotW, two upstreams":        {scoped(config.AggregatedGRPC, two, one), false},
		"incremental, two upstreams": {scoped(config.AggregatedDeltaGRPC, two, one), false},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := grpc.NewClient(server.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			for form, opens := range map[string]func(context.Context, *grpc.ClientConn) (visitStream, error){
				"SotW client": visitState, "incremental client": visitDelta,
			} {
				t.Run(form, func(t *testing.T) {
					visit := func(cluster, version string, sent bool) (got, now string) {
						t.Helper()
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						stream, err := opens(ctx, conn)
						if err == nil {
							got, now, err = visitFor(stream, &corev3.Node{Id: form, Cluster: cluster}, version, sent)
						}
						if err != nil {
							t.Fatal(err)
						}
						return got, now
					}
					got, version := visit("web", "", true)
					if got != "for web" {
						t.Fatalf("the first scope gave %q", got)
					}
					if !server.direct {
						if got, _ := visit("web", version, false); got != "" {
							t.Errorf("ACK-5, RES-11: a client that came back was sent %q again", got)
						}
					}
					if got, version = visit("db", version, true); got != "for db" {
						t.Errorf("ACK-4: in the other scope the client got %q", got)
					}
					if !server.direct {
						if got, _ := visit("db", version, false); got != "" {
							t.Errorf("ACK-5, RES-11: a client that came back to the other scope was sent %q again", got)
						}
					}
				})
			}
		})
	}
}

// A client that polls gets what is in the other scope, too, and no more often than needed.
func TestVersionOfAnotherScope_ACK4_REST1(t *testing.T) {
	p, web, db := newPlane(t), plane.New(plane.Behaviour{}), plane.New(plane.Behaviour{})
	for content, divided := range map[string]*plane.Plane{"web": web, "db": db} {
		divided.Apply(plane.Change{Set: []plane.Resource{{Name: "c", Message: &clusterv3.Cluster{Name: "c", AltStatName: content}}}})
	}
	p.Divide(func(n *corev3.Node) *plane.Plane {
		if n.GetCluster() == "web" {
			return web
		}
		return db
	})
	relay := startRelay(t, func(c *config.Config) {
		c.Upstreams[0].APIType = config.AggregatedGRPC
		c.Aggregation.Rules = []config.Rule{{Name: "clusters", Match: "true", Scope: []string{"node.cluster"}}}
		c.Server.RESTWait = config.Duration(300 * time.Millisecond)
	}, p.addr)
	var last *discovery.DiscoveryResponse
	// polls gives what the client is answered; "" if there is nothing new.
	polls := func(cluster string) string {
		t.Helper()
		body, err := protojson.Marshal(&discovery.DiscoveryRequest{
			Node: &corev3.Node{Id: "p", Cluster: cluster}, VersionInfo: last.GetVersionInfo(), ResponseNonce: last.GetNonce(),
		})
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+relay.rest+"/v3/discovery:clusters", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode == http.StatusNotModified {
			return ""
		}
		c := new(clusterv3.Cluster)
		last = new(discovery.DiscoveryResponse)
		if err = protojson.Unmarshal(text, last); err == nil && len(last.GetResources()) == 1 {
			err = last.GetResources()[0].UnmarshalTo(c)
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return c.GetAltStatName()
	}
	for _, cluster := range []string{"web", "db"} {
		wait.Until(patience, func() bool { return polls(cluster) == cluster })
		answers := 0
		for range 4 {
			if polls(cluster) != "" {
				answers++
			}
		}
		if answers > 1 { // once more, when the relay believes its versions again
			t.Errorf("REST-1: a client in %s is answered %d times what it has", cluster, answers)
		}
		if got := new(clusterv3.Cluster); last.GetResources()[0].UnmarshalTo(got) != nil || got.GetAltStatName() != cluster {
			t.Errorf("ACK-4: a client in %s has %v", cluster, got)
		}
	}
}

// visitStream is a client's stream in either form.
type visitStream interface {
	// ask subscribes to a name, or to everything as a client does that has a version of the cluster.
	ask(typeURL, name, version string, node *corev3.Node) error
	// recv takes the next response, and acknowledges it.
	recv() (typeURL string, payloads []*anypb.Any, version string, err error)
}

// visitFor has a client with a version of the cluster ask for everything, and then for endpoints. It returns the cluster
// that comes before these, or for which it waits if sent says so, and its version.
func visitFor(s visitStream, node *corev3.Node, version string, sent bool) (got, now string, err error) {
	if err := s.ask(clusterType, "", version, node); err != nil {
		return "", "", err
	}
	for asked := false; ; {
		if !asked && (!sent || got != "") {
			asked = true
			if err := s.ask(endpointType, "e", "", nil); err != nil {
				return "", "", err
			}
		}
		typeURL, payloads, shown, err := s.recv()
		if err != nil || typeURL == endpointType {
			return got, now, err
		}
		c := new(clusterv3.Cluster)
		if err := payloads[0].UnmarshalTo(c); err != nil {
			return "", "", err
		}
		got, now = c.GetAltStatName(), shown
	}
}

type stateVisit struct {
	grpc.BidiStreamingClient[discovery.DiscoveryRequest, discovery.DiscoveryResponse]
}

func visitState(ctx context.Context, conn *grpc.ClientConn) (visitStream, error) {
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	return stateVisit{stream}, err
}

func (s stateVisit) ask(typeURL, name, version string, node *corev3.Node) error {
	r := &discovery.DiscoveryRequest{Node: node, TypeUrl: typeURL, VersionInfo: version}
	if name != "" {
		r.ResourceNames = []string{name}
	}
	return s.Send(r)
}

func (s stateVisit) recv() (string, []*anypb.Any, string, error) {
	r, err := s.Recv()
	if err != nil {
		return "", nil, "", err
	}
	ack := &discovery.DiscoveryRequest{TypeUrl: r.GetTypeUrl(), VersionInfo: r.GetVersionInfo(), ResponseNonce: r.GetNonce()}
	if r.GetTypeUrl() == endpointType {
		ack.ResourceNames = []string{"e"}
	}
	return r.GetTypeUrl(), r.GetResources(), r.GetVersionInfo(), s.Send(ack)
}

type deltaVisit struct {
	grpc.BidiStreamingClient[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]
}

func visitDelta(ctx context.Context, conn *grpc.ClientConn) (visitStream, error) {
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	return deltaVisit{stream}, err
}

func (s deltaVisit) ask(typeURL, name, version string, node *corev3.Node) error {
	r := &discovery.DeltaDiscoveryRequest{Node: node, TypeUrl: typeURL}
	if name != "" {
		r.ResourceNamesSubscribe = []string{name}
	}
	if version != "" {
		r.InitialResourceVersions = map[string]string{"c": version}
	}
	return s.Send(r)
}

func (s deltaVisit) recv() (string, []*anypb.Any, string, error) {
	r, err := s.Recv()
	if err != nil {
		return "", nil, "", err
	}
	var payloads []*anypb.Any
	version := ""
	for _, resource := range r.GetResources() {
		payloads, version = append(payloads, resource.GetResource()), resource.GetVersion()
	}
	return r.GetTypeUrl(), payloads, version, s.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()})
}
