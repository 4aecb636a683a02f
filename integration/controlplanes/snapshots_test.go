package controlplanes

import (
	"context"
	"encoding/base64"
	"net"
	"strconv"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// delta is what Envoys speak before control planes that have gRPC.
func delta() envoyproc.Variant { return envoyproc.Variant{Delta: true} }

// resourcesTo are a listener "web", its routes, a cluster and its endpoints.
func resourcesTo(backend string) map[resource.Type][]types.Resource {
	source := delta().Source(0)
	return map[resource.Type][]types.Resource{
		resource.EndpointType: {envoyproc.Assignment("shop", backend)},
		resource.ClusterType: {&clusterv3.Cluster{
			Name:                 "shop",
			ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: source},
		}},
		resource.RouteType: {&routev3.RouteConfiguration{
			Name: "routes", VirtualHosts: []*routev3.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{{
				Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{
					ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "shop"},
				}},
			}}}},
		}},
		resource.ListenerType: {&listenerv3.Listener{
			Name: "web", Address: envoyproc.Address("127.0.0.1:0"),
			FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
				Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: envoyproc.Any(&hcmv3.HttpConnectionManager{
					StatPrefix:     "web",
					RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: "routes", ConfigSource: source}},
					HttpFilters: []*hcmv3.HttpFilter{{
						Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoyproc.Any(&routerv3.Router{})},
					}},
				})},
			}}}},
		}},
	}
}

// goPlane is go-control-plane's snapshot cache as it is without options: a snapshot for each
// node ID.
type goPlane struct {
	at     string
	cache  cachev3.SnapshotCache
	server *grpc.Server
	pushed int
}

func goControlPlane() *subject {
	return &subject{
		name: "go-control-plane", recipe: "go-control-plane.yaml", variant: delta(), start: startGoPlane, listener: "web",
		node: func(int) *corev3.Node { return &corev3.Node{Id: "edge", Cluster: "fleet"} },
	}
}

func startGoPlane(t *testing.T) controlPlane {
	t.Helper()
	lis := ports.Listen(t)
	p := &goPlane{at: lis.Addr().String(), cache: cachev3.NewSnapshotCache(true, cachev3.IDHash{}, nil), server: grpc.NewServer()}
	ctx, cancel := context.WithCancel(context.Background())
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(p.server, serverv3.NewServer(ctx, p.cache, nil))
	done := make(chan error, 1)
	go func() { done <- p.server.Serve(lis) }()
	t.Cleanup(func() {
		cancel()
		p.kill()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *goPlane) addr() string    { return p.at }
func (p *goPlane) version() string { return "of this module" }
func (p *goPlane) kill()           { p.server.Stop() }

func (p *goPlane) lead(t *testing.T, backend string) {
	t.Helper()
	p.pushed++
	snapshot, err := cachev3.NewSnapshot(strconv.Itoa(p.pushed), resourcesTo(backend))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cache.SetSnapshot(t.Context(), "edge", snapshot); err != nil {
		t.Fatal(err)
	}
}

// javaPlane is java-control-plane's snapshot cache with one group for all nodes.
type javaPlane struct {
	*spoken

	at     string
	pushed int
}

func javaControlPlane() *subject {
	return &subject{
		name: "java-control-plane", recipe: "java-control-plane.yaml", variant: delta(), start: startJavaPlane, listener: "web",
		node: named("edge-%d", "edge"),
	}
}

func startJavaPlane(t *testing.T) controlPlane {
	t.Helper()
	port := strconv.Itoa(ports.Free(t))
	return &javaPlane{
		spoken: startSpoken(t, nil, "java", "-XX:+UseSerialGC", "-jar", "../testdata/javacontrolplane/target/server.jar", port),
		at:     net.JoinHostPort("127.0.0.1", port),
	}
}

func (p *javaPlane) addr() string    { return p.at }
func (p *javaPlane) version() string { return p.spoken.version }

func (p *javaPlane) lead(t *testing.T, backend string) {
	t.Helper()
	p.pushed++
	encoded := []string{}
	for _, list := range resourcesTo(backend) {
		for _, r := range list {
			bytes, err := proto.Marshal(envoyproc.Any(r))
			if err != nil {
				t.Fatal(err)
			}
			encoded = append(encoded, base64.StdEncoding.EncodeToString(bytes))
		}
	}
	p.tell(t, map[string]any{"version": strconv.Itoa(p.pushed), "resources": encoded})
}
