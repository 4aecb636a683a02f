package wire

import (
	"maps"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of a map entry.
const (
	fieldEntryKey   protowire.Number = 1
	fieldEntryValue protowire.Number = 2
)

// Versions are the versions that a client presents by name (initial_resource_versions,
// RES-11), in one piece of memory: as they stood in the request, however many there
// are. Of a name that comes twice the last one counts, as in any protobuf map; who reads
// them has to see to that. The zero value has none.
type Versions struct {
	// encoded are fields of a DeltaDiscoveryRequest; those that are no versions are
	// passed over. They were checked.
	encoded []byte
	count   int
	longest int  // name, in bytes
	owned   bool // encoded is nobody else's and never changes
	odd     bool // some entry is not laid out as usual, or other fields are among them
	special bool // see Plain
}

// NewVersions gives those of a map, as the generated types have it. All must be valid
// UTF-8.
func NewVersions(byName map[string]string) Versions {
	var v Versions
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		v.Add(name, byName[name])
	}
	return v
}

// Len is how many there are, names that come twice included.
func (v *Versions) Len() int { return v.count }

// Size is about how many bytes names and versions have together, and never less.
func (v *Versions) Size() int { return len(v.encoded) }

// Plain reports whether all names have a byte and no more than some number, and none
// begins with an x or a NUL, as those do that say where they belong. It costs nothing.
func (v *Versions) Plain(longest int) bool { return !v.special && v.longest <= longest }

// Add adds one. Both must be valid UTF-8.
func (v *Versions) Add(name, version string) {
	if !v.owned {
		*v = v.Clone()
	}
	size := sizeEntry(name, version)
	v.encoded = appendEntry(appendBytesTag(v.encoded, fieldDeltaVersions, size), name, version)
	v.odd = v.odd || size >= 0x80
	v.note(name)
}

// AppendVersion appends the Entry of a name and its version.
func AppendVersion(b []byte, name, version string) []byte { return appendEntry(b, name, version) }

func appendEntry[S string | []byte](b []byte, name, version S) []byte {
	b = append(appendBytesTag(b, fieldEntryKey, len(name)), name...)
	return append(appendBytesTag(b, fieldEntryValue, len(version)), version...)
}

func sizeEntry[S string | []byte](name, version S) int {
	return sizeBytesField(len(name)) + sizeBytesField(len(version))
}

// note counts one more.
func (v *Versions) note(name string) {
	v.count++
	v.longest = max(v.longest, len(name))
	v.special = v.special || name == "" || isSpecial(name[0])
}

// isSpecial reports whether a name may say where it belongs that begins so.
func isSpecial(first byte) bool { return first|0x20 == 'x' || first == reserved[0] }

// Clone gives them in memory of their own: those that came with a request are valid
// until that is released.
func (v *Versions) Clone() Versions {
	own := *v
	own.encoded, own.owned = slices.Clip(v.encoded), true
	if !v.owned {
		own.encoded = slices.Clone(v.encoded)
	}
	return own
}

// takeUsual adds the versions that b begins with, the rest of a request, as far as they
// are laid out as usual, and gives their length. What is no UTF-8 shows in check.
func (v *Versions) takeUsual(b []byte) int {
	n := 0
	for {
		nameEnd, end := usual(b[n:])
		if end == 0 {
			break
		}
		v.count++
		v.longest = max(v.longest, nameEnd-usualName)
		v.special = v.special || nameEnd == usualName || isSpecial(b[n+usualName])
		n += end
	}
	if n > 0 {
		v.extend(b, n)
	}
	return n
}

// take adds one that is laid out in any way.
func (v *Versions) take(f *field) error {
	var w VersionWalk
	if err := w.cut(f.body); err != nil {
		return err
	}
	v.note(view(w.Name)) // which keeps nothing of it
	v.odd = true
	v.extend(f.raw, len(f.raw))
	return nil
}

// extend has the versions end behind the first n bytes of b: what they lie in is one piece,
// from the first version to the last.
func (v *Versions) extend(b []byte, n int) {
	all := reach(v.encoded, b, n)
	v.odd = v.odd || len(all) != len(v.encoded)+n
	v.encoded = all
}

// check finds what is no UTF-8. Where all are laid out as usual there is an ASCII
// character before and behind each string, so that all are valid if the whole is.
func (v *Versions) check() error {
	if !v.odd && utf8.Valid(v.encoded) {
		return nil
	}
	for it := v.Walk(); it.Next(); {
		if err := checkString("key", it.Name); err != nil {
			return err
		}
		if err := checkString("value", it.Version); err != nil {
			return err
		}
	}
	return nil
}

// usualName is where the name begins in a version that is laid out as usual.
const usualName = 4

// usual tells where the name ends, and where the version does that b begins with, if that
// is laid out as nearly all are: name and version, together shorter than 128 bytes. end is
// 0 if not.
func usual(b []byte) (nameEnd, end int) {
	const (
		tag      = byte(fieldDeltaVersions<<3) | byte(protowire.BytesType)
		keyTag   = byte(fieldEntryKey<<3) | byte(protowire.BytesType)
		valueTag = byte(fieldEntryValue<<3) | byte(protowire.BytesType)
	)
	if len(b) < usualName || b[0] != tag || b[1] >= 0x80 || b[2] != keyTag || b[3] >= 0x80 {
		return 0, 0
	}
	nameEnd, end = usualName+int(b[3]), 2+int(b[1])
	if end > len(b) || nameEnd+2 > end || b[nameEnd] != valueTag || nameEnd+2+int(b[nameEnd+1]) != end {
		return 0, 0
	}
	return nameEnd, end
}
