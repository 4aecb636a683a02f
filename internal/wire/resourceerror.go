package wire

import (
	"fmt"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Field numbers of envoy.service.discovery.v3.ResourceError and google.rpc.Status.
const (
	fieldErrorName     protowire.Number = 1
	fieldErrorDetail   protowire.Number = 2
	fieldStatusCode    protowire.Number = 1
	fieldStatusMessage protowire.Number = 2
)

// maxErrorSize is how much of an error is kept beyond its name. It stands in a response
// whole, is kept for each name and is sent to each client: a text of megabytes would
// pass what clients accept and end their streams (RES-9). Of a larger one the code and
// the beginning of the message are kept.
const maxErrorSize = 16 << 10

// ResourceError says why a resource is not available (resource_errors). One
// that came from a server is passed on with everything that was in it, unless that is
// larger than an error may be (maxErrorSize); one put together from the fields is as good.
type ResourceError struct {
	Name    string
	Code    codes.Code
	Message string
	// Constrained says that it is for some dynamic parameters only (DYN-1).
	Constrained bool

	// raw is the encoded ResourceError with its name first, "" if no server sent
	// it; shared says how many bytes at its end go with every spelling of the name,
	// named how many of those belong to resource_name.
	raw           string
	shared, named int
}

// NewResourceError makes the stored form of an error that did not come as bytes, as
// [NewStateResource] does of a resource. It does not keep p. Errors are a
// [*DecodeError].
func NewResourceError(p *discoveryv3.ResourceError) (ResourceError, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return ResourceError{}, within("", err)
	}
	e, err := decodeResourceError(b)
	return e, within("", err)
}

// Encoded is the encoded ResourceError under a name (NAME-4), which must be valid
// UTF-8.
func (e *ResourceError) Encoded(name string) string { return e.encoded(name) }

// Size is about what the error takes in a response beyond its name, in bytes.
func (e *ResourceError) Size() int {
	const overhead = 24 // tags, lengths and the code
	return max(len(e.Message), e.shared) + overhead
}

// Transient reports whether the error leaves open what became of the resource, so
// that what is held of it stays (ERR-1). NOT_FOUND and PERMISSION_DENIED take it away;
// of codes that nobody gave a meaning the proposal has data planes think well.
func (e *ResourceError) Transient() bool {
	return e.Code != codes.NotFound && e.Code != codes.PermissionDenied
}

// decodeResourceError copies what it keeps of b. Errors are rare, so that the
// generated type does the decoding and the checking.
func decodeResourceError(b []byte) (ResourceError, error) {
	var p discoveryv3.ResourceError
	if err := checkMessage("", b, &p, responseDepth); err != nil {
		return ResourceError{}, err
	}
	e := ResourceError{
		Name:    p.GetResourceName().GetName(),
		Code:    codes.Code(p.GetErrorDetail().GetCode()),
		Message: p.GetErrorDetail().GetMessage(),
	}
	var name []byte
	var named, rest [][]byte
	it := fields{rest: b}
	for it.next() {
		if !it.is(fieldErrorName, protowire.BytesType) {
			rest = append(rest, it.raw)
			continue
		}
		var err error
		if named, err = splitResourceName(it.body, &name, named); err != nil {
			return ResourceError{}, within("resource_name", err)
		}
	}
	if it.err != nil {
		return ResourceError{}, it.err
	}
	if sizeAll(rest) > maxErrorSize {
		e.Message = clipped(e.Message, maxErrorSize/2)
		rest = [][]byte{e.appendDetail(nil)}
	}
	e.named = sizeAll(named)
	e.Constrained = constrains(appendAll(nil, named))
	e.shared = e.named + sizeAll(rest)
	raw := e.appendHead(make([]byte, 0, e.sizeAs(e.Name)), e.Name)
	e.raw = string(appendAll(appendAll(raw, named), rest))
	return e, nil
}

// appendHead appends what comes before the shared bytes.
func (e *ResourceError) appendHead(b []byte, name string) []byte {
	b = appendBytesTag(b, fieldErrorName, sizeStringField(name)+e.named)
	return appendStringField(b, fieldNameName, name)
}

// sizeAs is the size of the encoded error under a name.
func (e *ResourceError) sizeAs(name string) int {
	return sizeBytesField(sizeStringField(name)+e.named) + e.shared - e.named
}

// encoded returns the encoded ResourceError under a name (NAME-4).
func (e *ResourceError) encoded(name string) string {
	switch {
	case e.raw == "":
		return e.encodedFields(name)
	case name == e.Name:
		return e.raw
	}
	b := e.appendHead(make([]byte, 0, e.sizeAs(name)), name)
	return string(append(b, e.raw[len(e.raw)-e.shared:]...))
}

// clipped is the beginning of an error's text, and word of how long it was.
func clipped(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:most], ""), len(text))
}

// encodedFields encodes an error that no server sent.
func (e *ResourceError) encodedFields(name string) string {
	bare := ResourceError{}
	return string(e.appendDetail(bare.appendHead(nil, name)))
}

// appendDetail appends the error_detail that the fields make.
func (e *ResourceError) appendDetail(b []byte) []byte {
	var status []byte
	if e.Code != codes.OK {
		status = protowire.AppendTag(status, fieldStatusCode, protowire.VarintType)
		status = protowire.AppendVarint(status, uint64(int64(int32(e.Code))))
	}
	status = appendStringField(status, fieldStatusMessage, e.Message)
	return append(appendBytesTag(b, fieldErrorDetail, len(status)), status...)
}
