package baseline

import (
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// codec sends encoded messages as they are, and receives requests.
type codec struct {
	// What requests of several frames are put together in, each a *[]byte: grpc's own
	// pool, asked for some ten KiB, gives a MiB that it clears first, which is no part of what
	// a server must do.
	scratch *sync.Pool
}

func newCodec() codec {
	return codec{&sync.Pool{New: func() any { return new([]byte) }}}
}

// Name implements encoding.CodecV2.
func (codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(mem.BufferSlice)
	if !ok {
		return nil, fmt.Errorf("cannot send a %T", v)
	}
	return m, nil
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*request)
	if !ok {
		return fmt.Errorf("cannot receive a %T", v)
	}
	if len(data) == 1 {
		return r.decode(data[0].ReadOnlyData())
	}
	whole := c.scratch.Get().(*[]byte) //nolint:forcetypeassert // nothing else is put there
	defer c.scratch.Put(whole)
	*whole = slices.Grow((*whole)[:0], data.Len())[:data.Len()]
	data.CopyTo(*whole)
	return r.decode(*whole)
}

// Field numbers of the requests: the incremental ones, and the others where they differ.
const (
	deltaTypeURL  = 2
	deltaNames    = 3
	deltaDropped  = 4
	deltaVersions = 5
	deltaNonce    = 6

	stateTypeURL = 4
	stateNonce   = 5
)

// request is what the server reads of a request.
type request struct {
	state     bool // set before: the form to be read
	typeURL   string
	names     []string
	dropped   bool // names are let go of
	leaves    bool // the wildcard is among them
	presented bool // versions of what the client holds
	answers   bool // a response, with an ACK or a NACK
}

func (r *request) decode(b []byte) error {
	*r = request{state: r.state}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if kind == protowire.BytesType {
			r.take(number, b[:size])
		}
		b = b[size:]
	}
	return nil
}

// take reads one field, b with its length.
func (r *request) take(number protowire.Number, b []byte) {
	switch {
	case number == deltaNonce && !r.state, number == stateNonce && r.state:
		_, n := protowire.ConsumeVarint(b)
		r.answers = len(b) > n
	case r.answers:
	case number == deltaTypeURL && !r.state, number == stateTypeURL && r.state:
		r.typeURL = text(b)
	case number == deltaNames:
		r.names = append(r.names, text(b))
	case number == deltaDropped && !r.state:
		r.dropped = true
		r.leaves = r.leaves || text(b) == wildcard
	case number == deltaVersions && !r.state:
		r.presented = true
	}
}

func text(b []byte) string {
	s, _ := protowire.ConsumeString(b)
	return s
}
