package restjson

import (
	"errors"
	"slices"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	// JSON is made of payloads, and payloads of JSON, only with their types at hand.
	_ "github.com/xdsrelay/xdsrelay/internal/xds/apitypes"
)

// Outgoing is a DiscoveryResponse for one client.
type Outgoing struct {
	VersionInfo, TypeURL, Nonce string
	ControlPlane                string // its identifier (STR-10); "" for none
	Resources                   []OutgoingResource
	Errors                      []OutgoingError
	// Wrapped puts each resource into an envoy.service.discovery.v3.Resource
	// (RES-13). It is for clients whose node announces that they know it
	// (wire.AnnouncesWrapping); without it they get payloads only.
	Wrapped bool
}

// OutgoingResource is a resource as one client gets it. Only Resource matters
// unless resources are wrapped.
type OutgoingResource struct {
	Resource *wire.Resource
	// Name is the spelling that the client asked with (NAME-4), "" for the server's.
	Name string
	// Without are aliases that are left out.
	Without []string
	// TTL is what is left for the client (TTL-2), nil for none. That the client
	// announced xds.config.supports-resource-ttl is for the caller to see to (TTL-1).
	TTL *time.Duration
	// Heartbeat leaves the payload out (TTL-3).
	Heartbeat bool
	// Transcoded is what [Transcode] made of Resource, nil to have it made for this
	// response only.
	Transcoded *Transcoded
}

// OutgoingError is a resource error under the name that the client gave the resource
// (ERR-1, NAME-4).
type OutgoingError struct {
	Error *wire.ResourceError
	Name  string
}

// encode gives an error as it stands in the response. Details that JSON cannot carry
// are left out: what matters is the code.
func (o *OutgoingError) encode() ([]byte, error) {
	whole := new(discoveryv3.ResourceError)
	if proto.Unmarshal([]byte(o.Error.Encoded(o.Name)), whole) != nil {
		return nil, errBroken
	}
	var s survey
	text, err := toJSON(whole, &s)
	if err != nil {
		whole.ErrorDetail.Details = nil
		text, err = toJSON(whole, &s)
	}
	return text, err
}

// Encoded is a DiscoveryResponse as JSON.
type Encoded struct {
	Body Body
	// Lossy names the resources with a field that this build does not know, which
	// JSON cannot carry (VAR-8), in the order of the response.
	Lossy []string
}

// EncodeResponse writes a response in proto3's canonical JSON. It gives an
// [*EncodeError] if there is a resource that cannot be written: of a type that
// this build does not know, or with such a type within, or not what its type says.
func EncodeResponse(o *Outgoing) (*Encoded, error) {
	// It is put together here, and not by protojson, so that an error is that of one resource.
	encoded := new(Encoded)
	resources := make([][][]byte, len(o.Resources))
	for i := range o.Resources {
		r := &o.Resources[i]
		var s survey
		parts, err := r.encode(o.Wrapped, &s)
		if err != nil {
			return nil, encodeError(r.Resource, err)
		}
		resources[i] = parts
		if s.unknown {
			encoded.Lossy = append(encoded.Lossy, r.Resource.Name)
		}
	}
	failures := make([][][]byte, len(o.Errors))
	for i := range o.Errors {
		text, err := o.Errors[i].encode()
		if err != nil {
			return nil, errors.New("restjson: a resource error cannot be written as JSON")
		}
		failures[i] = [][]byte{text}
	}
	var e object
	e.text("versionInfo", o.VersionInfo)
	e.list("resources", resources)
	e.text("typeUrl", o.TypeURL)
	e.text("nonce", o.Nonce)
	if o.ControlPlane != "" {
		e.field("controlPlane")
		e.body.add([]byte(`{"identifier":`), quote(o.ControlPlane), []byte("}"))
	}
	e.list("resourceErrors", failures)
	encoded.Body = e.end()
	return encoded, nil
}

// encode gives a resource as it stands in the response, in parts.
func (o *OutgoingResource) encode(wrapped bool, s *survey) ([][]byte, error) {
	payload, err := o.payload(wrapped)
	if err != nil {
		return nil, err
	}
	if payload != nil && payload.lossy {
		s.unknown = true
	}
	if !wrapped {
		return [][]byte{payload.text}, nil
	}
	head, err := o.head(s)
	if err != nil {
		return nil, err
	}
	// The head is an object with a field at least: there is a name.
	text := append([]byte(`{"@type":"`+wire.ResourceTypeURL+`",`), head[1:]...)
	if payload == nil {
		return [][]byte{text}, nil
	}
	return [][]byte{append(text[:len(text)-1], `,"resource":`...), payload.text, []byte("}")}, nil
}

// payload gives the payload, nil if it is not to be sent.
func (o *OutgoingResource) payload(wrapped bool) (*Transcoded, error) {
	switch {
	case wrapped && (o.Heartbeat || !o.Resource.HasPayload()):
		return nil, nil
	case o.Heartbeat:
		return nil, errNoPayload // bare, it would say nothing
	case o.Transcoded != nil:
		return o.Transcoded, nil
	default:
		return transcode(o.Resource)
	}
}

// head gives everything of the Resource but its payload: version, aliases and
// whatever else the server sent with it. Without a version of the server's the
// digest is in there (ACK-4).
func (o *OutgoingResource) head(s *survey) ([]byte, error) {
	whole := new(discoveryv3.Resource)
	if proto.Unmarshal(o.Resource.Raw(), whole) != nil {
		return nil, errBroken
	}
	whole.Resource = nil
	whole.Aliases = slices.DeleteFunc(whole.GetAliases(), func(alias string) bool { return slices.Contains(o.Without, alias) })
	if o.Name != "" {
		named := whole.GetResourceName()
		if named != nil {
			named.Name = o.Name
		}
		if named == nil || whole.GetName() != "" { // only one of them may be set
			whole.Name = o.Name
		}
	}
	if o.TTL != nil {
		whole.Ttl = durationpb.New(*o.TTL)
	}
	return toJSON(whole, s)
}
