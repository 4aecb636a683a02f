package wire

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// timed is the ttl of an addition.
type timed struct {
	addition int
	ttl      time.Duration
}

// AddTTL is AddAs with a ttl, which must be above zero: it stands in a head of the
// response's own, and the stored bytes are shared like those of any other
// resource (TTL-1).
func (b *Builder) AddTTL(r *Resource, name string, ttl time.Duration) {
	if name == r.Name {
		name = ""
	}
	b.add(r, name, ttl)
}

// AddHeartbeat adds a heartbeat (TTL-3): the name and the version under which the
// client was sent the content, a ttl above zero, and no payload. Both strings must
// be valid UTF-8, and the name not empty. Heartbeats stand before the resources,
// so that they are all in one run of the response's own bytes.
func (b *Builder) AddHeartbeat(name, version string, ttl time.Duration) {
	h := heartbeat{name, version, ttl}
	b.heartbeats = append(b.heartbeats, h)
	b.addOwn(sizeBytesField(h.size()))
}

type heartbeat struct {
	name, version string
	ttl           time.Duration
}

// size is that of the encoded Resource.
func (h *heartbeat) size() int {
	return sizeBytesField(len(h.name)) + sizeStringField(h.version) + sizeTTL(h.ttl)
}

func (h *heartbeat) append(b []byte) []byte {
	b = appendBytesTag(b, fieldResources, h.size())
	b = append(appendBytesTag(b, fieldName, len(h.name)), h.name...)
	b = appendStringField(b, fieldVersion, h.version)
	return appendTTL(b, h.ttl)
}

// sizeIn is what the resource takes in a response, under another name unless that
// is "", and with a ttl unless that is 0.
func (r *Resource) sizeIn(name string, ttl time.Duration) int {
	if name == "" && ttl == 0 {
		return r.Size()
	}
	return sizeBytesField(r.bodySizeIn(name, ttl))
}

func (r *Resource) bodySizeIn(name string, ttl time.Duration) int {
	if name != "" {
		return r.bodySizeAs(name) + sizeTTL(ttl)
	}
	return len(r.Raw()) + sizeTTL(ttl)
}

// sharedFrom is where the stored bytes begin that go out as they are.
func (r *Resource) sharedFrom(name string, ttl time.Duration) int {
	switch {
	case name != "":
		return int(r.tail)
	case ttl != 0:
		return len(r.framed) - len(r.Raw())
	default:
		return 0
	}
}

// appendHead appends what comes before those bytes. The ttl comes first: the order
// of fields is free, and so the server's spelling of the name stays shared.
func (r *Resource) appendHead(b []byte, name string, ttl time.Duration) []byte {
	if name == "" && ttl == 0 {
		return b
	}
	b = appendTTL(appendBytesTag(b, fieldResources, r.bodySizeIn(name, ttl)), ttl)
	if name != "" {
		b = r.appendNameAs(b, name)
	}
	return b
}

// sizeTTL and appendTTL leave the field out if the ttl is 0.
func sizeTTL(ttl time.Duration) int {
	if ttl == 0 {
		return 0
	}
	return sizeBytesField(sizeDuration(ttl))
}

func appendTTL(b []byte, ttl time.Duration) []byte {
	if ttl == 0 {
		return b
	}
	b = appendBytesTag(b, fieldTTL, sizeDuration(ttl))
	if s := ttl / time.Second; s != 0 {
		b = protowire.AppendTag(b, fieldDurationSeconds, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(s))
	}
	if n := ttl % time.Second; n != 0 {
		b = protowire.AppendTag(b, fieldDurationNanos, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(n))
	}
	return b
}

// sizeDuration is the size of an encoded google.protobuf.Duration.
func sizeDuration(d time.Duration) int {
	n := 0
	if s := d / time.Second; s != 0 {
		n += 1 + protowire.SizeVarint(uint64(s))
	}
	if ns := d % time.Second; ns != 0 {
		n += 1 + protowire.SizeVarint(uint64(ns))
	}
	return n
}
