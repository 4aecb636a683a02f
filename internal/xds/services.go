// Package xds has what the relay knows of the resource types of Envoy's API, as data: one row for each type ([Type]), and
// the discovery services that follow from the rows. What serves, asks and polls reads its methods and paths here. It
// links no generated stubs; package apitypes links the messages.
package xds

import (
	"cmp"
	"slices"
	"strings"
)

const (
	typePrefix   = "type.googleapis.com/"
	pathPrefix   = "/v3/discovery:"
	v2PathPrefix = "/v2/discovery:"

	// collectionSuffix makes the type of a list collection from that of its members.
	collectionSuffix = "Collection"
)

// Service is the discovery service of one resource type, and of the list collections
// of it (LIST-1). What it does not have is "".
type Service struct {
	TypeURL string
	V3      string // of a service of v2: the type of now, which it serves too (VAR-9)
	Name    string // full name of the gRPC service
	State   string // its state-of-the-world method (VAR-1)
	Delta   string // its incremental method (VAR-2)
	Fetch   string // its unary method, which stands for Path
	Path    string // that it is polled at over REST (VAR-5)
}

// V3Type is the type that the service serves, by its name of v3; "": it is aggregated.
func (s Service) V3Type() string { return cmp.Or(s.V3, s.TypeURL) }

// OfV2 reports whether it is a service of v2 (VAR-9).
func (s Service) OfV2() bool { return strings.Contains(s.Name, ".v2.") }

// StateMethod is State as gRPC clients name it.
func (s Service) StateMethod() string { return s.full(s.State) }

// DeltaMethod is Delta as gRPC clients name it.
func (s Service) DeltaMethod() string { return s.full(s.Delta) }

func (s Service) full(method string) string {
	if method == "" {
		return ""
	}
	return "/" + s.Name + "/" + method
}

// Aggregated is the service of all types, of an API version: "v3", or "v2" (VAR-3, VAR-4, VAR-9).
func Aggregated(version string) Service {
	return Service{
		Name:  "envoy.service.discovery." + version + ".AggregatedDiscoveryService",
		State: "StreamAggregatedResources", Delta: "DeltaAggregatedResources",
	}
}

// Services gives the services of v3.
func Services() []Service {
	all := make([]Service, 0, len(types))
	for i := range types {
		if s := types[i].serviceOf(); s.Name != "" {
			all = append(all, s)
		}
	}
	return all
}

// serviceOf is the type's service in v3; the zero Service if it has none.
func (t *Type) serviceOf() Service {
	m := &t.service
	if m.name == "" {
		return Service{}
	}
	s := Service{TypeURL: t.URL, Name: m.name, State: m.state, Delta: m.delta, Fetch: m.fetch}
	if m.path != "" {
		s.Path = pathPrefix + m.path
	}
	return s
}

// V2Services gives the services of v2 (VAR-9). Their methods have the names of v3's, and clients of
// theirs may ask for v3's types.
func V2Services() []Service {
	var old []Service
	for i := range types {
		t := &types[i]
		if t.serviceV2 == "" {
			continue
		}
		s := t.serviceOf()
		s.V3, s.TypeURL, s.Name = s.TypeURL, t.V2URL(), t.serviceV2
		if s.Path != "" {
			s.Path = v2PathPrefix + t.service.path
		}
		old = append(old, s)
	}
	return old
}

// Types are the types that the service serves, besides their list collections: the first
// is that of a request without a type. An aggregated service serves all, and has none.
func (s Service) Types() []string {
	return slices.DeleteFunc([]string{s.TypeURL, s.V3}, func(t string) bool { return t == "" })
}

// Serves reports whether requests for a type may go to the service: for its own, or
// for the list collections of that (LIST-1).
func (s Service) Serves(typeURL string) bool {
	member := strings.TrimSuffix(typeURL, collectionSuffix)
	return member != "" && (member == s.TypeURL || member == s.V3)
}

// ServiceOf gives the service of v3 that serves a type; the zero Service where a type has none.
func ServiceOf(typeURL string) Service {
	url := strings.TrimSuffix(typeURL, collectionSuffix)
	if t := Find(url); t != nil && t.URL == url {
		return t.serviceOf()
	}
	return Service{}
}

// HasService reports whether a type has a service, in v3 or in v2, or is that of the list collections of one.
func HasService(typeURL string) bool {
	if ServiceOf(typeURL).TypeURL != "" {
		return true
	}
	url := typePrefix + strings.TrimSuffix(strings.TrimPrefix(typeURL, typePrefix), collectionSuffix)
	t := Find(url)
	return t != nil && t.serviceV2 != "" && t.V2URL() == url
}
