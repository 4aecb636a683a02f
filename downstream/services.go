package downstream

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/apiservices"
)

const (
	typePrefix = "type.googleapis.com/"
	// listSuffix makes the type of a list collection from that of its members.
	listSuffix = "Collection"
)

// discoveryService is a service of one resource type, or of all.
type discoveryService struct {
	name  string
	types []string // that it serves, the first unless a request says another; none: all (ADS)

	// Methods, "" where there is none.
	state, delta, fetch string
}

// services are those of v3, and of v2 under their names of then (VAR-1 to VAR-4,
// VAR-9). Over v2's a client may ask for v3 resources too.
var services = discoveryServices()

// before are v2's services and their types by the type of now. Extension
// configurations came later.
var before = map[string]struct{ service, resource string }{
	"envoy.config.listener.v3.Listener":                {"envoy.api.v2.ListenerDiscoveryService", "envoy.api.v2.Listener"},
	"envoy.config.route.v3.RouteConfiguration":         {"envoy.api.v2.RouteDiscoveryService", "envoy.api.v2.RouteConfiguration"},
	"envoy.config.route.v3.ScopedRouteConfiguration":   {"envoy.api.v2.ScopedRoutesDiscoveryService", "envoy.api.v2.ScopedRouteConfiguration"},
	"envoy.config.route.v3.VirtualHost":                {"envoy.api.v2.VirtualHostDiscoveryService", "envoy.api.v2.route.VirtualHost"},
	"envoy.config.cluster.v3.Cluster":                  {"envoy.api.v2.ClusterDiscoveryService", "envoy.api.v2.Cluster"},
	"envoy.config.endpoint.v3.ClusterLoadAssignment":   {"envoy.api.v2.EndpointDiscoveryService", "envoy.api.v2.ClusterLoadAssignment"},
	"envoy.extensions.transport_sockets.tls.v3.Secret": {"envoy.service.discovery.v2.SecretDiscoveryService", "envoy.api.v2.auth.Secret"},
	"envoy.service.runtime.v3.Runtime":                 {"envoy.service.discovery.v2.RuntimeDiscoveryService", "envoy.service.discovery.v2.Runtime"},
}

func discoveryServices() []discoveryService {
	ads := func(version string) discoveryService {
		return discoveryService{
			name:  "envoy.service.discovery." + version + ".AggregatedDiscoveryService",
			state: "StreamAggregatedResources", delta: "DeltaAggregatedResources",
		}
	}
	all := []discoveryService{ads("v3"), ads("v2")}
	for _, s := range apiservices.All() {
		now := strings.TrimPrefix(s.TypeURL, typePrefix)
		v := discoveryService{name: s.Name, types: []string{now}, state: s.State, delta: s.Delta, fetch: s.Fetch}
		all = append(all, v)
		if old, ok := before[now]; ok {
			v.name, v.types = old.service, []string{old.resource, now}
			all = append(all, v)
		}
	}
	return all
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
