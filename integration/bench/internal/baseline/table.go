package baseline

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
)

// Field numbers of a response, and the size that one is split above.
const (
	responseVersion   = 1
	responseResources = 2
	responseTypeURL   = 4
	responseNonce     = 5

	maxResponse = 4<<20 - 64<<10
)

// table is the resources of one type. The server's lock guards what changes.
type table struct {
	set       content.Set
	numbers   map[string]int
	revisions []int             // by item
	framed    []mem.SliceBuffer // by item: a Resource as a field of a response
	anys      []mem.SliceBuffer // by item: an Any as a field of a response; nil: not needed yet
	version   int               // counts the updates
	last      *update           // of the sequence
	initial   []mem.BufferSlice // the incremental responses with everything; nil: to be built
	text      []byte            // the answer to polls; nil: to be built
}

// update is one response for everybody, and then the next one. Those that all
// streams are past are garbage.
type update struct {
	delta, state mem.BufferSlice // state is nil as long as no stream needs it
	next         atomic.Pointer[update]
}

func newTable(set content.Set) (*table, error) {
	t := &table{
		set: set, numbers: make(map[string]int, set.Count), revisions: make([]int, set.Count),
		framed: make([]mem.SliceBuffer, set.Count), last: &update{},
	}
	for item := range set.Count {
		t.numbers[set.Name(item)] = item
		if err := t.encode(item); err != nil {
			return nil, err
		}
	}
	t.everything()
	return t, nil
}

// encode makes the bytes of a resource.
func (t *table) encode(item int) error {
	r, err := t.set.Resource(item, t.revisions[item])
	if err != nil {
		return err
	}
	t.framed[item], err = frame(r)
	if err != nil || t.anys == nil {
		return err
	}
	t.anys[item], err = frame(r.GetResource())
	return err
}

// frame encodes a message as an element of a response.
func frame(m proto.Message) (mem.SliceBuffer, error) {
	encoded, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding a resource: %w", err)
	}
	return appendBytes(make([]byte, 0, len(encoded)+8), responseResources, encoded), nil
}

// update makes the next update: one resource in another revision.
func (t *table) update(item, revision int) error {
	t.revisions[item] = revision
	if err := t.encode(item); err != nil {
		return err
	}
	t.version++
	t.initial, t.text = nil, nil
	u := &update{delta: t.response(t.framed[item : item+1])}
	if t.anys != nil {
		u.state = t.response(t.anys)
	}
	t.last.next.Store(u)
	t.last = u
	return nil
}

// response makes one of encoded resources, in one piece of memory.
func (t *table) response(resources []mem.SliceBuffer) mem.BufferSlice {
	trailer := t.trailer()
	size := len(trailer)
	for _, r := range resources {
		size += len(r)
	}
	b := make([]byte, 0, size)
	for _, r := range resources {
		b = append(b, r...)
	}
	return mem.BufferSlice{mem.SliceBuffer(append(b, trailer...))}
}

// named makes a response that shares the bytes of its resources. Names that do not
// exist get no answer.
func (t *table) named(names []string) mem.BufferSlice {
	list := make(mem.BufferSlice, 0, len(names)+1)
	for _, name := range names {
		if item, ok := t.numbers[name]; ok {
			list = append(list, t.framed[item])
		}
	}
	if len(list) == 0 {
		return nil
	}
	return append(list, mem.SliceBuffer(t.trailer()))
}

// trailer is what a response has beside resources.
func (t *table) trailer() []byte {
	version := strconv.Itoa(t.version)
	b := appendBytes(nil, responseVersion, version)
	b = appendBytes(b, responseTypeURL, t.set.TypeURL)
	return appendBytes(b, responseNonce, "n"+version)
}

func appendBytes[S string | []byte](b []byte, number protowire.Number, s S) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(s)))
	return append(b, s...)
}

// everything gives the responses that an incremental stream begins with. From then on
// the resources lie in them, so that there is one copy of each.
func (t *table) everything() []mem.BufferSlice {
	if t.initial != nil {
		return t.initial
	}
	for from := 0; from < len(t.framed); {
		to, size := from, 0
		for to < len(t.framed) && (to == from || size+len(t.framed[to]) <= maxResponse) {
			size += len(t.framed[to])
			to++
		}
		whole := t.response(t.framed[from:to])
		t.initial = append(t.initial, whole)
		rest := whole[0].ReadOnlyData()
		for ; from < to; from++ {
			size := len(t.framed[from])
			t.framed[from], rest = rest[:size:size], rest[size:]
		}
	}
	return t.initial
}

// list gives the response with everything of the state of the world.
func (t *table) list() (mem.BufferSlice, error) {
	if t.anys == nil {
		t.anys = make([]mem.SliceBuffer, t.set.Count)
		for item := range t.set.Count {
			if err := t.encode(item); err != nil {
				return nil, err
			}
		}
	}
	return t.response(t.anys), nil
}
