package passthrough

import (
	"cmp"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// maxTypes bounds the types of a stream. The API has some dozens.
const maxTypes = 256

// request is what has to be known of a request.
type request struct {
	*wire.Request

	names []string // that it subscribes to
	none  bool     // it names nothing
}

// decode decodes a request.
func (st *stream) decode(message wire.Raw) (*request, error) {
	if st.client.State {
		var r wire.StateRequest
		err := r.Decode(message)
		names := wire.Words(r.Names, r.Locators)
		return &request{&r.Request, names, len(names) == 0}, err
	}
	var r wire.DeltaRequest
	err := r.Decode(message)
	names := wire.Words(r.Subscribe, r.SubscribeLocators)
	return &request{&r.Request, names, len(names)+len(wire.Words(r.Unsubscribe, r.UnsubscribeLocators)) == 0}, err
}

// judge says why a request is not passed on (ACC-2).
func (st *stream) judge(message wire.Raw) error {
	r, err := st.decode(message)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if err := st.presents(r); err != nil {
		return err
	}
	typeURL := st.client.Belongs(r.TypeURL)
	first, err := st.note(typeURL)
	if err != nil {
		return err
	}
	if first && r.none {
		r.names = []string{cache.Wildcard} // SUB-3, SUB-4
	}
	place := st.placed()
	for _, name := range r.names {
		if err := place.Serves(typeURL, name); err != nil {
			return err
		}
	}
	return nil
}

// presents judges the node of a request: the control plane may go by any of them (STR-1, ACC-5).
func (st *stream) presents(r *request) error {
	if !r.HasNode() {
		return nil
	}
	if n := r.NodeBytes(); st.client.Large(n) {
		return status.Errorf(codes.ResourceExhausted, "the node has %d bytes, more than limits.node_bytes", n)
	}
	node, err := r.Node()
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	place, types := st.asked()
	if err := place.Presents(node, types); err != nil {
		return err
	}
	st.client.Present(node.GetId(), node.GetCluster())
	return nil
}

// note notes a type that the client asks for, and reports whether it is new.
func (st *stream) note(typeURL string) (first bool, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.types[typeURL] {
		return false, nil
	}
	if len(st.types) == maxTypes {
		return false, status.Errorf(codes.ResourceExhausted, "more than %d types on one stream", maxTypes)
	}
	st.types[typeURL] = true
	return true, nil
}

// judgeResponse says why a response is not passed on. Only where the client may not have everything is it decoded.
func (st *stream) judgeResponse(message wire.Raw) error {
	named, err := message.ResponseType()
	if err != nil {
		return status.Errorf(codes.Internal, "the control plane's response cannot be decoded: %v", err)
	}
	typeURL, place := cmp.Or(named, st.client.TypeURL), st.placed()
	if !place.Judges(typeURL) {
		return nil
	}
	r := wire.Response{State: st.client.State}
	if err := r.Decode(message); err != nil {
		return Denied(typeURL, "", "the relay cannot decode the response, and so not judge it")
	}
	if len(r.Unnamed) > 0 {
		return Denied(typeURL, "", "the response has resources without a name, which no access rule can judge")
	}
	for _, x := range r.Resources {
		for _, name := range append([]string{x.Name}, x.Aliases()...) {
			if err := place.Denies(typeURL, name); err != nil {
				return err
			}
		}
	}
	for _, name := range r.Removed {
		if err := place.Denies(typeURL, name); err != nil {
			return err
		}
	}
	return nil
}

// Denied is the status of a stream that would have what the client may not have: nothing is taken out of a message.
func Denied(typeURL, name, why string) error {
	return status.Errorf(codes.PermissionDenied, "type %.256q, name %.256q: %s; a client that is served 1:1 gets all or nothing", typeURL, name, why)
}
