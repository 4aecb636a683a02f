package xds

import "strings"

// The types that the relay knows something of, by their URLs.
const (
	ListenerType        = typePrefix + "envoy.config.listener.v3.Listener"
	FilterChainType     = typePrefix + "envoy.config.listener.v3.FilterChain"
	RouteType           = typePrefix + "envoy.config.route.v3.RouteConfiguration"
	ScopedRouteType     = typePrefix + "envoy.config.route.v3.ScopedRouteConfiguration"
	VirtualHostType     = typePrefix + "envoy.config.route.v3.VirtualHost"
	ClusterType         = typePrefix + "envoy.config.cluster.v3.Cluster"
	EndpointType        = typePrefix + "envoy.config.endpoint.v3.ClusterLoadAssignment"
	LbEndpointType      = typePrefix + "envoy.config.endpoint.v3.LbEndpoint"
	SecretType          = typePrefix + "envoy.extensions.transport_sockets.tls.v3.Secret"
	RuntimeType         = typePrefix + "envoy.service.runtime.v3.Runtime"
	ExtensionConfigType = typePrefix + "envoy.config.core.v3.TypedExtensionConfig"
)

// Type is what the relay knows of a resource type. Everything else that it does with a type goes by the type's URL.
type Type struct {
	// Short is what people call the discovery service by; "" if they have no name for it.
	Short string
	// Label is that of metrics.
	Label string
	URL   string
	V2    string // the message of v2 of the API; "" if there is none
	Rank  Rank
	// NameField is the number of the field that has a resource's name; 0 if there is none.
	NameField int
	// FullState says that a state-of-the-world response holds all that is subscribed to (RES-2).
	FullState bool
	// Collections says that the API has list collections of the type (LIST-1).
	Collections bool
	// RefersTo are the types that resources of the type name.
	RefersTo []string
	// Enables says that resources of other types that a client rejected may be good once one of this type is there
	// (RES-3).
	Enables bool

	service   methods
	serviceV2 string
}

// methods are those of a discovery service.
type methods struct{ name, state, delta, fetch, path string }

