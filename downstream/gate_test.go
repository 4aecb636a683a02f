package downstream

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const reflectionMethod = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"

// bounded has a server with so many places, and with the other limits that operators have.
func bounded(streams int) func(*Config) {
	return func(c *Config) {
		c.PerClient = ClientLimits{Streams: streams, Share: 1, FirstRequest: 10 * time.Second}
	}
}

// watch opens a stream of gRPC's health service. err is that of its first response.
func (h *harness) watch(ctx context.Context, conn *grpc.ClientConn, service string) error {
	h.Helper()
	stream, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		h.Fatal(err)
	}
	_, err = stream.Recv()
	return err
}

// check asks gRPC's health service.
func (h *harness) check(conn *grpc.ClientConn) error {
	h.Helper()
	_, err := healthpb.NewHealthClient(conn).Check(h.Context(), new(healthpb.HealthCheckRequest))
	return err
}

// Calls of other services take places of streams, and give them back. So do calls that have sent nothing yet.
func TestCalls_LIM1(t *testing.T) {
	for name, hold := range map[string]func(h *harness, ctx context.Context, conn *grpc.ClientConn){
		"health that is watched": func(h *harness, ctx context.Context, conn *grpc.ClientConn) {
			h.Helper()
			if err := h.watch(ctx, conn, ""); err != nil {
				h.Fatal(err)
			}
		},
		"a health check that sends nothing": func(h *harness, ctx context.Context, conn *grpc.ClientConn) {
			h.Helper()
			h.callsOnly(ctx, conn, healthpb.Health_Check_FullMethodName)
		},
		"a stream of another service": func(h *harness, ctx context.Context, conn *grpc.ClientConn) {
			h.Helper()
			h.callsOnly(ctx, conn, reflectionMethod)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				c := h.client()
				c.subscribe(clusterType, "a")
				h.quiet()
				ctx, cancel := context.WithCancel(h.Context())
				defer cancel()
				conn := h.dial()
				hold(h, ctx, conn)
				hold(h, ctx, conn)
				h.quiet()
				h.client().endedWith(codes.Unavailable, "limits.streams")
				if err := h.check(conn); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "limits.streams") {
					h.Errorf("LIM-1: a health check beyond the limit: %v", err)
				}
				h.limited(LimitStreams, 2)
				cancel()
				h.quiet()
				if err := h.check(conn); err != nil {
					h.Errorf("a health check when there is room: %v", err)
				}
				next := h.client()
				next.subscribe(clusterType, "a")
				next.wants("Cluster -a")
			}, bounded(3), func(c *Config) { c.DebugServices = true })
		})
	}
}

// The share of one address counts calls and streams together (LIM-1).
func TestCalls_LIM1_share(t *testing.T) {
	bubble(t, func(h *harness) {
		conn := h.dial()
		for range 4 {
			if err := h.watch(h.Context(), conn, ""); err != nil {
				h.Fatal(err)
			}
		}
		h.server.mu.Lock()
		taken := 0
		for _, n := range h.server.clientsOf() {
			taken += n
		}
		h.server.mu.Unlock()
		if taken != 4 {
			h.Errorf("%d places are taken by clients that are known, want 4", taken)
		}
	}, bounded(8))
}

// callsOnly begins a stream of a method, and sends nothing.
func (h *harness) callsOnly(ctx context.Context, conn *grpc.ClientConn, method string) grpc.ClientStream {
	h.Helper()
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		h.Fatal(err)
	}
	return s
}

// A call that sends no request ends as a stream of discovery does, whatever its method (LIM-1).
func TestCalls_LIM1_firstRequest(t *testing.T) {
	bubble(t, func(h *harness) {
		conn := h.dial()
		methods := []string{healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName, reflectionMethod}
		var calls []grpc.ClientStream
		for _, method := range methods {
			calls = append(calls, h.callsOnly(h.Context(), conn, method))
		}
		h.advance(10*time.Second - tick)
		h.limited(LimitFirstRequest, 0)
		h.advance(tick)
		for i, call := range calls {
			if err := call.RecvMsg(new(healthpb.HealthCheckResponse)); status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "no request") {
				h.Errorf("%s ends with %v", methods[i], err)
			}
		}
		h.limited(LimitFirstRequest, len(methods))
		if err := h.watch(h.Context(), conn, ""); err != nil {
			h.Fatal(err)
		}
		h.advance(time.Hour)
		h.limited(LimitFirstRequest, len(methods))
		if n := len(h.server.calls); n != 1 {
			h.Errorf("%d calls are left, want the one that watches", n)
		}
	}, bounded(100), func(c *Config) { c.DebugServices = true })
}

// One connection watches health eight times at most. Another one may too (LIM-1).
func TestWatches_LIM1(t *testing.T) {
	bubble(t, func(h *harness) {
		conn, other := h.dial(), h.dial()
		ctx, cancel := context.WithCancel(h.Context())
		defer cancel()
		for range 8 {
			if err := h.watch(ctx, conn, ""); err != nil {
				h.Fatal(err)
			}
		}
		for range 2 {
			if err := h.watch(h.Context(), conn, ""); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "calls of this method") {
				h.Errorf("the ninth stream that watches: %v", err)
			}
		}
		h.limited(LimitWatches, 2)
		if err := h.check(conn); err != nil {
			h.Errorf("a health check beside them: %v", err)
		}
		if err := h.watch(h.Context(), other, ""); err != nil {
			h.Errorf("another connection: %v", err)
		}
		cancel()
		h.quiet()
		if err := h.watch(h.Context(), conn, ""); err != nil {
			h.Errorf("once the first ones have ended: %v", err)
		}
		if n := len(h.server.watches); n != 2 {
			h.Errorf("%d connections watch, want 2", n)
		}
	}, bounded(100))
}

