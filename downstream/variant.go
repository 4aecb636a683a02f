package downstream

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// form is the form of requests: how they say which names a client subscribes to.
type form uint8

const (
	deltaForm form = iota // incremental: the changes
	stateForm             // state of the world: all names
)

// variant is the variant of the protocol on a stream: a method of a service.
type variant struct {
	form    form
	service *xds.Service
}

// The names of the variants. They are a metric's label.
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
	if v.aggregated() {
		return [...]string{deltaForm: DeltaADS, stateForm: StateADS}[v.form]
	}
	return [...]string{deltaForm: Delta, stateForm: State}[v.form]
}

// aggregated reports whether the stream serves all types.
func (v *variant) aggregated() bool { return v.service.TypeURL == "" }

// typeURL returns the type of a request, which may name one (VAR-10). A service of one type serves
// list collections of the type too (LIST-1).
func (v *variant) typeURL(named string) (string, error) {
	switch {
	case v.aggregated() && named == "":
		return "", status.Error(codes.InvalidArgument, "type_url is missing: on an aggregated stream every request must name its resource type")
	case named == "":
		return v.service.TypeURL, nil
	case v.aggregated(), v.service.Serves(named):
		return named, nil
	}
	return "", status.Errorf(codes.InvalidArgument, "type_url is %q: %s serves %s only, and list collections (…Collection) of it",
		clip(named), v.service.Name, strings.Join(v.service.Types(), " and "))
}

// discoveryRequest is a request of either form.
type discoveryRequest struct {
	typeURL   string
	nonce     string
	rejection *rpcstatus.Status // nil: no NACK

	// Incremental.
	subscribe, unsubscribe []string      // see wire.Words
	versions               wire.Versions // initial_resource_versions, valid until release

	// State of the world.
	names       []string // likewise
	versionInfo string

	wire received // nil in tests: the request has no node
	// nodeFrom has the node of a request that waited for one, instead of wire; else nil.
	nodeFrom received
}

// received is the decoded message of a request.
type received interface {
	HasNode() bool
	Node() (*corev3.Node, error)
	NodeBytes() int
	NodeID() string
	Kept() int
	Release()
}

// bytes returns about how much memory the request takes.
func (r *discoveryRequest) bytes() int {
	const word = 16 // a string's header
	n := len(r.typeURL) + len(r.nonce) + len(r.versionInfo)
	for _, names := range [][]string{r.subscribe, r.unsubscribe, r.names} {
		for _, name := range names {
			n += word + len(name)
		}
	}
	if r.wire != nil {
		n += r.wire.Kept()
	}
	return n
}

// node returns the request's node; nil if it has none. The error is the status for a message that
// cannot be decoded.
func (r *discoveryRequest) node() (*corev3.Node, error) {
	from := r.presented()
	if from == nil {
		return nil, nil //nolint:nilnil // as Node
	}
	node, err := from.Node()
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return node, nil
}

// nodeBytes returns how many bytes the request's node has.
func (r *discoveryRequest) nodeBytes() int {
	if from := r.presented(); from != nil {
		return from.NodeBytes()
	}
	return 0
}

// presented returns the message with the node; nil in tests.
func (r *discoveryRequest) presented() received {
	if r.nodeFrom != nil {
		return r.nodeFrom
	}
	return r.wire
}

// hasNode reports whether the request has a node, even an empty one.
func (r *discoveryRequest) hasNode() bool { return r.wire != nil && r.wire.HasNode() }

// release gives back the memory of the request, after it was carried out.
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
