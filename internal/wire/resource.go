package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
	"unsafe"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// digestLen is the number of bytes of SHA-256 that make a digest. 128 bits keep
// accidental collisions out of reach and the string, which clients list in
// initial_resource_versions, short.
const digestLen = 16

// Resource is one resource as a server sent it: cut out of a message once,
// copied into one allocation of its own (see the package comment), then
// immutable and shared by every response that holds it. All methods may be
// called from any goroutine. Fields are set by this package and only read by
// others.
type Resource struct {
	// Name is the server's spelling: name, or resource_name.name where that is empty.
	// It lies in the resource's bytes: who keeps it keeps all of them.
	Name string
	// Version is the server's, "" if it gave none; see Digest (ACK-4). It lies in the
	// resource's bytes too.
	Version string

	// framed holds the stored form. *mem.SliceBuffer is itself a mem.Buffer, so
	// that a response refers to the field and no interface value needs memory.
	framed mem.SliceBuffer
	rare   *rare // nil as almost always

	// Offsets into framed: where the bytes begin that every spelling of the name
	// shares, and the tag of the payload, which is the end if there is none. No
	// protobuf message is larger than they can say.
	tail, payload uint32
	// named is how many bytes of resource_name lie behind tail, -1 if the
	// resource has none.
	named int32

	// HasTTL says that the server gave a ttl.
	HasTTL bool
	// DoNotCache is cache_control.do_not_cache (TTL-5).
	DoNotCache bool

	marks     marks
	endpoints edsName // where the name of a cluster's endpoints stands
}

// marks are truths about a resource, in one byte: there may be millions of resources.
type marks uint8

const (
	nameless marks = 1 << iota // the name is in resource_name (field 8) alone
	restored                   // from an earlier process, see Restore
)

// rare is what few resources have.
type rare struct {
	aliases []string
	ttl     time.Duration
}

// Aliases are other names of the resource (RES-10). They must not be changed.
func (r *Resource) Aliases() []string {
	if r.rare == nil {
		return nil
	}
	return r.rare.aliases
}

// TTL is the server's if HasTTL, else 0. It is not part of the stored bytes (TTL-1).
func (r *Resource) TTL() time.Duration {
	if r.rare == nil {
		return 0
	}
	return r.rare.ttl
}

// TypeURL is the payload's, "" without payload. It lies in the resource's bytes: who
// keeps it keeps all of them.
func (r *Resource) TypeURL() string {
	payload := r.Any()
	if typeURL, ok := onlyTypeURL(payload); ok {
		return view(typeURL)
	}
	var typeURL []byte
	for it := (fields{rest: payload}); it.next(); {
		if it.is(fieldAnyTypeURL, protowire.BytesType) {
			typeURL = it.body
		}
	}
	return view(typeURL)
}

// onlyTypeURL reads the type of an Any that is laid out as everybody lays it out: a type
// of up to 127 bytes, then a value, and nothing else.
func onlyTypeURL(b []byte) (typeURL []byte, ok bool) {
	const typeTag, valueTag = byte(fieldAnyTypeURL<<3) | byte(protowire.BytesType), byte(fieldAnyValue<<3) | byte(protowire.BytesType)
	if len(b) < 2 || b[0] != typeTag || b[1] >= 0x80 || len(b) < 2+int(b[1]) {
		return nil, false
	}
	typeURL, rest := b[2:2+b[1]], b[2+b[1]:]
	if len(rest) == 0 {
		return typeURL, true
	}
	_, n := protowire.ConsumeBytes(rest[1:])
	return typeURL, rest[0] == valueTag && n == len(rest)-1
}

// view makes a string of bytes that never change, without a copy.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // stored bytes never change
}

// NewResource makes a Resource of the generated type, for sources that do not
// speak the incremental protocol. It does not keep p. It returns an error if a
// string of p is not valid UTF-8.
func NewResource(p *discoveryv3.Resource) (*Resource, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("wire: encode resource %q: %w", p.GetName(), err)
	}
	var c cutter
	return c.cut(b)
}

