package digest

import (
	"hash/maphash"
	"slices"
)

// historyLen is how many former contents a History remembers. An older version that
// comes again is believed.
const historyLen = 8

// History is what something held before: hashes of versions and contents, the youngest
// first. It finds out a version that stands for other content now, as with a server
// that counts versions and was restarted (ACK-4). Each of a million endpoints may have a
// History, so its hashes are short: it suspects a version by mistake once in 2²⁹ changes,
// which has a resource sent once more, and misses a version that is used again once in
// 2³² times. The zero value remembers nothing.
type History [historyLen]short

// short is a Content with shortened hashes.
type short struct{ version, bytes uint32 }

// Content is a version and the bytes it stands for, both hashed by one Hasher.
type Content struct{ Version, Bytes uint64 }

func (c Content) short() short { return short{uint32(c.Version), uint32(c.Bytes)} }

// Note remembers a content and forgets the oldest one.
func (h *History) Note(c Content) {
	copy(h[1:], h[:])
	h[0] = c.short()
}

// Has reports whether the version stood for just these bytes before.
func (h *History) Has(c Content) bool { return slices.Contains(h[:], c.short()) }

// Contradicts reports whether the version stood for other bytes before.
func (h *History) Contradicts(c Content) bool {
	is := c.short()
	for _, was := range h {
		if was.version == is.version && was.bytes != is.bytes {
			return true
		}
	}
	return false
}

// Hasher makes the hashes that are compared with each other. Hashers of one seed make
// the same hashes.
type Hasher struct{ seed maphash.Seed }

// NewHasher returns a Hasher of a seed.
func NewHasher(seed maphash.Seed) Hasher { return Hasher{seed} }

// Content hashes a version and the bytes that it stands for.
func (h Hasher) Content(version string, bytes []byte) Content {
	return Content{h.Version(version), h.Bytes(bytes)}
}

// Version hashes a version.
func (h Hasher) Version(version string) uint64 { return maphash.String(h.seed, version) }

// Bytes hashes the bytes of a content.
func (h Hasher) Bytes(bytes []byte) uint64 { return maphash.Bytes(h.seed, bytes) }

// Member hashes a member of a set with the hash of its content. A set has the sum of
// these hashes modulo 2⁶⁴.
func (h Hasher) Member(key string, bytes uint64) uint64 {
	return maphash.Comparable(h.seed, member{key, bytes})
}

type member struct {
	key   string
	bytes uint64
}
