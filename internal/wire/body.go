package wire

import (
	"slices"

	"google.golang.org/grpc/mem"
)

// Body is resources of a response, gathered once for any number of responses. It is
// immutable.
type Body struct {
	gather    mem.BufferSlice
	whole     mem.SliceBuffer // all there is, if it is in one piece of memory
	resources int
	size      int
}

// Resources is how many there are.
func (b *Body) Resources() int { return b.resources }

// Size is the number of bytes they take in a response.
func (b *Body) Size() int { return b.size }

// Gather makes a body of an incremental response, of resources as [Builder.Add] adds
// them. It copies nothing, however small they are (see coalesceBelow): a copy in a body
// would stay in memory beside the resource.
func Gather(resources []*Resource) *Body {
	b := &Body{gather: make(mem.BufferSlice, len(resources)), resources: len(resources)}
	for i, r := range resources {
		b.gather[i] = &r.framed
		b.size += len(r.framed)
	}
	return b
}

// Shares reports whether both bodies are of the same memory.
func (b *Body) Shares(o *Body) bool { return slices.Equal(b.gather, o.gather) }

// Body makes a body of the resources that were added with AddAny and AddWrapped,
// and empties the builder. It copies them: one piece of memory costs each response
// that holds it the same, however many resources are in it (see coalesceBelow).
func (b *Builder) Body() *Body {
	body := &Body{whole: make([]byte, 0, b.size), resources: b.Resources(), size: b.size}
	for a, ttl := range b.each() {
		body.whole = append(a.appendStateHead(body.whole, ttl), a.stateTail()...)
	}
	for _, o := range b.bodies {
		for _, piece := range o.gather {
			body.whole = append(body.whole, piece.ReadOnlyData()...)
		}
	}
	body.gather = mem.BufferSlice{&body.whole}
	b.reset()
	return body
}
