package directory

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of google.protobuf.Any.
const (
	fieldTypeURL protowire.Number = 1
	fieldValue   protowire.Number = 2
)

var (
	errNoType     = errors.New("a payload without type_url")
	errTypeNotUTF = errors.New("its type_url is not UTF-8")
)

// field is one field of an encoded message. body is the content if it is
// length-delimited.
type field struct {
	num  protowire.Number
	typ  protowire.Type
	body []byte
}

// walk shows visit every field of an encoded message, and ends with visit's
// first error or with what is wrong with the encoding.
func walk(b []byte, visit func(field) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return notAMessage(n)
		}
		f := field{num: num, typ: typ}
		var m int
		if typ == protowire.BytesType {
			f.body, m = protowire.ConsumeBytes(b[n:])
		} else {
			m = protowire.ConsumeFieldValue(num, typ, b[n:])
		}
		if m < 0 {
			return notAMessage(m)
		}
		if err := visit(f); err != nil {
			return err
		}
		b = b[n+m:]
	}
	return nil
}

func notAMessage(n int) error {
	return fmt.Errorf("it is no encoded message: %w", protowire.ParseError(n))
}

// message collects what is said of a field that holds a message. If the field
// comes again it is merged with what came before, which is to say that the parts
// stand one after the other. One part is not copied.
type message struct {
	bytes []byte
	parts int
}

func (m *message) add(part []byte) {
	m.parts++
	if m.parts == 1 {
		m.bytes = slices.Clip(part)
		return
	}
	m.bytes = append(m.bytes, part...) // the first time a copy, since the part ends where it ends
}

// openAny gives type and value of an encoded google.protobuf.Any. Of a field
// that comes twice the last one counts.
func openAny(b []byte) (typeURL string, value []byte, err error) {
	var typ []byte
	err = walk(b, func(f field) error {
		switch {
		case f.typ != protowire.BytesType:
		case f.num == fieldTypeURL:
			typ = f.body
		case f.num == fieldValue:
			value = f.body
		}
		return nil
	})
	switch {
	case err != nil:
		return "", nil, err
	case !utf8.Valid(typ):
		return "", nil, errTypeNotUTF
	case len(typ) == 0:
		return "", nil, errNoType
	}
	return string(typ), value, nil
}
