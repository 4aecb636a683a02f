package gocontrolplane

import (
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
)

// New makes a control plane with one LinearCache for each of the types behind a
// MuxCache: every client gets the same. Without types it serves [Types]. Asking
// it for another type ends the client's stream.
func New(typeURLs ...string) *ControlPlane {
	if len(typeURLs) == 0 {
		typeURLs = Types()
	}
	return newControlPlane(func() caches { return &linear{types: typeURLs} })
}

// Types gives the type URLs that go-control-plane knows: all that Envoy
// discovers.
func Types() []string {
	return []string{
		resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ListenerType, resourcev3.RouteType,
		resourcev3.ScopedRouteType, resourcev3.VirtualHostType, resourcev3.SecretType, resourcev3.RuntimeType,
		resourcev3.ExtensionConfigType, resourcev3.RateLimitConfigType,
	}
}

// linear is a LinearCache per type.
type linear struct {
	types  []string
	byType map[string]*cache.LinearCache
}

func (l *linear) cache() cache.Cache {
	mux := &cache.MuxCache{
		Classify:      func(r *discoveryv3.DiscoveryRequest) string { return r.GetTypeUrl() },
		ClassifyDelta: func(r *discoveryv3.DeltaDiscoveryRequest) string { return r.GetTypeUrl() },
		// Read by all streams without a lock, so complete before the first.
		Caches: make(map[string]cache.Cache, len(l.byType)),
	}
	for url, c := range l.byType {
		mux.Caches[url] = c
	}
	return mux
}

func (l *linear) load(state map[string]map[string]resource) error {
	l.byType = make(map[string]*cache.LinearCache, len(l.types))
	for _, url := range l.types {
		l.byType[url] = cache.NewLinearCache(url, cache.WithInitialResources(convert(state[url])))
	}
	for url, of := range state {
		if l.byType[url] == nil && len(of) > 0 {
			return unserved(url)
		}
	}
	return nil
}

func (l *linear) changed(state map[string]map[string]resource, typeURL, name string) error {
	c := l.byType[typeURL]
	if c == nil {
		return unserved(typeURL)
	}
	if r, ok := state[typeURL][name]; ok {
		return c.UpdateResource(name, r.message)
	}
	return c.DeleteResource(name)
}

func unserved(typeURL string) error {
	return fmt.Errorf("the control plane was not made for type %s", typeURL)
}

// convert names the same map's type as the caches do.
func convert(of map[string]resource) map[string]types.Resource {
	m := make(map[string]types.Resource, len(of))
	for name, r := range of {
		m[name] = r.message
	}
	return m
}
