// Package content makes what the benchmarks' servers serve: any resource of any
// revision can be made anew from its type, number and revision, in every process,
// so that clients know each content that they may be sent, and processes tell each
// other numbers.
//
// A payload is one message with one long string in it, which is the cheapest there
// is to encode: a server that encodes for each client has it easy.
package content

import (
	"fmt"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// Type URLs of the types that there is content of.
const (
	ClusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
)

// Set is the resources of one type that a server has: Count of them, numbered from
// 0, with payloads of about Size bytes.
type Set struct {
	TypeURL string `json:"type_url"`
	Count   int    `json:"count"`
	Size    int    `json:"size"`
}

// Name gives the name of a resource.
func (s Set) Name(item int) string {
	kind := "cluster"
	if s.TypeURL == EndpointType {
		kind = "endpoints"
	}
	return fmt.Sprintf("%s-%06d", kind, item)
}

// Message makes the payload of a resource in a revision.
func (s Set) Message(item, revision int) types.Resource {
	name := s.Name(item)
	text := filler(revision, s.Size-len(name))
	if s.TypeURL != EndpointType {
		return &clusterv3.Cluster{Name: name, AltStatName: text}
	}
	endpoint := &endpointv3.Endpoint{
		Hostname: text,
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
		}}},
	}
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: endpoint}}},
	}}}
}

// filler is a text of a size, another one for each revision.
func filler(revision, size int) string {
	const line = "what a payload of this size may hold; "
	text := "revision " + strconv.Itoa(revision) + ": "
	if missing := size - len(text); missing > 0 {
		text += strings.Repeat(line, missing/len(line)+1)[:missing]
	}
	return text
}

// Resource makes a resource in a revision, with the version that go-control-plane's
// caches give it: a hash of its payload.
func (s Set) Resource(item, revision int) (*discoveryv3.Resource, error) {
	value, err := cache.MarshalResource(s.Message(item, revision))
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", s.Name(item), err)
	}
	return &discoveryv3.Resource{
		Name: s.Name(item), Version: cache.HashResource(value),
		Resource: &anypb.Any{TypeUrl: s.TypeURL, Value: value},
	}, nil
}
