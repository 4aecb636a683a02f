package upstream

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// dialect writes the requests of a variant on one stream, from its beginning to its end. It
// belongs to the session's owner.
type dialect interface {
	// subscribe puts what changes into requests of at most limit bytes each, as far
	// as that can be (RES-17); reserved bytes of the first are left free for the node.
	// None means that there is nothing to say, or that a later flush will say it.
	subscribe(sub wire.Subscription, reserved, limit int) []request
	// begin is called whenever something was taken from the Store, and flush when all of
	// it was given to subscribe. That says what subscribe had put off before begin.
	begin()
	flush() []request
	// answer is the ACK of a response, or its NACK if reason is not nil (STR-8, ACK-2).
	// It is called for each response once, in their order for each type. Without a
	// request there is none that would not mean something else too.
	answer(e envelope, reason error) request
}

// request is a request of either variant.
type request interface {
	proto.Message
	GetTypeUrl() string
}

// withNode puts the node into the first request of a stream (STR-2).
func withNode(r request, node *corev3.Node) {
	switch r := r.(type) {
	case *discoveryv3.DeltaDiscoveryRequest:
		r.Node = node
	case *discoveryv3.DiscoveryRequest:
		r.Node = node
	}
}

// errorDetail is the error of a NACK; nil for an ACK.
func errorDetail(reason error) *statuspb.Status {
	if reason == nil {
		return nil
	}
	return &statuspb.Status{Code: int32(codes.InvalidArgument), Message: detail(reason)}
}

// envelope has the fields of a response that its answer repeats.
type envelope struct {
	typeURL, nonce, version string

	content uint64 // see contentSum; 0: not known
}

// envelopeOf returns the fields of a response that its answer repeats.
func envelopeOf(r *wire.Received) envelope {
	return envelope{typeURL: r.TypeURL, nonce: r.Nonce, version: r.Version}
}

// response makes the target of a variant's next response.
func (a APIType) response() *wire.Received {
	return &wire.Received{Response: wire.Response{State: a.State()}}
}

// deltaDialect is the incremental one. The server keeps the set of names.
type deltaDialect struct {
	asked map[string]struct{} // types that a request was made for
	form  WildcardForm        // of the wildcard
}

// subscribe asks for the wildcard by an empty request where it is the first one for the
// type on the stream: some servers know no other form (SUB-14). Names go into requests
// behind it, and "*" for servers that may not know that form.
func (d *deltaDialect) subscribe(sub wire.Subscription, reserved, limit int) []request {
	if len(sub.Subscribe)+len(sub.Unsubscribe) == 0 {
		return nil
	}
	var out []request
	if _, asked := d.asked[sub.TypeURL]; !asked {
		d.asked[sub.TypeURL] = struct{}{}
		if names, all := withoutWildcard(sub.Subscribe); all && d.form != WildcardExplicit {
			out = append(out, everything(sub.TypeURL, sub.Versions, names))
			if d.form != WildcardAuto {
				sub.Subscribe = names
			}
			sub.Versions, reserved = nil, 0
		}
	} else {
		sub.Versions = nil // no server reads them any more
	}
	for _, r := range requests(sub, reserved, limit) {
		out = append(out, r)
	}
	return out
}

func (*deltaDialect) begin()           {}
func (*deltaDialect) flush() []request { return nil }

// answer carries no version: the nonce says it all.
func (d *deltaDialect) answer(e envelope, reason error) request {
	d.asked[e.typeURL] = struct{}{} // an empty request is the first for the type no more
	return &discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: e.typeURL, ResponseNonce: e.nonce, ErrorDetail: errorDetail(reason),
	}
}
