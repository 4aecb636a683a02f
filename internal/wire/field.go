package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field as it stands in an encoded message.
type field struct {
	num protowire.Number
	typ protowire.Type
	// raw is all of it, the tag included; body is what a length-delimited
	// field holds; number is what a varint says.
	raw, body []byte
	number    uint64
}

// is tells whether the field is the one with this number and type. A known
// number with another wire type is an unknown field, as in proto.Unmarshal.
func (f *field) is(num protowire.Number, typ protowire.Type) bool {
	return f.num == num && f.typ == typ
}

// fields walks through an encoded message:
//
//	for it := (fields{rest: b}); it.next(); { … }
//
// leaves the error, if any, in it.err.
type fields struct {
	field
	rest []byte
	err  error
}

// next reads the next field and tells whether there was one. It is a method
// and not an iterator function so that nothing escapes to the heap.
func (it *fields) next() bool {
	if len(it.rest) == 0 || it.err != nil {
		return false
	}
	n, err := it.consume(it.rest)
	if err != nil {
		it.err = err
		return false
	}
	it.rest = it.rest[n:]
	return true
}

// consume reads the field at the start of b and returns its length.
func (f *field) consume(b []byte) (int, error) {
	// Every field of the envelopes has a tag of one byte.
	num, typ, n := protowire.Number(b[0]>>3), protowire.Type(b[0]&7), 1
	if b[0] >= 0x80 || num == 0 {
		num, typ, n = protowire.ConsumeTag(b)
	}
	if n < 0 {
		return 0, protowire.ParseError(n)
	}
	if num > protowire.MaxValidNumber {
		return 0, errFieldNumber // ConsumeTag lets MessageSet's numbers through
	}
	f.num, f.typ, f.body, f.number = num, typ, nil, 0
	var m int
	switch typ {
	case protowire.BytesType:
		f.body, m = protowire.ConsumeBytes(b[n:])
	case protowire.VarintType:
		f.number, m = protowire.ConsumeVarint(b[n:])
	default:
		m = protowire.ConsumeFieldValue(num, typ, b[n:])
	}
	if m < 0 {
		return 0, protowire.ParseError(m)
	}
	f.raw = b[:n+m]
	return n + m, nil
}

// sizeBytesField is the encoded size of a length-delimited field with a number
// below 16 that holds n bytes.
func sizeBytesField(n int) int { return 1 + protowire.SizeBytes(n) }

// appendBytesTag appends tag and length of such a field.
func appendBytesTag(b []byte, num protowire.Number, n int) []byte {
	b = append(b, byte(num<<3)|byte(protowire.BytesType))
	return protowire.AppendVarint(b, uint64(n))
}

// sizeStringField and appendStringField leave the field out if s is empty, as proto3 does.
func sizeStringField[S string | []byte](s S) int {
	if len(s) == 0 {
		return 0
	}
	return sizeBytesField(len(s))
}

func appendStringField[S string | []byte](b []byte, num protowire.Number, s S) []byte {
	if len(s) == 0 {
		return b
	}
	return append(appendBytesTag(b, num, len(s)), s...)
}
