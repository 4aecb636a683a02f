package relay

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/testkit/tokens"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// Clients whose requests the relay does not read, and answers nevertheless, are no flood: those that ask for its
// health, and those with a token that does not count.
func TestAnsweredRequestsAreNoFlood_LIM2(t *testing.T) {
	bad := "Bearer nonsense" + strings.Repeat("x", 5000) // HPACK does not keep it
	for name, asks := range map[string]func(b *bubbled){
		"health checks": func(b *bubbled) {
			conn := b.dial()
			health := healthpb.NewHealthClient(conn)
			for range 400 {
				if _, err := health.Check(b.Context(), &healthpb.HealthCheckRequest{}); err != nil {
					b.Fatal(err)
				}
				pass(5 * time.Second)
			}
			_ = conn.Close()
		},
		"watches of health": func(b *bubbled) {
			conn := b.dial()
			health := healthpb.NewHealthClient(conn)
			for range 400 {
				ctx, cancel := context.WithCancel(b.Context())
				watch, err := health.Watch(ctx, &healthpb.HealthCheckRequest{})
				if err == nil {
					_, err = watch.Recv()
				}
				if err != nil {
					b.Fatal(err)
				}
				cancel()
				synctest.Wait()
			}
			_ = conn.Close()
		},
		"streams with a bad token": func(b *bubbled) {
			conn := b.dial()
			for range 40 {
				c := xdsclient.New(xdsclient.Options{Conn: conn})
				if err := c.Run(metadata.AppendToOutgoingContext(b.Context(), authorization, bad)); status.Code(err) != codes.Unauthenticated {
					b.Fatal(err)
				}
			}
			_ = conn.Close()
		},
		"polls with a bad token": func(b *bubbled) {
			transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.rest.DialContext(ctx) }}
			client := &http.Client{Transport: bearerOf{transport, []string{bad}}}
			for range 40 {
				answer, err := client.Post("http://relay/v3/discovery:clusters", "application/json", strings.NewReader(`{"node":{"id":"n"}}`))
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				if answer.StatusCode != http.StatusUnauthorized {
					b.Fatal(answer.Status)
				}
				synctest.Wait() // see bubbled.rest
			}
			transport.CloseIdleConnections()
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "keys.json")
			tokens.File(t, file, tokens.NewIssuer(t, issuerName, "1").Key())
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				b := runBubbled(t, func(c *config.Config) {
					c.Server.Identity.JWT = []config.Issuer{{Issuer: issuerName, Audiences: []string{"xds"}, JWKSFile: file}}
				}, func(o *Options) { o.Registry = registry })
				pass(time.Second)
				asks(b)
				pass(time.Minute)
				if present, _ := b.relay.connections.Count(); present != 0 {
					t.Errorf("there are %d connections", present)
				}
				if n := b.limitedBy(registry, downstream.LimitFrames); n != 0 {
					t.Errorf("LIM-2: they were taken for a flood %v times", n)
				}
			})
		})
	}
}
