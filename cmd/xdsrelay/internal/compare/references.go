package compare

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	_ "github.com/xdsrelay/xdsrelay/internal/xds/apitypes" // for payloads within payloads
	"github.com/xdsrelay/xdsrelay/keyer"
)

// references gives what an Envoy with the resource asks for: routes, endpoints, secrets and extensions.
func references(r *wire.Resource) (all []key) {
	add := func(short, name string) {
		url, _ := keyer.TypeURL(short)
		all = append(all, key{url, name})
	}
	var walk func(m proto.Message)
	walk = func(m proto.Message) {
		switch m := m.(type) {
		case nil:
			return
		case *anypb.Any:
			if inner, err := m.UnmarshalNew(); err == nil {
				walk(inner)
			}
			return
		case *clusterv3.Cluster:
			if name := m.GetEdsClusterConfig().GetServiceName(); name != "" {
				add("eds", name)
			} else if m.GetType() == clusterv3.Cluster_EDS {
				add("eds", m.GetName())
			}
		case *hcmv3.Rds:
			add("rds", m.GetRouteConfigName())
		case *tlsv3.SdsSecretConfig:
			if m.GetSdsConfig() != nil {
				add("sds", m.GetName())
			}
		case *hcmv3.HttpFilter:
			if m.GetConfigDiscovery() != nil {
				add("ecds", m.GetName())
			}
		case *corev3.ExtensionConfigSource:
			return // its default is no resource
		}
		m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case f.Message() == nil || f.IsMap() && f.MapValue().Message() == nil:
			case f.IsList():
				for i := range v.List().Len() {
					walk(v.List().Get(i).Message().Interface())
				}
			case f.IsMap():
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					walk(v.Message().Interface())
					return true
				})
			default:
				walk(v.Message().Interface())
			}
			return true
		})
	}
	if m := message(r); m != nil {
		walk(m)
	}
	return all
}
