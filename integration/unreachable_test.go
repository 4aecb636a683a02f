package integration

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// impatient has clients told of upstreams that cannot be reached as early as can be.
func impatient(c *config.Config) { c.Server.UnreachableAfter = config.Duration(time.Second) }

// healthOf asks for the relay's health in gRPC's words.
func healthOf(t testing.TB, addr string, options ...grpc.DialOption) func() healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	conn, err := grpc.NewClient(addr, append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return func() healthpb.HealthCheckResponse_ServingStatus {
		r, err := healthpb.NewHealthClient(conn).Check(context.Background(), new(healthpb.HealthCheckRequest))
		if err != nil {
			t.Fatal(err)
		}
		return r.GetStatus()
	}
}

// TestUnreachable_ABS2 has clients of all variants at a relay that knows nothing and reaches
// no control plane: they are sent away, with the cause, and served as soon as it is there.
func TestUnreachable_ABS2(t *testing.T) {
	t.Parallel() // most of it is waiting
	for _, down := range []variant{deltaADS, delta, sotwADS, sotw} {
		t.Run(down.name, func(t *testing.T) {
			t.Parallel()
			lis := ports.Listen(t)
			addr := lis.Addr().String()
			_ = lis.Close()
			relay := startRelay(t, impatient, addr)
			t.Cleanup(func() {
				if t.Failed() {
					_, up := relay.get(t, "/upstreams")
					_, cl := relay.get(t, "/clients")
					t.Logf("%v\n%s\n%s\n%s", time.Now(), relay.log.String(), up, cl)
				}
			})
			health := healthOf(t, relay.addr)
			c := newVariantClient(t, down, relay.address(down), "client")
			h := c.common()
			ends := func() {
				t.Helper()
				if err := c.connect(true); err != nil {
					t.Fatal(err)
				}
				// Two stores have them.
				c.subscribe(clusterType, []string{"*", "xdstp://a/envoy.config.cluster.v3.Cluster/c"}, nil)
				if !h.happens(func() bool { return !c.connected() }) {
					t.Fatal("the stream goes on")
				}
				err := c.(interface{ ended() error }).ended() //nolint:forcetypeassert // a client over gRPC
				if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), `upstream "plane-0" is unreachable: connection refused`) {
					t.Errorf("the stream ended with %v", err)
				}
				if n := h.count(clusterType); n != 0 {
					t.Errorf("%d responses before the end", n)
				}
			}
			ends()
			ends() // new ones likewise
			waitFor(t, "gRPC's health service to say so", func() bool {
				return health() == healthpb.HealthCheckResponse_NOT_SERVING
			})
			p := emptyPlane()
			p.set(clusterType, "a", true)
			p.start(t, ports.Again(t, addr))
			waitFor(t, "the client to be served", func() bool {
				if !c.connected() {
					if err := c.connect(true); err != nil {
						t.Fatal(err)
					}
				}
				return len(h.all(clusterType)) > 0
			})
			waitFor(t, "gRPC's health service to say so", func() bool { return health() == healthpb.HealthCheckResponse_SERVING })

			p.stop()
			c.subscribe(clusterType, []string{"late"}, nil)
			waitFor(t, "the error of what nobody knows", func() bool { return h.errorOf(clusterType, "late") == codes.Unavailable })
			if !c.connected() {
				t.Error("a stream that was served ended")
			}
			late := newVariantClient(t, down, relay.address(down), "late")
			if err := late.connect(true); err != nil {
				t.Fatal(err)
			}
			late.subscribe(clusterType, []string{"*"}, nil)
			late.common().awaitHolding(t, clusterType, "a") // OPS-1
			if health() != healthpb.HealthCheckResponse_SERVING {
				t.Error("not serving, and serves")
			}
		})
	}
}

// TestUnreachablePolls_ABS2: who polls is refused.
func TestUnreachablePolls_ABS2(t *testing.T) {
	t.Parallel()
	relay := startRelay(t, func(c *config.Config) {
		impatient(c)
		c.Server.RESTWait = config.Duration(time.Minute)
	}, noServer)
	resp, err := http.Post("http://"+relay.rest+"/v3/discovery:clusters", "application/json", strings.NewReader(`{"node": {"id": "client"}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("answered with %s", resp.Status)
	}
}

// TestUnreachableForEver_ABS2: the clients of a relay that is told so wait.
func TestUnreachableForEver_ABS2(t *testing.T) {
	t.Parallel()
	lis := ports.Listen(t)
	addr := lis.Addr().String()
	_ = lis.Close()
	patient := startRelay(t, func(c *config.Config) { c.Server.UnreachableAfter = 0 }, addr)
	other := startRelay(t, impatient, addr)
	waits, leaves := joined(t, patient, "client"), joined(t, other, "client")
	waits.subscribe(clusterType, []string{"*"}, nil)
	leaves.subscribe(clusterType, []string{"*"}, nil)
	if !leaves.happens(func() bool { return !leaves.connected() }) {
		t.Fatal("the stream goes on")
	}
	p := emptyPlane()
	p.set(clusterType, "a", true)
	p.start(t, ports.Again(t, addr))
	waits.awaitHolding(t, clusterType, "a")
}