// Health checks with long names are refused, and nothing of them is kept (LIM-3).
func TestHealthMemory_LIM1_LIM3(t *testing.T) {
	bubble(t, func(h *harness) {
		const calls, name = 1000, 60 << 10
		conn, service := h.dial(), strings.Repeat("n", name)
		before, refused := live(), 0
		for range calls {
			if err := h.watch(h.Context(), conn, service); status.Code(err) == codes.ResourceExhausted {
				refused++
			}
		}
		h.quiet()
		if refused != calls {
			h.Errorf("LIM-1: %d health checks of %d were refused", refused, calls)
		}
		if kept := live() - before; kept > calls*name/4 {
			h.Errorf("LIM-3: %d health checks have %d KiB kept", calls, kept>>10)
		}
	}, bounded(10_000))
}

// Each method that is registered has a row, and each row is that of a method.
func TestRows_LIM1(t *testing.T) {
	s := NewServer(Config{DebugServices: true})
	defer s.Stop()
	without := maps.Clone(rows)
	for service, info := range s.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			method := "/" + service + "/" + m.Name
			if r, ok := rows[method]; !ok || r.part == "" {
				t.Errorf("%s has no row, or one without its part: %+v", method, r)
			}
			delete(without, method)
		}
	}
	for method := range without {
		if !strings.Contains(method, "/envoy.service.load_stats.") { // of another package, whose tests see its rows
			t.Errorf("there is a row for %s, and no such method", method)
		}
	}
}

// docs/security.md says of each method what its row says.
func TestRows_LIM1_documented(t *testing.T) {
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Streams by method\n")
	table, _, _ = strings.Cut(table, "\n## ")
	cells := map[string]string{} // by pattern of methods
	for line := range strings.Lines(table) {
		if cell := strings.Split(line, " | "); len(cell) == 5 && strings.HasPrefix(line, "| `") {
			for pattern := range strings.SplitSeq(strings.TrimPrefix(cell[0], "| "), ", ") {
				cells[strings.Trim(pattern, "`")] = strings.Join(cell[1:4], " | ")
			}
		}
	}
	for method, r := range rows {
		want := []string{"`server.max_receive_size`", "`limits.streams_per_connection`", "refused"}
		switch {
		case r.refused != nil:
			want[0], want[1] = "refused", "–"
		case r.bytes >= 1<<20:
			want[0] = fmt.Sprintf("%d MiB", r.bytes>>20)
		case r.bytes > 0:
			want[0] = fmt.Sprintf("%d KiB", r.bytes>>10)
		}
		if r.watches > 0 {
			want[1] = strconv.Itoa(r.watches)
		}
		if r.brief {
			want[2] = "begins"
		}
		var says []string
		for pattern, cell := range cells {
			if ok, err := path.Match(pattern, strings.TrimPrefix(method, "/")); err != nil {
				t.Fatal(err)
			} else if ok {
				says = append(says, cell)
			}
		}
		if want := strings.Join(want, " | "); !slices.Equal(says, []string{want}) {
			t.Errorf("%s: docs/security.md says %q, want %q", method, says, want)
		}
	}
}

// A method without a row is refused, whatever its handler would do, and so is one that is there to be refused.
func TestRows_LIM1_refused(t *testing.T) {
	r := rows[reflectionMethod]
	delete(rows, reflectionMethod)
	defer func() { rows[reflectionMethod] = r }()
	bubble(t, func(h *harness) {
		conn := h.dial()
		for method, text := range map[string]string{
			reflectionMethod: "no row",
			"/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters": "not fetched",
		} {
			err := h.callsOnly(h.Context(), conn, method).RecvMsg(new(healthpb.HealthCheckResponse))
			if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), text) {
				h.Errorf("%s ends with %v", method, err)
			}
		}
	}, bounded(100), func(c *Config) { c.DebugServices = true })
}

// shortOfMemory is an Admission that has no room.
type shortOfMemory struct{ fullHouse }

func (shortOfMemory) Room() error { return status.Error(codes.Unavailable, "short of memory") }

// While memory is very short no stream begins, whatever its method, but for calls that keep nothing (LIM-3).
func TestRows_LIM3(t *testing.T) {
	bubble(t, func(h *harness) {
		h.server.Admit(shortOfMemory{})
		conn := h.dial()
		for method, r := range rows {
			if r.refused != nil || strings.Contains(method, "load_stats") {
				continue
			}
			ctx, cancel := context.WithCancel(h.Context())
			call := h.callsOnly(ctx, conn, method)
			h.quiet()
			if r.brief {
				cancel()
				continue
			}
			if err := call.RecvMsg(new(healthpb.HealthCheckResponse)); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "short of memory") {
				h.Errorf("%s ends with %v", method, err)
			}
			cancel()
		}
		if err := h.check(conn); err != nil {
			h.Errorf("a health check: %v", err)
		}
	}, bounded(100), func(c *Config) { c.DebugServices = true })
}
