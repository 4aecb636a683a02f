package payload

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	// What is shown as JSON can only be read with its type at hand.
	_ "github.com/xdsrelay/xdsrelay/internal/xds/apitypes"
)

// Unknown says how a payload is shown, at the top or within another, that cannot
// be looked into: because its type is not linked into this build, or because its
// bytes are not what its type says.
type Unknown int

const (
	// BySize shows its type and its size, and none of its bytes: they may hold
	// secrets (OPS-6).
	BySize Unknown = iota
	// AsBase64 shows its bytes in base64, for clients, which see all that the server sends
	// anyway.
	AsBase64
)

// redacted stands where something secret was.
const redacted = "[redacted]"

// Why something is shown by its size. An error's own words could quote what is
// not to be shown.
const (
	unknownType = "of a type that this build does not know"
	broken      = "not what its type says"
	tooDeep     = "nested too deep to be looked into"
	unshowable  = "cannot be written as JSON"
)

// JSON gives what r holds in protobuf's own JSON mapping, compact, without what
// is secret. typeURL is the type of the response or the table that r is of: a
// resource of secrets is one whatever its payload claims to be. The result is
// nil if r is nil or has no payload; it is valid JSON for any payload at all.
func (t *Secrets) JSON(r *wire.Resource, typeURL string, unknown Unknown) json.RawMessage {
	if r == nil || !r.HasPayload() {
		return nil
	}
	if t.Has(typeURL) || t.Has(r.TypeURL()) {
		return encode(redaction(r.TypeURL()))
	}
	packed := new(anypb.Any)
	if err := proto.Unmarshal(r.Any(), packed); err != nil {
		return encode(unknown.hide(r.TypeURL(), r.Any(), broken))
	}
	size := len(packed.GetValue())
	if instead := (view{unknown, t}).redactPayload(packed, 0); instead != nil {
		return encode(instead)
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(packed)
	if err != nil { // a Duration out of range, for instance
		if unknown == BySize {
			return encode(bySize(packed.GetTypeUrl(), size, unshowable))
		}
		return encode(asBase64(packed.GetTypeUrl(), packed.GetValue())) // redacted already
	}
	// protojson puts spaces in at random, lest anybody rely on them.
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return encode(bySize(packed.GetTypeUrl(), size, unshowable))
	}
	return b.Bytes()
}

// standIn is the JSON object shown instead of a payload. It is a map because
// payloads within payloads need it as a Struct.
type standIn map[string]any

// hide gives the stand-in for bytes that cannot be looked into.
func (u Unknown) hide(typeURL string, value []byte, why string) standIn {
	if u == AsBase64 {
		return asBase64(typeURL, value)
	}
	return bySize(typeURL, len(value), why)
}

func redaction(typeURL string) standIn {
	return standIn{"@type": typeURL, "redacted": redacted}
}

func bySize(typeURL string, size int, why string) standIn {
	return standIn{"@type": typeURL, "bytes": size, "note": why}
}

func asBase64(typeURL string, value []byte) standIn {
	s := standIn{"@type": typeURL}
	if len(value) > 0 {
		s["value"] = base64.StdEncoding.EncodeToString(value)
	}
	return s
}

func encode(s standIn) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		return nil // strings and numbers can always be encoded
	}
	return b
}
