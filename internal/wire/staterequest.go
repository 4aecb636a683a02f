package wire

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of envoy.service.discovery.v3.DiscoveryRequest.
const (
	fieldRequestVersion  protowire.Number = 1
	fieldRequestNode     protowire.Number = 2
	fieldRequestNames    protowire.Number = 3
	fieldRequestTypeURL  protowire.Number = 4
	fieldRequestNonce    protowire.Number = 5
	fieldRequestError    protowire.Number = 6
	fieldRequestLocators protowire.Number = 7
)

// StateRequest is a state-of-the-world request as a client sent it. It is a target of
// [Codec], and is to be released.
type StateRequest struct {
	Request
	VersionInfo string
	// Names are resource_names, each in memory of its own.
	Names []string
	// Locators are names with dynamic parameters or without (Words).
	Locators []*discoveryv3.ResourceLocator
}

// Decode replaces r by what the encoded DiscoveryRequest b says, as
// [DeltaRequest.Decode] does.
func (r *StateRequest) Decode(b []byte) error {
	*r = StateRequest{}
	names := nameCount{bytes: len(b)}
	it := fields{rest: b}
	for it.next() {
		if it.typ != protowire.BytesType { // every field we know is length-delimited
			continue
		}
		if err := r.take(&names, &it.field); err != nil {
			return within("", err)
		}
	}
	return within("", it.err)
}

// take decodes one field.
func (r *StateRequest) take(names *nameCount, f *field) error {
	switch f.num {
	case fieldRequestVersion:
		return setString(&r.VersionInfo, "version_info", f.body)
	case fieldRequestNode:
		r.takeNode(f)
	case fieldRequestNames:
		return names.add(&r.Names, "resource_names", f.body)
	case fieldRequestTypeURL:
		return r.takeTypeURL(f.body)
	case fieldRequestNonce:
		return setString(&r.Nonce, "response_nonce", f.body)
	case fieldRequestError:
		return r.takeRejection(f.body)
	case fieldRequestLocators:
		return names.addLocator(&r.Locators, "resource_locators", f.body)
	}
	return nil
}
