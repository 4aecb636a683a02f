package wire

import "google.golang.org/protobuf/encoding/protowire"

// Walk goes through them in the order in which they came:
//
//	for it := versions.Walk(); it.Next(); { … it.Name … it.Version }
func (v *Versions) Walk() VersionWalk {
	return VersionWalk{rest: v.encoded, owned: v.owned}
}

// VersionWalk is on its way through Versions. It is no iterator function, so that nothing
// escapes to the heap.
type VersionWalk struct {
	// Name and Version are the present ones: parts of what the Versions lie in, which must
	// not be changed.
	Name, Version []byte

	entry, rest, scratch []byte
	owned                bool
}

// Next goes to the next one and tells whether there was one.
func (w *VersionWalk) Next() bool {
	if nameEnd, end := usual(w.rest); end > 0 {
		w.Name, w.Version, w.entry = w.rest[usualName:nameEnd:nameEnd], w.rest[nameEnd+2:end:end], w.rest[2:end]
		w.rest = w.rest[end:]
		return true
	}
	return w.nextOdd()
}

// nextOdd is Next for what may be laid out in any way.
func (w *VersionWalk) nextOdd() bool {
	it := fields{rest: w.rest}
	for it.next() {
		if !it.is(fieldDeltaVersions, protowire.BytesType) {
			continue
		}
		w.rest, w.entry = it.rest, nil
		return w.cut(it.body) == nil
	}
	w.rest = nil
	return false
}

// cut reads a map entry. Of a name or a version that it has twice the last one counts, and
// all must be UTF-8.
func (w *VersionWalk) cut(b []byte) error {
	w.Name, w.Version = nil, nil
	it := fields{rest: b}
	for it.next() {
		var err error
		switch {
		case it.is(fieldEntryKey, protowire.BytesType):
			w.Name, err = it.body, checkString("key", it.body)
		case it.is(fieldEntryValue, protowire.BytesType):
			w.Version, err = it.body, checkString("value", it.body)
		}
		if err != nil {
			return err
		}
	}
	return it.err
}

// Entry is name and version in one, the same for the same: see AppendVersion. It is valid
// until the next one.
func (w *VersionWalk) Entry() []byte {
	if w.entry == nil {
		w.scratch = appendEntry(w.scratch[:0], w.Name, w.Version)
		w.entry = w.scratch
	}
	return w.entry
}

// NameString and VersionString are Name and Version as strings: of Versions in memory of
// their own (Clone) without a copy, so that they keep all of it.
func (w *VersionWalk) NameString() string { return w.text(w.Name) }

// VersionString is like NameString.
func (w *VersionWalk) VersionString() string { return w.text(w.Version) }

func (w *VersionWalk) text(b []byte) string {
	if !w.owned {
		return string(b)
	}
	return view(b)
}
