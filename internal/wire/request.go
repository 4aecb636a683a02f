package wire

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// Request is what requests of both forms have in common.
type Request struct {
	TypeURL string
	Nonce   string // response_nonce
	// Rejection is error_detail without its details: without it the request is no NACK (ACK-1).
	Rejection *statuspb.Status

	// node are fields of the request, from the first one to the last that is a node: protobuf
	// merges them. Others among them are passed over.
	node      []byte
	nodeField protowire.Number
	memory    mem.Buffer // that node, and the versions of a DeltaRequest, lie in; nil: not the codec's
}

// Node decodes who the client is; nil if the request does not say, as it may after the
// first one of a stream (STR-1). It is not looked at before, since many clients repeat
// it in every request. The error is a [*DecodeError].
func (r *Request) Node() (*corev3.Node, error) {
	if r.node == nil {
		return nil, nil //nolint:nilnil // a client without a node is none that is broken
	}
	node := new(corev3.Node)
	for it := (fields{rest: r.node}); it.next(); {
		if !it.is(r.nodeField, protowire.BytesType) {
			continue
		}
		if err := mergeMessage("node", it.body, node, requestDepth); err != nil {
			return nil, err
		}
	}
	return node, nil
}

// Kept is how many bytes of the message the request refers to until it is released.
func (r *Request) Kept() int {
	if r.memory == nil {
		return 0
	}
	return r.memory.Len()
}

// HasNode reports whether the request has a node, even an empty one.
func (r *Request) HasNode() bool { return r.node != nil }

// NodeBytes returns how many bytes the node has, 0 if there is none. It is looked up anew each time.
func (r *Request) NodeBytes() (n int) {
	for it := (fields{rest: r.node}); it.next(); {
		if it.is(r.nodeField, protowire.BytesType) {
			n += len(it.body)
		}
	}
	return n
}

// NodeID returns the node's id without decoding the node, "" if there is none: of a node that is too large to decode.
func (r *Request) NodeID() (id string) {
	const idField = 1 // of a Node
	for it := (fields{rest: r.node}); it.next(); {
		if !it.is(r.nodeField, protowire.BytesType) {
			continue
		}
		for in := (fields{rest: it.body}); in.next(); {
			if in.is(idField, protowire.BytesType) {
				id = string(in.body[:min(len(in.body), maxNodeID)])
			}
		}
	}
	return id
}

// maxNodeID is how many bytes of a node's id NodeID returns.
const maxNodeID = 1 << 10

// Release gives back the memory that the codec received the request in. The node and
// the versions are gone with it. A request that is not released is the garbage
// collector's.
func (r *Request) Release() {
	r.node = nil
	if r.memory != nil {
		r.memory.Free()
		r.memory = nil
	}
}

func (r *Request) base() *Request { return r }

// refers implements request.
func (r *Request) refers() bool { return r.node != nil }

// requestDepth is responseDepth of requests.
const requestDepth = 1

func (r *Request) takeTypeURL(b []byte) error {
	// Each acknowledgement names its type: the URL of a known one is not allocated.
	if r.TypeURL, _ = xds.FindBytes(b); r.TypeURL != "" {
		return nil
	}
	return setString(&r.TypeURL, "type_url", b)
}

func (r *Request) takeNode(f *field) {
	r.node, r.nodeField = reach(r.node, f.raw, len(f.raw)), f.num
}

// reach gives what begins like span, or with b if that is nil, and ends behind the first n
// bytes of b. Both are parts of one request that reach, in their capacity, to the end of it,
// which is what tells how far they are apart.
func reach(span, b []byte, n int) []byte {
	if span == nil {
		span = b[:0]
	}
	return span[:cap(span)-cap(b)+n]
}

// takeRejection decodes error_detail without its details. Nobody reads them, and one of two bytes would take ninety
// (LIM-3).
func (r *Request) takeRejection(b []byte) error {
	if r.Rejection == nil {
		r.Rejection = new(statuspb.Status)
	}
	it := fields{rest: b}
	for it.next() {
		switch {
		case it.is(fieldStatusCode, protowire.VarintType):
			r.Rejection.Code = int32(it.number)
		case it.is(fieldStatusMessage, protowire.BytesType):
			if err := setString(&r.Rejection.Message, "error_detail.message", it.body); err != nil {
				return err
			}
		}
	}
	return within("error_detail", it.err)
}

// request is a request of either form.
type request interface {
	Decode(b []byte) error
	// refers reports whether anything of it lies in what it was decoded from.
	refers() bool
	base() *Request
}

// receiveRequest decodes r out of pooled memory, which it keeps if something of r lies in
// it: a client may present the versions of all that it holds.
func receiveRequest(data mem.BufferSlice, pool mem.BufferPool, r request) error {
	buf := data.MaterializeToBuffer(pool)
	err := r.Decode(buf.ReadOnlyData())
	if err != nil || !r.refers() {
		buf.Free()
		return err
	}
	r.base().memory = buf
	return nil
}
