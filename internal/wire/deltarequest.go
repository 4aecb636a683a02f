package wire

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of envoy.service.discovery.v3.DeltaDiscoveryRequest.
const (
	fieldDeltaNode        protowire.Number = 1
	fieldDeltaTypeURL     protowire.Number = 2
	fieldDeltaSubscribe   protowire.Number = 3
	fieldDeltaUnsubscribe protowire.Number = 4
	fieldDeltaVersions    protowire.Number = 5
	fieldDeltaNonce       protowire.Number = 6
	fieldDeltaError       protowire.Number = 7
	fieldDeltaLocators    protowire.Number = 8
	fieldDeltaUnlocators  protowire.Number = 9
)

// DeltaRequest is an incremental request as a client sent it. It is a target of [Codec],
// and is to be released.
type DeltaRequest struct {
	Request
	// Subscribe and Unsubscribe are names, each in memory of its own.
	Subscribe, Unsubscribe []string
	// SubscribeLocators and UnsubscribeLocators are names with dynamic parameters or without (Words).
	SubscribeLocators, UnsubscribeLocators []*discoveryv3.ResourceLocator
	// Versions are valid until the request is released (RES-11).
	Versions Versions
}

// Decode replaces r by what the encoded DeltaDiscoveryRequest b says. It accepts what
// proto.Unmarshal accepts up to [MaxNames], and a node that this does not: [Request.Node] tells. Details of
// an error may be anything. Node and Versions lie in b, which must not change as long as they are used. The error is a
// [*DecodeError], of which nothing of r may be used.
func (r *DeltaRequest) Decode(b []byte) error {
	*r = DeltaRequest{}
	names := nameCount{bytes: len(b)}
	it := fields{rest: b}
	for {
		it.rest = it.rest[r.Versions.takeUsual(it.rest):]
		if !it.next() {
			break
		}
		if it.typ != protowire.BytesType { // every field we know is length-delimited
			continue
		}
		if err := r.take(&names, &it.field); err != nil {
			return within("", err)
		}
	}
	if it.err == nil {
		it.err = within("initial_resource_versions", r.Versions.check())
	}
	return within("", it.err)
}

// Release carries out [Request.Release].
func (r *DeltaRequest) Release() {
	r.Versions = Versions{}
	r.Request.Release()
}

// refers implements request.
func (r *DeltaRequest) refers() bool { return r.Request.refers() || r.Versions.count > 0 }

// take decodes one field.
func (r *DeltaRequest) take(names *nameCount, f *field) error {
	switch f.num {
	case fieldDeltaNode:
		r.takeNode(f)
	case fieldDeltaTypeURL:
		return r.takeTypeURL(f.body)
	case fieldDeltaSubscribe:
		return names.add(&r.Subscribe, "resource_names_subscribe", f.body)
	case fieldDeltaUnsubscribe:
		return names.add(&r.Unsubscribe, "resource_names_unsubscribe", f.body)
	case fieldDeltaVersions:
		return within("initial_resource_versions", r.Versions.take(f))
	case fieldDeltaNonce:
		return setString(&r.Nonce, "response_nonce", f.body)
	case fieldDeltaError:
		return r.takeRejection(f.body)
	case fieldDeltaLocators:
		return names.addLocator(&r.SubscribeLocators, "resource_locators_subscribe", f.body)
	case fieldDeltaUnlocators:
		return names.addLocator(&r.UnsubscribeLocators, "resource_locators_unsubscribe", f.body)
	}
	return nil
}
