package integration

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
)

// Clients whose tokens the control plane does not take are told so, also while it serves
// others, and these are served whoever came before (ABS-2, ACC-6).
func TestDenied_ABS2(t *testing.T) {
	t.Parallel() // most of it is waiting
	for _, first := range []string{"good", "bad"} {
		t.Run(first+" first", func(t *testing.T) {
			t.Parallel()
			p := newPlane(t, grpc.StreamInterceptor(func(srv any, g grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
				if md, _ := metadata.FromIncomingContext(g.Context()); !strings.HasPrefix(md.Get("token")[0], "good") {
					return status.Errorf(codes.Unauthenticated, "no such token as that of %s", md.Get("whose"))
				}
				return handler(srv, g)
			}))
			p.set(clusterType, "c1", true)
			relay := startRelay(t, func(c *config.Config) {
				impatient(c)
				c.Upstreams[0].Forward = []string{"token", "whose"}
			}, p.addr)
			join := func(node, token string) *client {
				t.Helper()
				c := newClient(t, relay.addr, node, with("token", token, "whose", node))
				if err := c.connect(false); err != nil {
					t.Fatal(err)
				}
				c.subscribe(clusterType, []string{"*"}, nil)
				return c
			}
			good := func(node string) {
				t.Helper()
				c := join(node, "good")
				c.awaitHolding(t, clusterType, "c1")
				if !c.connected() {
					t.Error("the stream of a client that is let in ended")
				}
			}
			bad := func(node string) {
				t.Helper()
				c := join(node, "bad")
				c.await(t, "the end of a stream that is not let in", func() bool { return !c.connected() })
				if err := c.ended(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "no such token as that of ["+node+"]") {
					t.Errorf("ended with %v", err)
				}
			}
			if first == "good" {
				good("a")
			}
			bad("b")
			bad("c")
			bad("b")
			good("d")
			bad("e")
		})
	}
}
