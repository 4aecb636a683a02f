package config

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// userAgent is how the relay calls itself upstream.
const userAgent = "xdsrelay"

// NodeProto gives the relay's own node as it goes upstream in the first request
// of a stream (STR-2), a new message each time. Version and client features are
// not configuration: who opens the stream adds them. Metadata that Validate
// refuses is left out.
func (c *Config) NodeProto() *corev3.Node {
	n := &corev3.Node{Id: c.Node.ID, Cluster: c.Node.Cluster, UserAgentName: userAgent}
	if l := c.Node.Locality; l != (Locality{}) {
		n.Locality = &corev3.Locality{Region: l.Region, Zone: l.Zone, SubZone: l.SubZone}
	}
	if len(c.Node.Metadata) > 0 {
		if s, err := structpb.NewStruct(c.Node.Metadata); err == nil {
			n.Metadata = s
		}
	}
	return n
}
