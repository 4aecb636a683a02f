package xdsclient

import (
	"testing"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
)

func TestServiceOf_VAR1_VAR2_VAR5(t *testing.T) {
	state := map[string]Service{
		"lds":  {"/envoy.service.listener.v3.ListenerDiscoveryService/StreamListeners", "/envoy.service.listener.v3.ListenerDiscoveryService/DeltaListeners", "/v3/discovery:listeners"},
		"rds":  {"/envoy.service.route.v3.RouteDiscoveryService/StreamRoutes", "/envoy.service.route.v3.RouteDiscoveryService/DeltaRoutes", "/v3/discovery:routes"},
		"srds": {"/envoy.service.route.v3.ScopedRoutesDiscoveryService/StreamScopedRoutes", "/envoy.service.route.v3.ScopedRoutesDiscoveryService/DeltaScopedRoutes", "/v3/discovery:scoped-routes"},
		"vhds": {"", "/envoy.service.route.v3.VirtualHostDiscoveryService/DeltaVirtualHosts", ""},
		"cds":  {"/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters", "/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters", "/v3/discovery:clusters"},
		"eds":  {"/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints", "/envoy.service.endpoint.v3.EndpointDiscoveryService/DeltaEndpoints", "/v3/discovery:endpoints"},
		"sds":  {"/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets", "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets", "/v3/discovery:secrets"},
		"rtds": {"/envoy.service.runtime.v3.RuntimeDiscoveryService/StreamRuntime", "/envoy.service.runtime.v3.RuntimeDiscoveryService/DeltaRuntime", "/v3/discovery:runtime"},
		"ecds": {"/envoy.service.extension.v3.ExtensionConfigDiscoveryService/StreamExtensionConfigs", "/envoy.service.extension.v3.ExtensionConfigDiscoveryService/DeltaExtensionConfigs", "/v3/discovery:extension_configs"},
	}
	for _, short := range keyer.ShortNames() {
		url, _ := keyer.TypeURL(short)
		if got := ServiceOf(url); got != state[short] {
			t.Errorf("%s: %+v", short, got)
		}
	}
	if got := ServiceOf(resource.RateLimitConfigType); got != (Service{}) {
		t.Errorf("a type without a service of its own has %+v", got)
	}
	err := &UnservedError{TypeURL: resource.VirtualHostType, Variant: "REST"}
	if got, want := err.Error(), "vhds cannot be asked for: there is no REST service for it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
