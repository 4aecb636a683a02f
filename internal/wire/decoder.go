package wire

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// decoder is the state of one Decode.
type decoder struct {
	cut     cutter
	unnamed int   // elements that were left out because they have no name
	err     error // the first one, a *DecodeError
}

// decode has r take the fields of b. After an error the walk goes on, since the type
// URL and the nonce usually stand behind the resources.
func (d *decoder) decode(b []byte, r *Response) error {
	it := fields{rest: b}
	for it.next() {
		if it.typ == protowire.BytesType { // every field we know is length-delimited
			d.fail(r.take(d, &it.field))
		}
	}
	d.fail(it.err)
	return d.err
}

// refused says that the response is refused as a whole.
func (d *decoder) refused() bool { return d.err != nil }

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = within("", err)
	}
}

func setString(dst *string, name string, b []byte) error {
	if err := checkString(name, b); err != nil {
		return err
	}
	*dst = string(b)
	return nil
}

// addString appends an element of the repeated string field called name.
func addString(list *[]string, name string, b []byte) error {
	if err := checkString(name, b); err != nil {
		return err
	}
	*list = append(*list, string(b))
	return nil
}

// add appends what decode makes of an element of the repeated field called name.
func add[T any](list *[]T, name string, b []byte, decode func([]byte) (T, error)) error {
	v, err := decode(b)
	if err != nil {
		return within(element(name, len(*list)), err)
	}
	*list = append(*list, v)
	return nil
}

// element is the path of an element of a repeated field.
func element(name string, index int) string { return name + "[" + strconv.Itoa(index) + "]" }
