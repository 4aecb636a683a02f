package restjson

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// Body is a response as compact JSON, with a newline at its end. It refers to what [Transcode] made,
// and copies nothing of it: what thousands of clients poll for is in memory once (LIM-3). It is
// immutable.
type Body struct {
	parts [][]byte
	size  int
}

func (b *Body) add(parts ...[]byte) {
	for _, p := range parts {
		b.parts = append(b.parts, p)
		b.size += len(p)
	}
}

// Size is how many bytes it has.
func (b *Body) Size() int { return b.size }

// WriteTo implements [io.WriterTo].
func (b *Body) WriteTo(w io.Writer) (written int64, err error) {
	for _, p := range b.parts {
		n, err := w.Write(p)
		if written += int64(n); err != nil {
			return written, err
		}
	}
	return written, nil
}

// String gives the whole text.
func (b *Body) String() string {
	var s strings.Builder
	for _, p := range b.parts {
		s.Write(p)
	}
	return s.String()
}

// object puts an object together, field by field. Fields without a value are left out.
type object struct {
	body  Body
	begun bool
}

// field begins a field.
func (o *object) field(name string) {
	head := `,"`
	if !o.begun {
		o.begun, head = true, `{"`
	}
	o.body.add([]byte(head + name + `":`))
}

// text adds a string.
func (o *object) text(name, value string) {
	if value != "" {
		o.field(name)
		o.body.add(quote(value))
	}
}

// list adds values, each of which may be in parts.
func (o *object) list(name string, values [][][]byte) {
	if len(values) == 0 {
		return
	}
	o.field(name)
	separator := []byte("[")
	for _, parts := range values {
		o.body.add(separator)
		o.body.add(parts...)
		separator = comma
	}
	o.body.add([]byte("]"))
}

var comma = []byte(",")

// end gives the whole object.
func (o *object) end() Body {
	if !o.begun {
		o.body.add([]byte("{"))
	}
	o.body.add([]byte("}\n"))
	return o.body
}

// quote writes a string. Unlike json.Marshal it leaves <, > and & as they are.
func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) //nolint:errchkjson // a string can always be encoded
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
