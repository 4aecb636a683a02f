package downstream

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"google.golang.org/grpc/codes"
)

// faulty panics once, when it is told to, where the server tells its observer: in the goroutine and
// at the moment that a test chooses.
type faulty struct {
	*recorder

	sent, requested atomic.Bool
}

func (f *faulty) Sent(typeURL string, resources, removed, bytes int, merged int) {
	if f.sent.Swap(false) {
		panic("sent")
	}
	f.recorder.Sent(typeURL, resources, removed, bytes, merged)
}

func (f *faulty) Requested(typeURL string) {
	if f.requested.Swap(false) {
		panic("requested")
	}
	f.recorder.Requested(typeURL)
}

type panicCounts struct{ client atomic.Int64 }

func (c *panicCounts) Panicked(part logs.Part) {
	if part == logs.PartClient {
		c.client.Add(1)
	}
}

// observing gives a server an observer that panics.
func observing(f *faulty) func(*Config) {
	return func(c *Config) {
		f.recorder = c.Observer.(*recorder)
		c.Observer = f
	}
}

// was reports whether the client was sent a resource, in a version unless that is empty.
func (c *client) was(name, version string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.all, func(r *response) bool {
		return slices.ContainsFunc(r.Resources, func(x *resource) bool {
			return x.Name == name && (version == "" || x.Version == version)
		})
	})
}

// A panic of a sender, or of a handler, ends the stream that it serves, with INTERNAL. Others, which
// the same senders serve, go on, and nothing is left of the stream.
func TestContain_SUR6(t *testing.T) {
	for name, tt := range map[string]struct {
		fault func(f *faulty)
		cause func(h *harness, c *client)
	}{
		"a sender": {
			func(f *faulty) { f.sent.Store(true) },
			func(h *harness, _ *client) { h.opaque.set(endpointType, "2", "x") },
		},
		"a handler": {
			func(f *faulty) { f.requested.Store(true) },
			func(_ *harness, c *client) { c.subscribe(endpointType, "y") },
		},
		"a handler that sends": {
			func(f *faulty) { f.sent.Store(true) },
			func(_ *harness, c *client) { c.subscribe(endpointType, "y") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, counts := new(faulty), new(panicCounts)
			var suspects []*cache.Store
			bubble(t, func(h *harness) {
				h.server.Contain(logs.NewPanics(nil, counts), func(s *cache.Store) { suspects = append(suspects, s) })
				h.opaque.set(endpointType, "1", "x", "y", "z")
				struck, other := h.client(), h.client()
				struck.subscribe(endpointType, "x")
				other.subscribe(endpointType, "z")
				h.quiet()
				tt.fault(f)
				tt.cause(h, struck)
				h.quiet()
				struck.endedWith(codes.Internal, "the relay failed at downstream/contain_test.go:")
				h.opaque.set(endpointType, "3", "z")
				h.quiet()
				if !other.was("z", "3") {
					t.Error("another client is not told of what changed then")
				}
				late := h.client()
				late.subscribe(endpointType, "x")
				h.quiet()
				if !late.was("x", "") {
					t.Error("a client that came later is not served")
				}
				if n := counts.client.Load(); n != 1 {
					t.Errorf("%d panics counted", n)
				}
				if len(suspects) == 0 || suspects[0] != h.opaque.store {
					t.Errorf("%d stores are suspected", len(suspects))
				}
			}, observing(f))
		})
	}
}
