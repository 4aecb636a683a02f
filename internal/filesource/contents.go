package filesource

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"unicode/utf8"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// contents is what a valid file says. Immutable.
type contents struct {
	typeURL   string
	version   string // version_info, or a digest of the resources without one (ACK-4)
	resources []*wire.Resource
}

// wrapperURL is the type of a resource that brings a name, a version and a ttl
// of its own (RES-13).
const wrapperURL = "type.googleapis.com/envoy.service.discovery.v3.Resource"

// parse reads the data of a file of a format, whose index in formats is given.
func parse(format int, data []byte, limit int64) (*contents, *Error) {
	r, bad := formats[format].decode(data, limit)
	if bad != nil {
		return nil, bad
	}
	// Nothing at all is what a file holds at the moment in which it is written
	// anew, and says nothing about any type.
	if r.GetTypeUrl() == "" && len(r.GetResources()) == 0 {
		return nil, errorf("holds neither a type_url nor a resource")
	}
	c := &contents{typeURL: r.GetTypeUrl(), version: r.GetVersionInfo()}
	names := make(map[string]int, len(r.GetResources()))
	for i, packed := range r.GetResources() {
		resource, err := unwrap(packed)
		if err != nil {
			return nil, errorf("resources[%d]: %v", i, err)
		}
		if c.typeURL == "" {
			c.typeURL = resource.TypeURL
		}
		if resource.TypeURL != c.typeURL {
			return nil, errorf("resources[%d]: expected the type %s, got %s", i, shown(c.typeURL), shown(resource.TypeURL))
		}
		if first, again := names[resource.Name]; again {
			return nil, errorf("resources[%d]: the name %s is that of resources[%d] already", i, shown(resource.Name), first)
		}
		names[resource.Name] = i
		c.resources = append(c.resources, resource)
	}
	if c.version == "" {
		c.version = digest(c.resources)
	}
	return c, nil
}

// unwrap makes a resource of an element of a response, wrapped or bare.
func unwrap(packed *anypb.Any) (*wire.Resource, error) {
	full := &discoveryv3.Resource{Resource: packed}
	if packed.GetTypeUrl() == wrapperURL {
		full = new(discoveryv3.Resource)
		if err := proto.Unmarshal(packed.GetValue(), full); err != nil {
			return nil, fmt.Errorf("is no %s", full.ProtoReflect().Descriptor().FullName())
		}
	}
	payload := full.GetResource()
	if payload.GetTypeUrl() == "" {
		return nil, fmt.Errorf("has no payload, or one without type")
	}
	if full.GetName() == "" && full.GetResourceName().GetName() == "" {
		name, err := nameOf(payload.GetValue())
		if err != nil {
			return nil, err
		}
		full.Name = name
	}
	return wire.NewResource(full)
}

// nameOf reads the name of a payload: field 1 of every type that is a resource.
func nameOf(payload []byte) (string, error) {
	var name []byte
	for rest := payload; len(rest) > 0; {
		number, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return "", fmt.Errorf("the payload is no protobuf message")
		}
		size := protowire.ConsumeFieldValue(number, typ, rest[n:])
		if size < 0 {
			return "", fmt.Errorf("the payload is no protobuf message")
		}
		if number == 1 && typ == protowire.BytesType {
			name, _ = protowire.ConsumeBytes(rest[n:])
		}
		rest = rest[n+size:]
	}
	if len(name) == 0 || !utf8.Valid(name) {
		return "", fmt.Errorf("has no name")
	}
	return string(name), nil
}

// digest is a version for resources that were given none, in hexadecimal digits:
// the same for the same resources in the same order.
func digest(resources []*wire.Resource) string {
	h := sha256.New()
	for _, r := range resources {
		h.Write(binary.AppendUvarint(nil, uint64(r.Size())))
		h.Write(r.Raw())
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
