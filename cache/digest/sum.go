package digest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"slices"
	"strings"
)

// Sum is the digest of a set: the digests of its members, added up modulo 2¹²⁸. The
// order of the members does not matter. A member is added or removed in one step, so a
// change costs the same whatever the size of the set (ACK-4). The zero value is the
// digest of the empty set.
type Sum struct{ hi, lo uint64 }

// Of returns the digest of a list of words. Other words, or the same words split in
// other places, have another digest.
func Of(words ...string) Sum {
	var room [256]byte
	b := room[:0]
	for _, w := range words {
		b = binary.AppendUvarint(b, uint64(len(w)))
		b = append(b, w...)
	}
	h := sha256.Sum256(b)
	return Sum{binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:16])}
}

// Plus returns the digest of the members of both sets.
func (s Sum) Plus(o Sum) Sum {
	lo, carry := bits.Add64(s.lo, o.lo, 0)
	hi, _ := bits.Add64(s.hi, o.hi, carry)
	return Sum{hi, lo}
}

// Minus returns the digest of s without the members of o, which must be in s.
func (s Sum) Minus(o Sum) Sum {
	lo, borrow := bits.Sub64(s.lo, o.lo, 0)
	hi, _ := bits.Sub64(s.hi, o.hi, borrow)
	return Sum{hi, lo}
}

const (
	// digits is how many a sum has as a version.
	digits = 32
	// maxLabel bounds what of a server's version stands before it, in bytes.
	maxLabel = 64
)

// String returns the sum as a version: 32 hexadecimal digits, the same in every replica.
func (s Sum) String() string { return s.Behind("") }

// Behind returns the sum as a version behind a label.
func (s Sum) Behind(label string) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], s.hi)
	binary.BigEndian.PutUint64(b[8:], s.lo)
	var room [maxLabel + 1 + digits]byte
	return string(hex.AppendEncode(append(room[:0], label...), b[:]))
}

// Plain returns a version that is a digest without its label, and others as they are.
func Plain(version string) string {
	at := len(version) - digits
	if at <= 0 || version[at-1] != '/' || strings.Trim(version[at:], "0123456789abcdef") != "" {
		return version
	}
	return version[at:]
}

// Join returns the version of a whole whose parts have these versions. It does not
// depend on the order of the parts, nor on labels (ACK-4). One part alone has its own version.
func Join(versions []string) string {
	if len(versions) == 1 {
		return versions[0]
	}
	plain := make([]string, len(versions))
	for i, v := range versions {
		plain[i] = Plain(v)
	}
	slices.Sort(plain)
	return Of(plain...).String()
}
