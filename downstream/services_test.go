package downstream

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

const typePrefix = "type.googleapis.com/"

// typesOf returns the types of a service without what all type URLs begin with.
func typesOf(s *xds.Service) (types []string) {
	for _, typeURL := range s.Types() {
		types = append(types, strings.TrimPrefix(typeURL, typePrefix))
	}
	return types
}

// perType are the methods that VAR-1, VAR-2 and VAR-9 name.
var perType = map[string][]string{
	"envoy.service.discovery.v3.AggregatedDiscoveryService":      {"DeltaAggregatedResources", "StreamAggregatedResources"},
	"envoy.service.listener.v3.ListenerDiscoveryService":         {"DeltaListeners", "FetchListeners", "StreamListeners"},
	"envoy.service.route.v3.RouteDiscoveryService":               {"DeltaRoutes", "FetchRoutes", "StreamRoutes"},
	"envoy.service.route.v3.ScopedRoutesDiscoveryService":        {"DeltaScopedRoutes", "FetchScopedRoutes", "StreamScopedRoutes"},
	"envoy.service.route.v3.VirtualHostDiscoveryService":         {"DeltaVirtualHosts"},
	"envoy.service.cluster.v3.ClusterDiscoveryService":           {"DeltaClusters", "FetchClusters", "StreamClusters"},
	"envoy.service.endpoint.v3.EndpointDiscoveryService":         {"DeltaEndpoints", "FetchEndpoints", "StreamEndpoints"},
	"envoy.service.endpoint.v3.LocalityEndpointDiscoveryService": {"DeltaLocalityEndpoints"},
	"envoy.service.secret.v3.SecretDiscoveryService":             {"DeltaSecrets", "FetchSecrets", "StreamSecrets"},
	"envoy.service.runtime.v3.RuntimeDiscoveryService":           {"DeltaRuntime", "FetchRuntime", "StreamRuntime"},
	"envoy.service.extension.v3.ExtensionConfigDiscoveryService": {"DeltaExtensionConfigs", "FetchExtensionConfigs", "StreamExtensionConfigs"},
	"envoy.service.discovery.v2.AggregatedDiscoveryService":      {"DeltaAggregatedResources", "StreamAggregatedResources"},
	"envoy.service.discovery.v2.SecretDiscoveryService":          {"DeltaSecrets", "FetchSecrets", "StreamSecrets"},
	"envoy.service.discovery.v2.RuntimeDiscoveryService":         {"DeltaRuntime", "FetchRuntime", "StreamRuntime"},
	"envoy.api.v2.ListenerDiscoveryService":                      {"DeltaListeners", "FetchListeners", "StreamListeners"},
	"envoy.api.v2.RouteDiscoveryService":                         {"DeltaRoutes", "FetchRoutes", "StreamRoutes"},
	"envoy.api.v2.ScopedRoutesDiscoveryService":                  {"DeltaScopedRoutes", "FetchScopedRoutes", "StreamScopedRoutes"},
	"envoy.api.v2.VirtualHostDiscoveryService":                   {"DeltaVirtualHosts"},
	"envoy.api.v2.ClusterDiscoveryService":                       {"DeltaClusters", "FetchClusters", "StreamClusters"},
	"envoy.api.v2.EndpointDiscoveryService":                      {"DeltaEndpoints", "FetchEndpoints", "StreamEndpoints"},
}

func TestServices_VAR1_VAR2_VAR3_VAR4_VAR9(t *testing.T) {
	s := NewServer(Config{})
	defer s.Stop()
	got := map[string][]string{}
	for name, info := range s.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			if strings.Contains(name, "DiscoveryService") {
				got[name] = append(got[name], m.Name)
			}
		}
		slices.Sort(got[name])
	}
	delete(got, "grpc.health.v1.Health")
	if !maps.EqualFunc(got, perType, slices.Equal) {
		t.Errorf("serves %v", got)
	}
}

// Every streaming method answers its own type without being told, in its own form,
// and refuses another.
func TestServices_EveryMethod_VAR1_VAR2_VAR8_VAR9_VAR10(t *testing.T) {
	for _, v := range services {
		for _, form := range []form{deltaForm, stateForm} {
			method := [2]string{v.Delta, v.State}[form]
			if method == "" || len(typesOf(&v)) == 0 {
				continue
			}
			t.Run(v.Name+"/"+method, func(t *testing.T) {
				bubble(t, func(h *harness) {
					for _, typeURL := range typesOf(&v) {
						h.opaque.set(typePrefix+typeURL, "1", "a")
					}
					answersItsOwnType(h, form, "/"+v.Name+"/"+method, typesOf(&v))
				})
			})
		}
	}
}

