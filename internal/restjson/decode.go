package restjson

import (
	"encoding/json"
	"errors"
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// decodeResponse reads the JSON of a response for a type.
func decodeResponse(body []byte, typeURL string) (*Response, error) {
	decoded, discarded, err := unmarshal(body)
	if err != nil {
		return nil, locate(body, err)
	}
	r := &Response{Discarded: discarded, Response: wire.Response{
		State: true, Version: decoded.GetVersionInfo(), TypeURL: typeURL, Nonce: decoded.GetNonce(),
		ControlPlane: wire.CutIdentifier(decoded.GetControlPlane().GetIdentifier()),
	}}
	undecodable := func(index int, format string, args ...any) error {
		return &UndecodableError{
			VersionInfo: r.Version, Nonce: r.Nonce,
			Index: index, Reason: fmt.Sprintf(format, args...),
		}
	}
	if given := decoded.GetTypeUrl(); given != "" && given != typeURL {
		return nil, undecodable(-1, "its type_url is %q, and %q was asked for", shorten(given, 200), typeURL)
	}
	r.Resources = make([]*wire.Resource, 0, len(decoded.GetResources()))
	for i, packed := range decoded.GetResources() {
		res, err := newResource(packed, typeURL)
		switch {
		case err == nil:
			r.Resources = append(r.Resources, res)
		case !errors.Is(err, wire.ErrUnnamed):
			return nil, undecodable(i, "%v", err)
		case len(r.Unnamed) < maxUnnamed:
			r.Unnamed = append(r.Unnamed, fmt.Errorf("resources[%d]: %w", i, err))
		}
	}
	for i, e := range decoded.GetResourceErrors() {
		made, err := wire.NewResourceError(e)
		if err != nil {
			return nil, undecodable(-1, "resource_errors[%d]: %v", i, err)
		}
		r.Errors = append(r.Errors, made)
	}
	return r, nil
}

// unmarshal reads a response, what this build knows of it. Strictness comes first,
// so that what is left out can be told.
func unmarshal(body []byte) (decoded *discoveryv3.DiscoveryResponse, discarded string, err error) {
	decoded = new(discoveryv3.DiscoveryResponse)
	strict := protojson.UnmarshalOptions{RecursionLimit: maxNesting}.Unmarshal(body, decoded)
	if strict == nil {
		return decoded, "", nil
	}
	decoded = new(discoveryv3.DiscoveryResponse)
	if err := (protojson.UnmarshalOptions{RecursionLimit: maxNesting, DiscardUnknown: true}).Unmarshal(body, decoded); err != nil {
		return nil, "", err
	}
	return decoded, problem(strict), nil
}

// locate says which resource made a response undecodable, and takes out of it what
// a NACK needs. It reads again what protojson has no answer for.
func locate(body []byte, cause error) error {
	e := &UndecodableError{Index: -1, Reason: problem(cause)}
	var read struct {
		VersionInfo  any               `json:"versionInfo"`
		OriginalName any               `json:"version_info"` // JSON of protobuf has either
		Nonce        any               `json:"nonce"`
		Resources    []json.RawMessage `json:"resources"`
	}
	if json.Unmarshal(body, &read) != nil {
		return e // not even JSON
	}
	e.Nonce, _ = read.Nonce.(string)
	if e.VersionInfo, _ = read.VersionInfo.(string); e.VersionInfo == "" {
		e.VersionInfo, _ = read.OriginalName.(string)
	}
	options := protojson.UnmarshalOptions{RecursionLimit: maxNesting, DiscardUnknown: true}
	for i, text := range read.Resources {
		if err := options.Unmarshal(text, new(anypb.Any)); err != nil {
			e.Index, e.Reason = i, problem(err)
			return e
		}
	}
	return e
}

var errNotTyped = errors.New("it has no type")

// maxUnnamed is how many resources without a name are told of: all have the same fault.
const maxUnnamed = 8

// newResource makes the stored form of one resource of a response for a type.
func newResource(packed *anypb.Any, typeURL string) (*wire.Resource, error) {
	switch given := packed.GetTypeUrl(); {
	case given == "":
		return nil, errNotTyped
	case given != wire.ResourceTypeURL && !wire.MayHold(typeURL, given):
		return nil, fmt.Errorf("its type is %q, and %q was asked for", shorten(given, 200), typeURL)
	}
	r, err := wire.NewStateResource(packed)
	if undecodable, ok := errors.AsType[*wire.DecodeError](err); ok {
		return nil, undecodable.Err // the field is one of bytes, which JSON has not
	}
	return r, err
}
