package downstream

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// drain runs Drain beside the test, and returns when it did.
func (h *harness) drain(ctx context.Context, spread time.Duration) (finished func() time.Duration) {
	h.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	var took time.Duration
	wg.Go(func() {
		h.server.Drain(ctx, spread)
		took = time.Since(began)
	})
	h.quiet()
	return func() time.Duration {
		wg.Wait()
		return took
	}
}

func TestDrain_OPS4(t *testing.T) {
	const spread = 30 * time.Second
	bubble(t, func(h *harness) {
		h.opaque.set(clusterType, "1", "a")
		var clients []*client
		for range 50 {
			c := h.client()
			c.subscribe(clusterType)
			clients = append(clients, c)
		}
		h.quiet()
		health := healthpb.NewHealthClient(h.conn)
		if r, err := health.Check(h.Context(), &healthpb.HealthCheckRequest{}); err != nil || r.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health is %v, %v", r, err)
		}
		began := time.Now()
		finished := h.drain(h.Context(), spread)
		if _, err := h.dial().NewStream(h.Context(), &grpc.StreamDesc{}, discovery.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName); status.Code(err) != codes.Unavailable {
			t.Errorf("OPS-4: a new stream ends with %v, want UNAVAILABLE", err)
		}
		// Who is still there is still served.
		h.opaque.set(clusterType, "2", "a")
		h.quiet()
		took := finished()
		var after []time.Duration
		for _, c := range clients {
			c.endedWith(codes.Unavailable, "draining")
			if got := holds(c.all); got["a"] != "2" {
				t.Errorf("a client that was to go later holds %v", got)
			}
			after = append(after, c.ended.Sub(began))
		}
		slices.Sort(after)
		if first, last := after[0], after[len(after)-1]; last > spread || took < last || took > spread || last-first < spread/2 || first > spread/4 {
			t.Errorf("OPS-4: closed from %v to %v, Drain took %v; the spread is %v", first, last, took, spread)
		}
		h.server.Drain(h.Context(), spread) // again: nothing to do
	})
}

func TestDrain_WithoutSpread(t *testing.T) {
	for _, spread := range []time.Duration{0, -time.Second} {
		bubble(t, func(h *harness) {
			c := h.client()
			c.subscribe(clusterType)
			h.quiet()
			if took := h.drain(h.Context(), spread)(); took != 0 {
				t.Errorf("Drain took %v", took)
			}
			c.endedWith(codes.Unavailable, "draining")
		})
	}
}

// Nobody can hold Drain up beyond its context: neither who does not read, nor who
// watches the health, nor who connects and says nothing.
func TestDrain_OPS4_CutsOffWhoCannotBeTold(t *testing.T) {
	const spread, limit = 10 * time.Second, 15 * time.Second
	for _, tt := range []struct {
		name string
		hold func(h *harness)
		most time.Duration
	}{
		{"a client that does not read", func(h *harness) {
			h.sized("1", 8, 100<<10)
			h.deafClient().subscribe(clusterType)
		}, limit},
		{"a client that watches the health", func(h *harness) {
			w, err := healthpb.NewHealthClient(h.dial()).Watch(h.Context(), &healthpb.HealthCheckRequest{})
			if err != nil {
				h.Fatal(err)
			}
			var watching sync.WaitGroup
			watching.Go(func() {
				var told []healthpb.HealthCheckResponse_ServingStatus
				for r, err := w.Recv(); err == nil; r, err = w.Recv() {
					told = append(told, r.Status)
				}
				if !slices.Equal(told, []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING}) {
					h.Errorf("was told %v", told)
				}
			})
			h.shutdown = append(h.shutdown, watching.Wait)
		}, limit},
		{"a connection that says nothing", func(h *harness) {
			conn, err := h.lis.Dial()
			if err != nil {
				h.Fatal(err)
			}
			h.shutdown = append(h.shutdown, func() { conn.Close() })
		}, limit + handshakeTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				tt.hold(h)
				h.quiet()
				ctx, cancel := context.WithTimeout(h.Context(), limit)
				defer cancel()
				if took := h.drain(ctx, spread)(); took > tt.most {
					t.Errorf("OPS-4: Drain took %v, its context %v", took, limit)
				}
				if n := len(h.server.Clients(nil, nil)); n != 0 {
					t.Errorf("%d streams are left", n)
				}
			}, func(c *Config) { c.MaxMessageSize = 128 << 10 })
		})
	}
}

// The transport may accept a stream just before its GOAWAY reaches the client.
func TestDrain_OPS4_RefusesStreamsThatSlipThrough(t *testing.T) {
	s := NewServer(Config{})
	s.Drain(t.Context(), 0)
	err := s.serve(&fakeStream{ctx: t.Context()}, deltaADS())
	if status.Code(err) != codes.Unavailable {
		t.Errorf("ended with %v, want UNAVAILABLE", err)
	}
}

// fakeStream is a stream without a network under it.
type fakeStream struct {
	grpc.ServerStream // nil: what is not overridden is not called

	ctx  context.Context
	recv func(m any) error
	sent func(m any) error
}

func (f *fakeStream) Context() context.Context     { return f.ctx }
func (f *fakeStream) SetHeader(metadata.MD) error  { return nil }
func (f *fakeStream) SendHeader(metadata.MD) error { return nil }
func (f *fakeStream) SetTrailer(metadata.MD)       {}
func (f *fakeStream) RecvMsg(m any) error          { return f.recv(m) }
func (f *fakeStream) SendMsg(m any) error          { return f.sent(m) }

// fakeTransport is what ends it.
type fakeTransport struct {
	grpc.ServerTransportStream // nil

	cancel func()
}

func (f *fakeTransport) WriteStatus(*status.Status) error {
	f.cancel()
	return nil
}
