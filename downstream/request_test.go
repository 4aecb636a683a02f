package downstream

import (
	"errors"
	"fmt"
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
		{"OPS-5 a name of absurd length", &request{TypeUrl: clusterType, ResourceNamesSubscribe: []string{long}}, codes.ResourceExhausted, "at most 65536"},
		{"OPS-5 an xdstp name of absurd length", &request{TypeUrl: clusterType, ResourceNamesSubscribe: []string{ofA(long)}}, codes.ResourceExhausted, "at most 65536"},
		{"OPS-5 a name of absurd length, unsubscribed", &request{TypeUrl: clusterType, ResourceNamesUnsubscribe: []string{long}}, codes.ResourceExhausted, "at most 65536"},
		{"OPS-5 a request of absurd length", &request{TypeUrl: clusterType, Node: node(strings.Repeat("x", DefaultMaxReceiveSize))}, codes.ResourceExhausted, "larger than max"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				c := h.client()
				c.send(tt.request)
				c.wants()
				c.endedWith(tt.code, tt.part)
				if h.seen.closed[tt.code] != 1 || len(h.server.Streams()) != 0 {
					t.Errorf("closed: %v, streams left: %d", h.seen.closed, len(h.server.Streams()))
				}
			})
		})
	}
	for name, say := range map[string]func(c *client){
		"in one request":   func(c *client) { c.subscribe(clusterType, many(21)...) },
		"that are refused": func(c *client) { c.subscribe(clusterType, make([]string, 21)...) },
	} {
		t.Run("OPS-5 far more subscriptions than allowed "+name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				c := h.client()
				say(c)
				c.endedWith(codes.ResourceExhausted, "21 names")
				c = h.client()
				c.subscribe(clusterType, many(10)...)
				c.subscribe(clusterType, many(10)...) // the same again
				h.opaque.set(clusterType, "1", "0")
				c.wants("Cluster +0=1 -1 -2 -3 -4 -5 -6 -7 -8 -9")
			}, func(c *Config) { c.MaxSubscriptions = 10 })
		})
	}
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

// many are n names.
func many(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return names
}
