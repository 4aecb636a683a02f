package metrics

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	"google.golang.org/protobuf/proto"
)

func TestKindOfAPITypes(t *testing.T) {
	for _, tt := range []struct {
		message proto.Message
		want    string
	}{
		{&clusterv3.Cluster{}, "cds"},
		{&clusterv3.ClusterCollection{}, "cds"},
		{&endpointv3.ClusterLoadAssignment{}, "eds"},
		{&endpointv3.LbEndpoint{}, "eds"},
		{&endpointv3.LbEndpointCollection{}, "eds"},
		{&listenerv3.Listener{}, "lds"},
		{&listenerv3.ListenerCollection{}, "lds"},
		{&routev3.RouteConfiguration{}, "rds"},
		{&routev3.ScopedRouteConfiguration{}, "srds"},
		{&routev3.VirtualHost{}, "vhds"},
		{&tlsv3.Secret{}, "sds"},
		{&runtimev3.Runtime{}, "rtds"},
		{&corev3.TypedExtensionConfig{}, "ecds"},
		{&corev3.Node{}, "other"},
	} {
		url := "type.googleapis.com/" + string(proto.MessageName(tt.message))
		if got := shortNames[kindOf(url)]; got != tt.want {
			t.Errorf("%s is %s, want %s", url, got, tt.want)
		}
	}
}

func TestKindOfNames(t *testing.T) {
	const prefix = "type.googleapis.com/"
	for name, want := range map[string]string{
		"envoy.api.v2.Cluster":                                "cds",
		"envoy.api.v2.ClusterLoadAssignment":                  "eds",
		"envoy.api.v2.Listener":                               "lds",
		"envoy.api.v2.RouteConfiguration":                     "rds",
		"envoy.api.v2.ScopedRouteConfiguration":               "srds",
		"envoy.api.v2.route.VirtualHost":                      "vhds",
		"envoy.api.v2.auth.Secret":                            "sds",
		"envoy.service.discovery.v2.Runtime":                  "rtds",
		"envoy.config.route.v3.RouteConfigurationCollection":  "rds",
		"envoy.config.cluster.v3.ClusterCollectionCollection": "other",
		"acme.GadgetCollection":                               "other",
		"Collection":                                          "other",
		"":                                                    "other",
	} {
		if got := shortNames[kindOf(prefix+name)]; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := shortNames[kindOf("envoy.config.cluster.v3.Cluster")]; got != "other" {
		t.Errorf("a name is no type URL, yet it is %s", got)
	}
}
