package upstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Scopes that the server lets in nobody of (ACC-6) do not keep those out that come later,
// however many they are: the server is there (UPS-2, LIM-2).
func TestUPS2_RefusedScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		u := newUpstream(t, n.config("a"))
		begin := func(token string) {
			s, err := u.NewSession(SessionConfig{
				Node: &corev3.Node{Id: "relay"}, Scope: token, Store: newStore(sub(clusters, "*")),
				Metadata: map[string][]string{"token": {token}},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); _ = s.Run(ctx) }()
			t.Cleanup(func() { cancel(); <-done })
		}
		served := make(chan time.Time, 1)
		stop := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case ss := <-srv.streams:
					md, _ := metadata.FromIncomingContext(ss.Context())
					if md.Get("token")[0] == "good" {
						served <- time.Now()
						ss.respond(clusters, "1", "c")
					} else {
						ss.end <- status.Error(codes.Unauthenticated, "bad token")
					}
				case <-stop:
					return
				}
			}
		}()
		for range 20 {
			begin("bad")
		}
		<-time.After(5 * time.Minute)
		begun := time.Now()
		begin("good")
		select {
		case at := <-served:
			t.Logf("served after %v", at.Sub(begun))
			if at.Sub(begun) > DefaultBackoffMax {
				t.Errorf("served after %v", at.Sub(begun))
			}
		case <-time.After(10 * time.Minute):
			t.Error("never served")
		}
		close(stop)
		<-ended
	})
}
