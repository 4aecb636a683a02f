package wire

import (
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Field numbers of envoy.service.discovery.v3.Resource and of the messages in it.
const (
	fieldVersion      protowire.Number = 1
	fieldAny          protowire.Number = 2
	fieldName         protowire.Number = 3
	fieldAliases      protowire.Number = 4
	fieldTTL          protowire.Number = 6
	fieldCacheControl protowire.Number = 7
	fieldResourceName protowire.Number = 8
	fieldMetadata     protowire.Number = 9

	fieldAnyTypeURL      protowire.Number = 1
	fieldDurationSeconds protowire.Number = 1
	fieldDurationNanos   protowire.Number = 2
	fieldDoNotCache      protowire.Number = 1
	fieldNameName        protowire.Number = 1
)

// cutter makes Resources of encoded ones. It belongs to one goroutine and one
// response: its scratch memory refers to the input between calls.
type cutter struct {
	// What scan found in the resource at hand. A field that comes more than once
	// means what protobuf says: the last of a string, all of a message merged,
	// which is to say one after the other.
	version, name, inner []byte
	versionAt            int // in the resource
	aliases              [][]byte
	rest                 []span   // kept as they are
	payload              [][]byte // contents of the resource field
	named                [][]byte // resource_name but for its name
	hasNamed             bool
	anyTypeURL           []byte
	ttl                  durationpb.Duration
	hasTTL, doNotCache   bool
}

// span is a run of neighbouring fields in the resource being cut.
type span struct{ from, to int }

// cut copies the encoded resource b into a Resource. It does not keep b.
func (c *cutter) cut(b []byte) (*Resource, error) {
	c.reset()
	if err := c.scan(b); err != nil {
		return nil, err
	}
	return c.finish(b), nil
}

// finish makes the Resource of what scan found in b.
func (c *cutter) finish(b []byte) *Resource {
	r := &Resource{HasTTL: c.hasTTL, DoNotCache: c.doNotCache}
	if c.hasTTL || len(c.aliases) > 0 {
		r.rare = c.rarities()
	}
	c.store(r, b)
	return r
}

func (c *cutter) reset() {
	c.version, c.name, c.inner, c.anyTypeURL = nil, nil, nil, nil
	c.aliases, c.rest, c.payload, c.named = c.aliases[:0], c.rest[:0], c.payload[:0], c.named[:0]
	c.ttl.Seconds, c.ttl.Nanos = 0, 0
	c.versionAt, c.hasNamed, c.hasTTL, c.doNotCache = 0, false, false, false
}

// scan notes where everything is and checks what proto.Unmarshal would check.
func (c *cutter) scan(b []byte) error {
	to := 0
	it := fields{rest: b}
	for it.next() {
		from := to
		to += len(it.raw)
		keep, err := c.take(&it.field)
		if err != nil {
			return err
		}
		if it.is(fieldVersion, protowire.BytesType) {
			c.versionAt = to - len(it.body)
		}
		switch last := len(c.rest) - 1; {
		case !keep:
		case last >= 0 && c.rest[last].to == from:
			c.rest[last].to = to
		default:
			c.rest = append(c.rest, span{from, to})
		}
	}
	return it.err
}

// take looks at one field and tells whether it is to be kept where it is.
func (c *cutter) take(f *field) (keep bool, err error) {
	if f.typ != protowire.BytesType {
		return true, nil // every field we know is length-delimited
	}
	switch f.num {
	case fieldVersion:
		c.version = f.body
		return true, checkString("version", f.body)
	case fieldAny:
		c.payload = append(c.payload, f.body)
		return false, c.takeAny(f.body)
	case fieldName:
		c.name = f.body
		return false, checkString("name", f.body)
	case fieldAliases:
		c.aliases = append(c.aliases, f.body)
		return true, checkString("aliases", f.body)
	case fieldTTL:
		c.hasTTL = true
		return false, c.takeTTL(f.body)
	case fieldCacheControl:
		return true, c.takeCacheControl(f.body)
	case fieldResourceName:
		c.hasNamed = true
		return false, c.takeResourceName(f.body)
	case fieldMetadata:
		return true, checkMessage("metadata", f.body, new(corev3.Metadata), resourceDepth)
	default:
		return true, nil
	}
}

// takeAny reads nothing of the payload but its type.
func (c *cutter) takeAny(b []byte) error {
	it := fields{rest: b}
	for it.next() {
		if !it.is(fieldAnyTypeURL, protowire.BytesType) {
			continue
		}
		c.anyTypeURL = it.body
		if err := checkString("resource.type_url", it.body); err != nil {
			return err
		}
	}
	return within("resource", it.err)
}

func (c *cutter) takeTTL(b []byte) error {
	it := fields{rest: b}
	for it.next() {
		switch {
		case it.is(fieldDurationSeconds, protowire.VarintType):
			c.ttl.Seconds = int64(it.number)
		case it.is(fieldDurationNanos, protowire.VarintType):
			c.ttl.Nanos = int32(it.number)
		}
	}
	return within("ttl", it.err)
}

func (c *cutter) takeCacheControl(b []byte) error {
	it := fields{rest: b}
	for it.next() {
		if it.is(fieldDoNotCache, protowire.VarintType) {
			c.doNotCache = protowire.DecodeBool(it.number)
		}
	}
	return within("cache_control", it.err)
}

func (c *cutter) takeResourceName(b []byte) error {
	before := len(c.named)
	var err error
	if c.named, err = splitResourceName(b, &c.inner, c.named); err != nil {
		return within("resource_name", err)
	}
	if len(c.named) == before {
		return nil // a name and nothing else, as almost always
	}
	return checkMessage("resource_name", b, new(discoveryv3.ResourceName), resourceDepth)
}

// store lays out the stored form in one allocation of exactly its size.
func (c *cutter) store(r *Resource, b []byte) {
	hasPayload := len(c.payload) > 0
	needsDigest := hasPayload && len(c.version) == 0
	named, payload := sizeAll(c.named), sizeAll(c.payload)
	inner := sizeStringField(c.inner) + named

	size := sizeStringField(c.name)
	if c.hasNamed {
		size += sizeBytesField(inner)
	}
	for _, s := range c.rest {
		size += s.to - s.from
	}
	if needsDigest {
		size += sizeBytesField(2 * digestLen)
	}
	if hasPayload {
		size += sizeBytesField(payload)
	}

	out := make([]byte, 0, sizeBytesField(size))
	out = appendBytesTag(out, fieldResources, size)
	out = appendStringField(out, fieldName, c.name)
	r.Name = view(out[len(out)-len(c.name):])
	r.named = -1
	if c.hasNamed {
		r.named = int32(named)
		out = appendBytesTag(out, fieldResourceName, inner)
		out = appendStringField(out, fieldNameName, c.inner)
	}
	if len(c.name) == 0 && len(c.inner) > 0 {
		r.marks |= nameless
		r.Name = view(out[len(out)-len(c.inner):])
	}
	r.tail = uint32(len(out))
	out = appendAll(out, c.named)
	for _, s := range c.rest {
		out = append(out, b[s.from:s.to]...)
		if s.from < c.versionAt && c.versionAt < s.to {
			r.Version = view(out[len(out)-s.to+c.versionAt:][:len(c.version)])
		}
	}
	if needsDigest {
		// Behind the server's fields, so that an empty version among them is overruled.
		out = appendBytesTag(out, fieldVersion, 2*digestLen)
		out = out[:len(out)+2*digestLen]
	}
	r.payload = uint32(len(out))
	if hasPayload {
		out = appendBytesTag(out, fieldAny, payload)
		out = appendAll(out, c.payload)
	}
	r.framed = out
	r.endpoints = r.edsName()
	if needsDigest {
		encodeDigest(out[r.payload-2*digestLen:], r.Any())
	}
}

// rarities makes what few resources have.
func (c *cutter) rarities() *rare {
	r := &rare{ttl: c.ttl.AsDuration()}
	for _, a := range c.aliases {
		r.aliases = append(r.aliases, string(a))
	}
	return r
}

// splitResourceName sets name if the encoded ResourceName b has one, and
// appends its other fields to others.
func splitResourceName(b []byte, name *[]byte, others [][]byte) ([][]byte, error) {
	it := fields{rest: b}
	for it.next() {
		if !it.is(fieldNameName, protowire.BytesType) {
			others = append(others, it.raw)
			continue
		}
		*name = it.body
		if err := checkString("name", it.body); err != nil {
			return others, err
		}
	}
	return others, it.err
}

// The levels of nesting that a message within a response has above it. They
// are taken off the limit of its own, so that what is accepted here is not
// too deep for a client.
const (
	responseDepth = 1
	resourceDepth = 2
)

// checkMessage finds what is wrong with an encoded message that is rare enough
// to be decoded in full and passed on as it came.
func checkMessage(name string, b []byte, scratch proto.Message, depth int) error {
	return unmarshal(name, b, scratch, proto.UnmarshalOptions{RecursionLimit: protowire.DefaultRecursionLimit - depth})
}

// mergeMessage is checkMessage for a piece of a message that may come in several.
func mergeMessage(name string, b []byte, into proto.Message, depth int) error {
	return unmarshal(name, b, into, proto.UnmarshalOptions{RecursionLimit: protowire.DefaultRecursionLimit - depth, Merge: true})
}

func unmarshal(name string, b []byte, into proto.Message, o proto.UnmarshalOptions) error {
	if err := o.Unmarshal(b, into); err != nil {
		return &DecodeError{Field: name, Err: err}
	}
	return nil
}

func checkString(name string, b []byte) error {
	if !utf8.Valid(b) {
		return &DecodeError{Field: name, Err: ErrInvalidUTF8}
	}
	return nil
}

func appendAll(b []byte, parts [][]byte) []byte {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func sizeAll(parts [][]byte) int {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	return n
}
