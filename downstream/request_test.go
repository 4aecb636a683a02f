package downstream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestRequests(t *testing.T) {
	long := strings.Repeat("x", maxNameLength+1)
	for _, tt := range []struct {
		name    string
		request *request
		code    codes.Code
		part    string
	}{
		{"VAR-10 without a type URL", &request{Node: node("n"), ResourceNamesSubscribe: []string{"a"}}, codes.InvalidArgument, "every request must name its resource type"},
		{"OPS-5 a type URL of absurd length", &request{TypeUrl: long}, codes.ResourceExhausted, "at most 512"},
		{"OPS-5 a request of absurd length", &request{TypeUrl: clusterType, Node: node(strings.Repeat("x", DefaultMaxReceiveSize))}, codes.ResourceExhausted, "larger than max"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				c := h.client()
				c.send(tt.request)
				c.wants()
				c.endedWith(tt.code, tt.part)
				if h.seen.closed[tt.code] != 1 || len(h.server.Clients(nil, nil)) != 0 {
					t.Errorf("closed: %v, streams left: %d", h.seen.closed, len(h.server.Clients(nil, nil)))
				}
			})
		})
	}
	for name, say := range map[string]struct {
		names    []string
		answered int
	}{
		"in one request":   {many(30), 20},
		"that are refused": {append(many(10), bad(30)...), 20},
	} {
		t.Run("ABS-4 OPS-5 far more subscriptions than allowed "+name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				h.opaque.set(clusterType, "1", many(10)...)
				c := h.client()
				c.subscribe(clusterType, say.names...)
				h.quiet()
				got, errs := c.take(), 0
				for _, r := range got {
					errs += len(r.ResourceErrors)
				}
				if held := holds(got); len(held) != 10 || errs != say.answered {
					h.Errorf("the client holds %v and was told %d errors, want %d", held, errs, say.answered)
				}
				if n := h.seen.refused[codes.ResourceExhausted] + h.seen.refused[codes.InvalidArgument]; n != len(say.names)-10 {
					h.Errorf("%d refusals counted, want %d", n, len(say.names)-10)
				}
				h.opaque.set(clusterType, "2", "0")
				c.wants("Cluster +0=2")
			}, func(c *Config) { c.PerClient.Subscriptions = 10 })
		})
	}
	for name, spelling := range map[string]string{"a name": long, "an xdstp name": ofA(long)} {
		t.Run("ABS-4 OPS-5 "+name+" of absurd length costs nothing but itself", func(t *testing.T) {
			bubble(t, func(h *harness) {
				h.opaque.set(clusterType, "1", "a")
				c, s := h.client(), h.state()
				c.subscribe(clusterType, spelling, "a")
				got := c.take()
				if e := got[0].ResourceErrors; len(e) != 1 || e[0].ResourceName.Name != spelling || e[0].ErrorDetail.Code != int32(codes.ResourceExhausted) {
					h.Errorf("the client is told %v", e)
				}
				if !slices.Contains(got[0].RemovedResources, spelling) || holds(got)["a"] != "1" {
					h.Error("the client is not told that the name does not exist, or not of the other one")
				}
				c.unsubscribe(clusterType, spelling)
				s.asks(clusterType, spelling, "a")
				h.quiet()
				lists := s.take()
				if last := lists[len(lists)-1]; len(last.Resources) != 1 {
					h.Errorf("the list has %d resources", len(last.Resources))
				}
				h.opaque.set(clusterType, "2", "a")
				c.wants("Cluster +a=2")
				s.wants("Cluster a@2")
				if n := h.seen.refused[codes.ResourceExhausted]; n != 2 {
					h.Errorf("%d refusals counted, want 2", n)
				}
			})
		})
	}
	t.Run("ABS-4 RES-9 a name too long for any response is only counted", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.subscribe(clusterType, long, "a")
			c.wants("Cluster +a=1")
			if n := h.seen.refused[codes.ResourceExhausted]; n != 1 {
				h.Errorf("%d refusals counted, want 1", n)
			}
		}, func(c *Config) { c.MaxMessageSize = 100_000 })
	})
	t.Run("OPS-5 more types than there are", func(t *testing.T) {
		bubble(t, func(h *harness) {
			c := h.client()
			for i := range maxTypes + 1 {
				c.subscribe(fmt.Sprint("type.googleapis.com/t", i), "a")
			}
			c.endedWith(codes.ResourceExhausted, "more than 256 types")
		})
	})
	t.Run("OPS-5 versions with a name of absurd length are left out", func(t *testing.T) {
		bubble(t, func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.client()
			c.send(&request{TypeUrl: clusterType, Node: node(strings.Repeat("n", 1<<20)), InitialResourceVersions: map[string]string{long: "1", "a": "1"}})
			h.quiet()
			h.opaque.settle()
			c.wants()
			if s := h.status(); len(s.Node) > maxShown+len("…") {
				t.Errorf("the admin port shows a node of %d bytes", len(s.Node))
			}
		})
	})
}

func TestScopes_AGG2(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		code codes.Code
		part string
	}{
		{"refused by rule", &rules.RefusedError{Node: "n", TypeURL: clusterType, Rule: "otherwise"}, codes.PermissionDenied, "otherwise"},
		{"refused, wrapped", fmt.Errorf("scope: %w", &rules.RefusedError{Rule: "otherwise"}), codes.PermissionDenied, "otherwise"},
		{"no scope can be worked out", errors.New("the node has no id"), codes.InvalidArgument, "no id"},
		{"a status", status.Error(codes.FailedPrecondition, "no default upstream"), codes.FailedPrecondition, "no default"},
	} {
		t.Run("AGG-2 "+tt.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				h.router.scoped = func(*corev3.Node, string, keyer.Peer) (*cache.Store, error) { return nil, tt.err }
				h.a.set(clusterType, "1", ofA("x"))
				c := h.client()
				c.send(&request{TypeUrl: clusterType, ResourceNamesSubscribe: []string{ofA("x")}, InitialResourceVersions: map[string]string{"a": "1"}})
				c.wants("Cluster +" + ofA("x") + "=1") // NAME-2: no scope is needed
				c.subscribe(clusterType, "a")
				c.wants()
				c.endedWith(tt.code, tt.part)

				wild := h.client()
				wild.subscribe(listenerType)
				wild.endedWith(tt.code, tt.part)
			})
		})
	}
}

// bad are n names that are refused.
func bad(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("xdstp:", i)
	}
	return names
}

// many are n names.
func many(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return names
}
