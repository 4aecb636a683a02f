package downstream

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// form is how requests say what a client subscribes to.
type form uint8

const (
	deltaForm form = iota // by what changes
	stateForm             // by all of it, the state of the world
)

// variant is how a stream speaks: its method.
type variant struct {
	form    form
	service *discoveryService
}

// The names of the variants, which are a metric's label.
const (
	DeltaADS = "delta-ads"
	StateADS = "sotw-ads"
	Delta    = "delta" // one type per stream
	State    = "sotw"
	REST     = "rest" // polls: each is a stream of one request
)

// Variants lists them.
func Variants() []string { return []string{DeltaADS, StateADS, Delta, State, REST} }

func (v *variant) String() string {
	switch {
	case v.aggregated() && v.form == deltaForm:
		return DeltaADS
	case v.aggregated():
		return StateADS
	case v.form == deltaForm:
		return Delta
	}
	return State
}

// aggregated reports whether the stream serves all types.
func (v *variant) aggregated() bool { return len(v.service.types) == 0 }

// typeURL gives the type of a request that says one, or none (VAR-10). A service of one
// type serves the list collections of it too (LIST-1).
func (v *variant) typeURL(said string) (string, error) {
	if v.aggregated() {
		if said == "" {
			return "", status.Error(codes.InvalidArgument, "type_url is missing: on an aggregated stream every request must name its resource type")
		}
		return said, nil
	}
	if said == "" {
		return typePrefix + v.service.types[0], nil
	}
	for _, t := range v.service.types {
		if said == typePrefix+t || said == typePrefix+t+listSuffix {
			return said, nil
		}
	}
	return "", status.Errorf(codes.InvalidArgument, "type_url is %q: %s serves %s only, and list collections (…%s) of it",
		clip(said), v.service.name, typePrefix+strings.Join(v.service.types, " and "+typePrefix), listSuffix)
}

// discoveryRequest is a request of either form.
type discoveryRequest struct {
	typeURL   string
	nonce     string
	rejection *rpcstatus.Status // nil: it is no NACK

	// Incremental.
	subscribe, unsubscribe []string      // names, and those with parameters (wire.Locator)
	versions               wire.Versions // initial_resource_versions, valid until it is released

	// State of the world.
	names       []string // likewise
	versionInfo string

	wire received // nil in tests: there is no node then
}

// received is what a request was received into.
type received interface {
	Node() (*corev3.Node, error)
	Release()
}

// node says who the client is, nil if the request does not. The error is a status: that of
// a message that cannot be decoded.
func (r *discoveryRequest) node() (*corev3.Node, error) {
	if r.wire == nil {
		return nil, nil //nolint:nilnil // as Node
	}
	node, err := r.wire.Node()
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return node, nil
}

// release gives back the memory that it lies in, once it was carried out.
func (r *discoveryRequest) release() {
	r.versions = wire.Versions{}
	if r.wire != nil {
		r.wire.Release()
	}
}

// receive reads the next request of a stream.
func (v *variant) receive(g grpc.ServerStream) (discoveryRequest, error) {
	if v.form == deltaForm {
		r := new(wire.DeltaRequest)
		err := g.RecvMsg(r)
		return deltaRequest(r), err
	}
	r := new(wire.StateRequest)
	err := g.RecvMsg(r)
	return stateRequest(r), err
}

func deltaRequest(r *wire.DeltaRequest) discoveryRequest {
	return discoveryRequest{
		wire: r, typeURL: r.TypeURL, nonce: r.Nonce, rejection: r.Rejection,
		subscribe:   wire.Words(r.Subscribe, r.SubscribeLocators),
		unsubscribe: wire.Words(r.Unsubscribe, r.UnsubscribeLocators),
		versions:    r.Versions,
	}
}

func stateRequest(r *wire.StateRequest) discoveryRequest {
	return discoveryRequest{
		wire: r, typeURL: r.TypeURL, nonce: r.Nonce, rejection: r.Rejection,
		names: wire.Words(r.Names, r.Locators), versionInfo: r.VersionInfo,
	}
}
