package xds

import (
	"bytes"
	"slices"
	"testing"

	"github.com/envoyproxy/go-control-plane/envoy/annotations"
	_ "github.com/envoyproxy/go-control-plane/envoy/api/v2"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v2"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/extension/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// TestVAR1_VAR2_VAR9_all holds the table to the API itself: its services, what they serve,
// the names of their methods, and the paths that these are mapped to.
func TestVAR1_VAR2_VAR9_all(t *testing.T) {
	for _, s := range slices.Concat(Services(), V2Services()) {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(s.Name))
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		service := d.(protoreflect.ServiceDescriptor)
		served, _ := proto.GetExtension(service.Options(), annotations.E_Resource).(*annotations.ResourceAnnotation)
		// v2's API says v3's types for the services that moved to a package of their own.
		if got := typePrefix + served.GetType(); !slices.Contains(s.Types(), got) {
			t.Errorf("%s serves %s, not %s", s.Name, got, s.Types())
		}
		methods := checkMethods(t, &s, service)
		if service.Methods().Len() != methods {
			t.Errorf("%s has %d methods, the table %d", s.Name, service.Methods().Len(), methods)
		}
		if (s.Fetch == "") != (s.Path == "") {
			t.Errorf("%s: path %q stands for method %q", s.Name, s.Path, s.Fetch)
		}
	}
}

// checkMethods compares the methods that the table has of a service, and counts them.
func checkMethods(t *testing.T, s *Service, service protoreflect.ServiceDescriptor) int {
	t.Helper()
	count := 0
	for _, m := range []struct {
		name      string
		streaming bool
	}{{s.State, true}, {s.Delta, true}, {s.Fetch, false}} {
		if m.name == "" {
			continue
		}
		count++
		method := service.Methods().ByName(protoreflect.Name(m.name))
		if method == nil || method.IsStreamingClient() != m.streaming {
			t.Errorf("%s: method %s is %v", s.Name, m.name, method)
			continue
		}
		if m.name != s.Fetch {
			continue
		}
		if options, err := proto.Marshal(method.Options()); err != nil || !bytes.Contains(options, []byte(s.Path)) {
			t.Errorf("%s: %s is not polled at %s: %q, %v", s.Name, m.name, s.Path, options, err)
		}
	}
	return count
}

// TestVAR9_types: what v2's services serve are types of v2, which have messages.
func TestVAR9_types(t *testing.T) {
	if got := len(V2Services()); got != 8 {
		t.Errorf("v2 has %d services", got)
	}
	for _, s := range V2Services() {
		if _, err := protoregistry.GlobalTypes.FindMessageByURL(s.TypeURL); err != nil {
			t.Errorf("%s: %v", s.TypeURL, err)
		}
		if !s.Serves(s.TypeURL) || !s.Serves(s.V3) || !s.Serves(s.V3+"Collection") || s.Serves("") || ServiceOf(s.TypeURL) != (Service{}) || ServiceOf(s.V3).Name == s.Name {
			t.Errorf("%s serves %s; v3's services are of v3", s.Name, s.Types())
		}
	}
}

func TestVAR5_paths(t *testing.T) {
	paths := map[string]string{
		resource.ListenerType: resource.FetchListeners, resource.RouteType: resource.FetchRoutes,
		resource.ScopedRouteType: resource.FetchScopedRoutes, resource.VirtualHostType: "",
		resource.ClusterType: resource.FetchClusters, resource.EndpointType: resource.FetchEndpoints,
		typePrefix + "envoy.config.endpoint.v3.LbEndpoint": "",
		resource.SecretType: resource.FetchSecrets, resource.RuntimeType: resource.FetchRuntimes,
		resource.ExtensionConfigType: resource.FetchExtensionConfigs,
	}
	if got := len(Services()); got != len(paths) {
		t.Errorf("%d services, want %d", got, len(paths))
	}
	for typeURL, want := range paths {
		if s := ServiceOf(typeURL); s.TypeURL != typeURL || s.Path != want {
			t.Errorf("%s: %+v, want the path %q", typeURL, s, want)
		}
	}
}

// LIST-1: list collections are asked for where their members are.
func TestLIST1_collections(t *testing.T) {
	for _, s := range Services() {
		if got := ServiceOf(s.TypeURL + "Collection"); got != s || !s.Serves(s.TypeURL) || !s.Serves(s.TypeURL+"Collection") {
			t.Errorf("the collections of %s are served by %+v", s.TypeURL, got)
		}
	}
	lds := ServiceOf(resource.ListenerType)
	for _, other := range []string{"", "Collection", resource.ClusterType, resource.ClusterType + "Collection", resource.ListenerType + "CollectionCollection"} {
		if lds.Serves(other) {
			t.Errorf("VAR-10: %q is served by %+v", other, lds)
		}
	}
	if (Service{}).Serves("") || (Service{}).Serves("Collection") || ServiceOf("Collection") != (Service{}) {
		t.Error("what is no service serves something")
	}
}

func TestVAR1_VAR2_methods(t *testing.T) {
	cds, vhds := ServiceOf(resource.ClusterType), ServiceOf(resource.VirtualHostType)
	leds := ServiceOf(typePrefix + "envoy.config.endpoint.v3.LbEndpoint")
	for got, want := range map[string]string{
		cds.StateMethod():  "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters",
		cds.DeltaMethod():  "/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters",
		vhds.StateMethod(): "",
		leds.StateMethod(): "",
		leds.DeltaMethod(): "/envoy.service.endpoint.v3.LocalityEndpointDiscoveryService/DeltaLocalityEndpoints",
		vhds.DeltaMethod(): "/envoy.service.route.v3.VirtualHostDiscoveryService/DeltaVirtualHosts",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := ServiceOf(resource.RateLimitConfigType); got != (Service{}) {
		t.Errorf("a type without a service of its own has %+v", got)
	}
}
