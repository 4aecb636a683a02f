package downstream

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const typePrefix = "type.googleapis.com/"

// discoveryService is a service of one resource type, or of all.
type discoveryService struct {
	name  string
	types []string // that it serves, the first unless a request says another; none: all (ADS)

	// Methods, "" where there is none.
	state, delta, fetch string
}

// services are those of v3, and of v2 under their names of then (VAR-1 to VAR-4,
// VAR-9). Over v2's a client may ask for v3 resources too.
var services = []discoveryService{
	{
		name:  "envoy.service.discovery.v3.AggregatedDiscoveryService",
		state: "StreamAggregatedResources", delta: "DeltaAggregatedResources",
	},
	{
		name:  "envoy.service.listener.v3.ListenerDiscoveryService",
		types: []string{"envoy.config.listener.v3.Listener"},
		state: "StreamListeners", delta: "DeltaListeners", fetch: "FetchListeners",
	},
	{
		name:  "envoy.service.route.v3.RouteDiscoveryService",
		types: []string{"envoy.config.route.v3.RouteConfiguration"},
		state: "StreamRoutes", delta: "DeltaRoutes", fetch: "FetchRoutes",
	},
	{
		name:  "envoy.service.route.v3.ScopedRoutesDiscoveryService",
		types: []string{"envoy.config.route.v3.ScopedRouteConfiguration"},
		state: "StreamScopedRoutes", delta: "DeltaScopedRoutes", fetch: "FetchScopedRoutes",
	},
	{
		name:  "envoy.service.route.v3.VirtualHostDiscoveryService",
		types: []string{"envoy.config.route.v3.VirtualHost"},
		delta: "DeltaVirtualHosts",
	},
	{
		name:  "envoy.service.cluster.v3.ClusterDiscoveryService",
		types: []string{"envoy.config.cluster.v3.Cluster"},
		state: "StreamClusters", delta: "DeltaClusters", fetch: "FetchClusters",
	},
	{
		name:  "envoy.service.endpoint.v3.EndpointDiscoveryService",
		types: []string{"envoy.config.endpoint.v3.ClusterLoadAssignment"},
		state: "StreamEndpoints", delta: "DeltaEndpoints", fetch: "FetchEndpoints",
	},
	{
		name:  "envoy.service.secret.v3.SecretDiscoveryService",
		types: []string{"envoy.extensions.transport_sockets.tls.v3.Secret"},
		state: "StreamSecrets", delta: "DeltaSecrets", fetch: "FetchSecrets",
	},
	{
		name:  "envoy.service.runtime.v3.RuntimeDiscoveryService",
		types: []string{"envoy.service.runtime.v3.Runtime"},
		state: "StreamRuntime", delta: "DeltaRuntime", fetch: "FetchRuntime",
	},
	{
		name:  "envoy.service.extension.v3.ExtensionConfigDiscoveryService",
		types: []string{"envoy.config.core.v3.TypedExtensionConfig"},
		state: "StreamExtensionConfigs", delta: "DeltaExtensionConfigs", fetch: "FetchExtensionConfigs",
	},

	{
		name:  "envoy.service.discovery.v2.AggregatedDiscoveryService",
		state: "StreamAggregatedResources", delta: "DeltaAggregatedResources",
	},
	{
		name:  "envoy.api.v2.ListenerDiscoveryService",
		types: []string{"envoy.api.v2.Listener", "envoy.config.listener.v3.Listener"},
		state: "StreamListeners", delta: "DeltaListeners", fetch: "FetchListeners",
	},
	{
		name:  "envoy.api.v2.RouteDiscoveryService",
		types: []string{"envoy.api.v2.RouteConfiguration", "envoy.config.route.v3.RouteConfiguration"},
		state: "StreamRoutes", delta: "DeltaRoutes", fetch: "FetchRoutes",
	},
	{
		name:  "envoy.api.v2.ScopedRoutesDiscoveryService",
		types: []string{"envoy.api.v2.ScopedRouteConfiguration", "envoy.config.route.v3.ScopedRouteConfiguration"},
		state: "StreamScopedRoutes", delta: "DeltaScopedRoutes", fetch: "FetchScopedRoutes",
	},
	{
		name:  "envoy.api.v2.VirtualHostDiscoveryService",
		types: []string{"envoy.api.v2.route.VirtualHost", "envoy.config.route.v3.VirtualHost"},
		delta: "DeltaVirtualHosts",
	},
	{
		name:  "envoy.api.v2.ClusterDiscoveryService",
		types: []string{"envoy.api.v2.Cluster", "envoy.config.cluster.v3.Cluster"},
		state: "StreamClusters", delta: "DeltaClusters", fetch: "FetchClusters",
	},
	{
		name:  "envoy.api.v2.EndpointDiscoveryService",
		types: []string{"envoy.api.v2.ClusterLoadAssignment", "envoy.config.endpoint.v3.ClusterLoadAssignment"},
		state: "StreamEndpoints", delta: "DeltaEndpoints", fetch: "FetchEndpoints",
	},
	{
		name:  "envoy.service.discovery.v2.SecretDiscoveryService",
		types: []string{"envoy.api.v2.auth.Secret", "envoy.extensions.transport_sockets.tls.v3.Secret"},
		state: "StreamSecrets", delta: "DeltaSecrets", fetch: "FetchSecrets",
	},
	{
		name:  "envoy.service.discovery.v2.RuntimeDiscoveryService",
		types: []string{"envoy.service.discovery.v2.Runtime", "envoy.service.runtime.v3.Runtime"},
		state: "StreamRuntime", delta: "DeltaRuntime", fetch: "FetchRuntime",
	},
}

// register has a gRPC server serve all of them. The stubs that are generated for v3
// would do for half of the services only; the messages are the same in all.
func (s *Server) register(g grpc.ServiceRegistrar) {
	for i := range services {
		g.RegisterService(s.describe(&services[i]), s)
	}
}

func (s *Server) describe(v *discoveryService) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: v.name, HandlerType: (*any)(nil)}
	for _, m := range []struct {
		name string
		form form
	}{{v.state, stateForm}, {v.delta, deltaForm}} {
		if m.name == "" {
			continue
		}
		d.Streams = append(d.Streams, grpc.StreamDesc{
			StreamName: m.name, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, g grpc.ServerStream) error { return s.serve(g, &variant{m.form, v}) },
		})
	}
	if v.fetch != "" {
		d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: v.fetch, Handler: refuseFetch})
	}
	return d
}

// refuseFetch answers the methods that stand for REST requests, which nobody sends
// over gRPC.
//
//nolint:revive // because the order of the parameters is grpc's (MethodDesc.Handler)
func refuseFetch(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
	return nil, status.Error(codes.Unimplemented, "resources are not fetched one response at a time over gRPC: use the streaming method of this service, or REST-JSON")
}