// NewPayload makes a Resource of a payload, an encoded google.protobuf.Any, that came
// inside something else, marked as not to be cached if that was (TTL-5). It does not
// keep payload. It returns an error if that, or one of the strings, is not valid.
func NewPayload(name, version string, payload []byte, doNotCache bool) (*Resource, error) {
	b := appendStringField(nil, fieldVersion, version)
	b = append(appendBytesTag(b, fieldAny, len(payload)), payload...)
	b = appendStringField(b, fieldName, name)
	if doNotCache {
		b = appendBytesTag(b, fieldCacheControl, 2)
		b = protowire.AppendTag(b, fieldDoNotCache, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	var c cutter
	r, err := c.cut(b)
	if err != nil {
		return nil, fmt.Errorf("wire: resource %q: %w", name, err)
	}
	return r, nil
}

// WithoutTTL gives the resource without its ttl. The bytes are shared.
func (r *Resource) WithoutTTL() *Resource {
	if !r.HasTTL {
		return r
	}
	timeless := *r
	timeless.rare, timeless.HasTTL = &rare{aliases: r.Aliases()}, false
	return &timeless
}

// Without gives the resource without some of its aliases, and then without its ttl. Without none it is the
// resource itself.
func (r *Resource) Without(aliases []string) *Resource {
	if len(aliases) == 0 {
		return r
	}
	raw := r.Raw()
	b := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		number, kind, tag := protowire.ConsumeTag(raw)
		n := protowire.ConsumeFieldValue(number, kind, raw[max(tag, 0):])
		if tag < 0 || n < 0 {
			break // stored bytes are well formed
		}
		field, value := raw[:tag+n], raw[tag:tag+n]
		raw = raw[tag+n:]
		if number == fieldAliases && kind == protowire.BytesType {
			if alias, _ := protowire.ConsumeBytes(value); slices.Contains(aliases, string(alias)) {
				continue
			}
		}
		b = append(b, field...)
	}
	var c cutter
	fewer, err := c.cut(b)
	if err != nil {
		panic(fmt.Sprintf("wire: a stored resource cannot be read: %v", err)) // it was read before, and r has all aliases
	}
	if r.Restored() {
		return fewer.AsRestored()
	}
	return fewer
}

// HasPayload tells whether the resource field was present. Without it this is
// a heartbeat or, from older servers, a removal (RES-16).
func (r *Resource) HasPayload() bool { return int(r.payload) < len(r.framed) }

// Raw returns the encoded Resource without its ttl, the payload last. Where
// the server gave no version it holds the digest as version (ACK-4). The bytes
// are shared: they must not be changed.
func (r *Resource) Raw() []byte { return contents(r.framed) }

// FramedAny returns the payload with the tag and length that it has in
// Resource and in a state-of-the-world DiscoveryResponse alike (both are field
// 2), nil without payload. The bytes are shared and must not be changed.
func (r *Resource) FramedAny() []byte {
	if !r.HasPayload() {
		return nil
	}
	return r.framed[r.payload:len(r.framed):len(r.framed)]
}

// Any returns the encoded google.protobuf.Any exactly as the server sent it
// (VAR-8), nil without payload. The bytes are shared and must not be changed.
func (r *Resource) Any() []byte {
	if !r.HasPayload() {
		return nil
	}
	return contents(r.FramedAny())
}

// contents takes tag and length off a field of the stored form.
func contents(framed []byte) []byte {
	_, n := protowire.ConsumeVarint(framed[1:])
	return framed[1+n : len(framed) : len(framed)]
}

// Size is the number of bytes that the resource takes in a response, its own
// tag and length included.
func (r *Resource) Size() int { return len(r.framed) }

// SameContent tells whether the resources are equal byte for byte, their ttl
// aside. Equal resources of which a server encoded one differently count as different.
func (r *Resource) SameContent(o *Resource) bool {
	return r == o || bytes.Equal(r.framed, o.framed)
}

// Digest is a hash of the payload in hexadecimal digits: the version that a
// resource has for clients if its server gave none, the same in every replica
// (ACK-4). It is "" without payload.
func (r *Resource) Digest() string {
	switch {
	case !r.HasPayload():
		return ""
	case r.Version == "": // then it stands in the stored bytes as the version
		return string(r.framed[r.payload-2*digestLen : r.payload])
	}
	var text [2 * digestLen]byte
	encodeDigest(text[:], r.Any())
	return string(text[:])
}

// Shown is the version that clients are shown: the server's, or the digest if it gave
// none (ACK-4). It lies in the resource's bytes, as Version does.
func (r *Resource) Shown() string {
	if r.Version != "" || !r.HasPayload() {
		return r.Version
	}
	return view(r.framed[r.payload-2*digestLen : r.payload])
}

// encodeDigest writes the digest of payload into dst, which has room for 2×digestLen bytes.
func encodeDigest(dst, payload []byte) {
	sum := sha256.Sum256(payload)
	hex.Encode(dst, sum[:digestLen])
}

func (r *Resource) bodySizeAs(name string) int {
	n := len(r.framed) - int(r.tail)
	if r.marks&nameless == 0 {
		n += sizeBytesField(len(name))
	}
	if r.named >= 0 {
		// What lies behind tail is counted already.
		n += sizeBytesField(r.namedSizeAs(name)) - int(r.named)
	}
	return n
}

// namedSizeAs is the size of resource_name's content under another name.
func (r *Resource) namedSizeAs(name string) int { return sizeBytesField(len(name)) + int(r.named) }

// appendNameAs appends the fields before the shared bytes that hold the name, when
// the resource goes out under another one (NAME-4).
func (r *Resource) appendNameAs(b []byte, name string) []byte {
	if r.marks&nameless == 0 {
		b = append(appendBytesTag(b, fieldName, len(name)), name...)
	}
	if r.named >= 0 {
		b = appendBytesTag(b, fieldResourceName, r.namedSizeAs(name))
		b = append(appendBytesTag(b, fieldNameName, len(name)), name...)
	}
	return b
}