// types has a row for each type, in the order of the documents.
var types = [...]Type{
	{
		Short: "lds", Label: "lds", URL: ListenerType, V2: "envoy.api.v2.Listener", Rank: RankListener, NameField: 1,
		FullState: true, Collections: true, RefersTo: []string{FilterChainType, RouteType, ClusterType, SecretType},
		service:   methods{"envoy.service.listener.v3.ListenerDiscoveryService", "StreamListeners", "DeltaListeners", "FetchListeners", "listeners"},
		serviceV2: "envoy.api.v2.ListenerDiscoveryService",
	},
	{
		Short: "fcds", Label: "fcds", URL: FilterChainType, Rank: RankFilterChain, NameField: 7,
		RefersTo: []string{RouteType, ClusterType, SecretType}, Enables: true,
	},
	{
		Short: "rds", Label: "rds", URL: RouteType, V2: "envoy.api.v2.RouteConfiguration", Rank: RankRoute, NameField: 1,
		RefersTo: []string{ClusterType}, Enables: true,
		service:   methods{"envoy.service.route.v3.RouteDiscoveryService", "StreamRoutes", "DeltaRoutes", "FetchRoutes", "routes"},
		serviceV2: "envoy.api.v2.RouteDiscoveryService",
	},
	{
		Short: "srds", Label: "srds", URL: ScopedRouteType, V2: "envoy.api.v2.ScopedRouteConfiguration", Rank: RankRoute, NameField: 1,
		FullState: true, RefersTo: []string{RouteType},
		service:   methods{"envoy.service.route.v3.ScopedRoutesDiscoveryService", "StreamScopedRoutes", "DeltaScopedRoutes", "FetchScopedRoutes", "scoped-routes"},
		serviceV2: "envoy.api.v2.ScopedRoutesDiscoveryService",
	},
	{
		Short: "vhds", Label: "vhds", URL: VirtualHostType, V2: "envoy.api.v2.route.VirtualHost", Rank: RankVirtualHost, NameField: 1,
		service:   methods{name: "envoy.service.route.v3.VirtualHostDiscoveryService", delta: "DeltaVirtualHosts"},
		serviceV2: "envoy.api.v2.VirtualHostDiscoveryService",
	},
	{
		Short: "cds", Label: "cds", URL: ClusterType, V2: "envoy.api.v2.Cluster", Rank: RankCluster, NameField: 1,
		FullState: true, Collections: true, RefersTo: []string{EndpointType, ClusterType, SecretType}, Enables: true,
		service:   methods{"envoy.service.cluster.v3.ClusterDiscoveryService", "StreamClusters", "DeltaClusters", "FetchClusters", "clusters"},
		serviceV2: "envoy.api.v2.ClusterDiscoveryService",
	},
	{
		Short: "eds", Label: "eds", URL: EndpointType, V2: "envoy.api.v2.ClusterLoadAssignment", Rank: RankEndpoint, NameField: 1,
		service:   methods{"envoy.service.endpoint.v3.EndpointDiscoveryService", "StreamEndpoints", "DeltaEndpoints", "FetchEndpoints", "endpoints"},
		serviceV2: "envoy.api.v2.EndpointDiscoveryService",
	},
	{
		Label: "eds", URL: LbEndpointType, Rank: RankEndpoint, Collections: true,
		service: methods{name: "envoy.service.endpoint.v3.LocalityEndpointDiscoveryService", delta: "DeltaLocalityEndpoints"},
	},
	{
		Short: "sds", Label: "sds", URL: SecretType, V2: "envoy.api.v2.auth.Secret", Rank: RankOther, NameField: 1, Enables: true,
		service:   methods{"envoy.service.secret.v3.SecretDiscoveryService", "StreamSecrets", "DeltaSecrets", "FetchSecrets", "secrets"},
		serviceV2: "envoy.service.discovery.v2.SecretDiscoveryService",
	},
	{
		Short: "rtds", Label: "rtds", URL: RuntimeType, V2: "envoy.service.discovery.v2.Runtime", Rank: RankOther, NameField: 1,
		service:   methods{"envoy.service.runtime.v3.RuntimeDiscoveryService", "StreamRuntime", "DeltaRuntime", "FetchRuntime", "runtime"},
		serviceV2: "envoy.service.discovery.v2.RuntimeDiscoveryService",
	},
	{
		Short: "ecds", Label: "ecds", URL: ExtensionConfigType, Rank: RankOther, NameField: 1, Enables: true,
		service: methods{"envoy.service.extension.v3.ExtensionConfigDiscoveryService", "StreamExtensionConfigs", "DeltaExtensionConfigs", "FetchExtensionConfigs", "extension_configs"},
	},
}

// Types lists what is known, for reading only.
func Types() []Type { return types[:] }

// V2URL is the type's URL in v2; "" if there is none.
func (t *Type) V2URL() string {
	if t.V2 == "" {
		return ""
	}
	return typePrefix + t.V2
}

// row is a type by one of its URLs.
type row struct {
	url string
	of  *Type
}

// byURL has the URLs of v3 and v2.
var byURL = func() map[string]row {
	rows := make(map[string]row, 2*len(types))
	for i := range types {
		t := &types[i]
		rows[t.URL] = row{t.URL, t}
		if t.V2 != "" {
			rows[t.V2URL()] = row{t.V2URL(), t}
		}
	}
	return rows
}()

// Find gives what is known of a type by its URL, of v3 or v2; nil if that is nothing.
func Find(typeURL string) *Type { return byURL[typeURL].of }

// FindBytes is [Find] for a URL that nobody has made a string of. It gives that string, too: "" if the type is not known.
// It allocates nothing.
func FindBytes(typeURL []byte) (string, *Type) {
	r := byURL[string(typeURL)]
	return r.url, r.of
}

// Enables is [Type.Enables] of a type by its URL.
func Enables(typeURL string) bool {
	t := Find(typeURL)
	return t != nil && t.Enables
}

// member is the type of the members of list collections.
func member(typeURL string) (string, bool) { return strings.CutSuffix(typeURL, collectionSuffix) }
