package restjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Outgoing is a DiscoveryResponse for one client.
type Outgoing struct {
	VersionInfo, TypeURL, Nonce string
	Resources                   []OutgoingResource
	// Wrapped puts each resource into an envoy.service.discovery.v3.Resource
	// (RES-13). It is for clients whose node announces
	// xds.config.supports-resource-in-sotw; without it they get payloads only.
	Wrapped bool
}

// OutgoingResource is a resource as one client gets it. Only Resource matters
// unless resources are wrapped.
type OutgoingResource struct {
	Resource *wire.Resource
	// Name is the spelling that the client asked with (NAME-4), "" for the server's.
	Name string
	// TTL is what is left for the client (TTL-2), nil for none. That the client
	// announced xds.config.supports-resource-ttl is for the caller to see to (TTL-1).
	TTL *time.Duration
	// Heartbeat leaves the payload out (TTL-3).
	Heartbeat bool
}

// EncodeError says that a resource cannot be written as JSON. Its text quotes
// nothing of the payload but the name of a type (OPS-6), and is fit for the client.
type EncodeError struct {
	// Name and TypeURL are the resource's.
	Name, TypeURL string
	// Err says why.
	Err error
}

func (e *EncodeError) Error() string {
	return fmt.Sprintf("resource %q of type %q cannot be sent as JSON: %v", e.Name, e.TypeURL, e.Err)
}

// Unwrap gives the cause.
func (e *EncodeError) Unwrap() error { return e.Err }

// Encoded is a DiscoveryResponse as JSON.
type Encoded struct {
	// Body is compact, and ends with a newline.
	Body []byte
	// Lossy names the resources with a field that this build does not know, which
	// JSON cannot carry (VAR-8), in the order of the response.
	Lossy []string
}

// envelope is a DiscoveryResponse. It is put together here, and not by protojson,
// so that an error is that of one resource.
type envelope struct {
	VersionInfo string            `json:"versionInfo,omitempty"`
	Resources   []json.RawMessage `json:"resources,omitempty"`
	TypeURL     string            `json:"typeUrl,omitempty"`
	Nonce       string            `json:"nonce,omitempty"`
}

// EncodeResponse writes a response in proto3's canonical JSON. It gives an
// [*EncodeError] if there is a resource that cannot be written: of a type that
// this build does not know, or with such a type within, or not what its type says.
func EncodeResponse(o *Outgoing) (*Encoded, error) {
	e := envelope{VersionInfo: o.VersionInfo, TypeURL: o.TypeURL, Nonce: o.Nonce}
	e.Resources = make([]json.RawMessage, len(o.Resources))
	encoded := new(Encoded)
	for i := range o.Resources {
		r := &o.Resources[i]
		text, lossy, err := r.encode(o.Wrapped)
		if err != nil {
			return nil, &EncodeError{Name: r.Resource.Name, TypeURL: r.Resource.TypeURL, Err: err}
		}
		e.Resources[i] = text
		if lossy {
			encoded.Lossy = append(encoded.Lossy, r.Resource.Name)
		}
	}
	var b bytes.Buffer
	// It also takes out the spaces that protojson puts in at random.
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(&e); err != nil {
		return nil, errors.New("restjson: the response cannot be written as JSON") // encoding/json would quote it
	}
	encoded.Body = b.Bytes()
	return encoded, nil
}

func (o *OutgoingResource) encode(wrapped bool) (text []byte, lossy bool, err error) {
	var packed *anypb.Any
	if wrapped {
		packed, err = o.wrap()
	} else {
		packed, err = o.bare()
	}
	if err != nil {
		return nil, false, err
	}
	var s survey
	if err := s.payload(packed, 0); err != nil {
		return nil, false, err
	}
	text, err = protojson.Marshal(packed)
	if err != nil {
		// A Duration out of range, for instance. The error's own words could quote it.
		return nil, false, errors.New("it holds a value that JSON has no form for")
	}
	return text, s.unknown, nil
}

var (
	errNoPayload = errors.New("it has no payload")
	errBroken    = errors.New("it is broken") // wire has checked it: cannot happen
)

func (o *OutgoingResource) bare() (*anypb.Any, error) {
	if o.Heartbeat || !o.Resource.HasPayload() {
		return nil, errNoPayload
	}
	packed := new(anypb.Any)
	if proto.Unmarshal(o.Resource.Any(), packed) != nil {
		return nil, errBroken
	}
	return packed, nil
}

// wrap gives the whole Resource: version, aliases and whatever else the server
// sent with it. Without a version of the server's the digest is in there (ACK-4).
func (o *OutgoingResource) wrap() (*anypb.Any, error) {
	whole := new(discoveryv3.Resource)
	if proto.Unmarshal(o.Resource.Raw(), whole) != nil {
		return nil, errBroken
	}
	if o.Name != "" {
		whole.Name = o.Name
		if named := whole.GetResourceName(); named != nil {
			named.Name = o.Name
		}
	}
	if o.TTL != nil {
		whole.Ttl = durationpb.New(*o.TTL)
	}
	if o.Heartbeat {
		whole.Resource = nil
	}
	packed := new(anypb.Any)
	if packed.MarshalFrom(whole) != nil {
		return nil, errBroken
	}
	return packed, nil
}
