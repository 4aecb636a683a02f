package downstream

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
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
	node      *corev3.Node
	typeURL   string
	nonce     string
	rejection *rpcstatus.Status // nil: it is no NACK

	// Incremental.
	subscribe, unsubscribe []string          // names, and those with parameters (wire.Locator)
	versions               map[string]string // initial_resource_versions

	// State of the world.
	names       []string // likewise
	versionInfo string

	err error // what it says cannot be served: the stream ends
}

// receive reads the next request of a stream.
func (v *variant) receive(g grpc.ServerStream) (discoveryRequest, error) {
	if v.form == deltaForm {
		r := new(discovery.DeltaDiscoveryRequest)
		err := g.RecvMsg(r)
		return deltaRequest(r), err
	}
	r := new(discovery.DiscoveryRequest)
	err := g.RecvMsg(r)
	return stateRequest(r), err
}

func deltaRequest(r *discovery.DeltaDiscoveryRequest) discoveryRequest {
	return discoveryRequest{
		node: r.GetNode(), typeURL: r.GetTypeUrl(), nonce: r.GetResponseNonce(), rejection: r.GetErrorDetail(),
		subscribe:   wire.Words(r.GetResourceNamesSubscribe(), r.GetResourceLocatorsSubscribe()),
		unsubscribe: wire.Words(r.GetResourceNamesUnsubscribe(), r.GetResourceLocatorsUnsubscribe()),
		versions:    r.GetInitialResourceVersions(),
		err:         checkLocators(r.GetResourceLocatorsSubscribe()),
	}
}

func stateRequest(r *discovery.DiscoveryRequest) discoveryRequest {
	return discoveryRequest{
		node: r.GetNode(), typeURL: r.GetTypeUrl(), nonce: r.GetResponseNonce(), rejection: r.GetErrorDetail(),
		names: wire.Words(r.GetResourceNames(), r.GetResourceLocators()), versionInfo: r.GetVersionInfo(),
		err: checkLocators(r.GetResourceLocators()),
	}
}

// supportsWrapping is the client feature of knowing Resource in state-of-the-world
// responses (RES-13).
const supportsWrapping = "xds.config.supports-resource-in-sotw"
