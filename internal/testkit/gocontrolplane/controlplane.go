package gocontrolplane

import (
	"context"
	"fmt"
	"sync"

	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/protobuf/proto"
)

// ControlPlane is one management server. Its methods may be called from any
// goroutine.
type ControlPlane struct {
	// immutable after New
	caches   func() caches
	recorder *recorder

	lifecycle sync.Mutex // one Start, Stop or Close at a time; taken before mu
	run       *run       // nil while stopped; guarded by lifecycle
	address   string     // of the last Start; guarded by lifecycle
	port      *port      // keeps the address; guarded by lifecycle

	mu    sync.Mutex
	state map[string]map[string]resource // by type URL and name, guarded by mu
	live  caches                         // of the run, nil while stopped; guarded by mu
	fetch serverv3.Server                // of the run, nil while stopped; guarded by mu
}

// resource is one resource of the state.
type resource struct {
	message proto.Message
	version string
}

// caches are go-control-plane's, of one run. The methods but cache are called
// one at a time.
type caches interface {
	cache() cache.Cache
	// load fills them before anybody is served.
	load(state map[string]map[string]resource) error
	// changed says that name, of a type in state, was set or deleted.
	changed(state map[string]map[string]resource, typeURL, name string) error
}

func newControlPlane(build func() caches) *ControlPlane {
	return &ControlPlane{caches: build, recorder: newRecorder(), state: make(map[string]map[string]resource)}
}

// UpdateResource sets a resource, of a type that the control plane serves, and
// sends it to whom it concerns; while the control plane is stopped it is part of
// what it comes back with. The version is [Version]'s. The message belongs to
// the control plane from then on.
func (c *ControlPlane) UpdateResource(name string, message proto.Message) (version string, err error) {
	if version, err = Version(message); err != nil {
		return "", err
	}
	url := TypeURL(message)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state[url] == nil {
		c.state[url] = make(map[string]resource)
	}
	c.state[url][name] = resource{message: message, version: version}
	if c.live == nil {
		return version, nil
	}
	return version, c.live.changed(c.state, url, name)
}

// DeleteResource deletes a resource, and tells clients that have it. One that is
// not there stays so.
func (c *ControlPlane) DeleteResource(typeURL, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.state[typeURL][name]; !there {
		return nil
	}
	delete(c.state[typeURL], name)
	if c.live == nil {
		return nil
	}
	return c.live.changed(c.state, typeURL, name)
}

// Versions gives name and version of all resources of a type: what a client
// that asks for all of them holds in the end.
func (c *ControlPlane) Versions(typeURL string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	versions := make(map[string]string, len(c.state[typeURL]))
	for name, r := range c.state[typeURL] {
		versions[name] = r.version
	}
	return versions
}

// Stats gives what was seen from the beginning until now.
func (c *ControlPlane) Stats() Stats { return c.recorder.stats() }

// Await returns nil as soon as cond holds, which it looks at now and after
// everything that changes Stats. It returns ctx's error if that ends first.
func (c *ControlPlane) Await(ctx context.Context, cond func(Stats) bool) error {
	for {
		changed := c.recorder.next()
		if cond(c.recorder.stats()) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Version gives the version that the control plane gives a message: a digest of
// its content.
func Version(message proto.Message) (string, error) {
	// go-control-plane's caches hash the same bytes; there is no other way to have
	// the version before it is on the wire.
	encoded, err := cache.MarshalResource(message)
	if err != nil {
		return "", fmt.Errorf("encoding a %s: %w", message.ProtoReflect().Descriptor().FullName(), err)
	}
	return cache.HashResource(encoded), nil
}

// TypeURL gives the type URL of a message's type.
func TypeURL(message proto.Message) string {
	return "type.googleapis.com/" + string(message.ProtoReflect().Descriptor().FullName())
}