func answersItsOwnType(h *harness, f form, method string, types []string) {
	for i, said := range append([]string{""}, types...) {
		if i > 0 {
			said = typePrefix + said
		}
		var got string
		if f == stateForm {
			c := h.stateOn(method, false)
			c.asks(said, "a")
			if all := c.take(); len(all) == 1 {
				got = all[0].TypeUrl + " " + string(all[0].Resources[0].Value)
			}
			c.send(&stateRequestMsg{TypeUrl: typePrefix + "example.Other", ResourceNames: []string{"a"}})
			c.endedWith(codes.InvalidArgument, "serves "+typePrefix+strings.Join(types, " and "+typePrefix)+" only")
		} else {
			c := h.deltaOn(method)
			c.subscribe(said, "a")
			if all := c.take(); len(all) == 1 {
				got = all[0].TypeUrl + " " + string(all[0].Resources[0].Resource.Value)
			}
			c.subscribe(types[0], "a") // not a type URL
			c.endedWith(codes.InvalidArgument, `type_url is "`+types[0]+`"`)
		}
		if want := typePrefix + types[max(0, i-1)] + " a@1"; got != want {
			h.Errorf("asked for %q and got %q, want %q", said, got, want)
		}
	}
}

// deltaOn opens an incremental stream by its method.
func (h *harness) deltaOn(method string) *client {
	h.Helper()
	if h.conn == nil {
		h.conn = h.dial()
	}
	ctx, cancel := context.WithCancel(h.Context())
	stream, err := h.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		h.Fatal(err)
	}
	c := &client{inbox: inbox[response]{h: h, cancel: cancel}, stream: &grpc.GenericClientStream[request, response]{ClientStream: stream}}
	h.shutdown = append(h.shutdown, func() {
		cancel()
		c.reading.Wait()
	})
	c.read()
	return c
}

// The methods that stand for REST say where to go.
func TestServices_Fetch(t *testing.T) {
	bubble(t, func(h *harness) {
		conn := h.dial()
		for _, v := range services {
			if v.Fetch == "" {
				continue
			}
			err := conn.Invoke(h.Context(), "/"+v.Name+"/"+v.Fetch, &stateRequestMsg{}, &emptypb.Empty{})
			if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "use the streaming method") {
				h.Errorf("%s: %v", v.Fetch, err)
			}
		}
	})
}

// Over v2's names a client speaks of v2's types, or of v3's (VAR-9).
func TestServices_V2_VAR9(t *testing.T) {
	bubble(t, func(h *harness) {
		h.opaque.set(v2ClusterType, "1", "a")
		h.opaque.set(clusterType, "1", "b")
		c := h.stateOn("/envoy.service.discovery.v2.AggregatedDiscoveryService/StreamAggregatedResources", true)
		c.asks(v2ClusterType)
		c.asks(clusterType)
		c.wants("Cluster a@1", "Cluster b@1")
		s := h.status()
		if s.Variant != StateADS || s.Service != "envoy.service.discovery.v2.AggregatedDiscoveryService" {
			h.Errorf("status %+v", s)
		}
	})
}

// What is wrong with a request of either form costs the stream only where nothing
// could be answered.
func TestMalformed_VAR10_STR1_OPS5(t *testing.T) {
	long := strings.Repeat("x", maxNameLength+1)
	for _, tt := range []struct {
		name string
		req  *stateRequestMsg
		code codes.Code // OK: the stream goes on
		part string
	}{
		{"VAR-10 no type", &stateRequestMsg{}, codes.InvalidArgument, "type_url is missing"},
		{"OPS-5 a type without end", &stateRequestMsg{TypeUrl: strings.Repeat("x", maxTypeURL+1)}, codes.ResourceExhausted, "type_url has 513 bytes"},
		{"ABS-4 OPS-5 a name without end", &stateRequestMsg{TypeUrl: clusterType, ResourceNames: []string{long}}, codes.OK, ""},
		{"ABS-4 OPS-5 too many names", &stateRequestMsg{TypeUrl: clusterType, ResourceNames: []string{"a", "b", "c", "d", "e", "f", "g"}}, codes.OK, ""},
		{"a bad name", &stateRequestMsg{TypeUrl: endpointType, ResourceNames: []string{"xdstp:", ""}}, codes.OK, ""},
		{"duplicate names", &stateRequestMsg{TypeUrl: endpointType, ResourceNames: []string{"a", "a"}}, codes.OK, ""},
		{"garbage nonce", &stateRequestMsg{TypeUrl: endpointType, ResourceNames: []string{"a"}, ResponseNonce: "\x00-1"}, codes.OK, ""},
		{"a NACK of nothing", &stateRequestMsg{TypeUrl: endpointType, ResourceNames: []string{"a"}, ErrorDetail: &rpcstatus.Status{Code: 3}}, codes.OK, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				h.opaque.set(endpointType, "1", "a", "z")
				c := h.state()
				c.node = nil // STR-1: an empty node is a node
				c.names[endpointType] = tt.req.ResourceNames
				c.send(tt.req)
				if tt.code != codes.OK {
					c.endedWith(tt.code, tt.part)
					return
				}
				c.take()
				c.asks(endpointType, "z")
				c.wants("ClusterLoadAssignment z@1")
				if n := h.seen.count("requested"); n < 2 {
					h.Errorf("%d requests counted", n)
				}
			}, func(c *Config) { c.PerClient.Subscriptions = 3 })
		})
	}
}

var _ discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient = (*grpc.GenericClientStream[request, response])(nil)
