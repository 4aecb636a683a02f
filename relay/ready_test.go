package relay

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/xdsrelay/xdsrelay/config"
)

// nowhere is an address that nobody listens to.
const nowhere = "127.0.0.1:1"

// secondary is an upstream beside the default one.
func secondary(address string, required bool) config.Upstream {
	u := claiming(upstreamAt("b", address), "b")
	u.Required = required
	return u
}

// readiness reads /readyz as JSON.
func (r *running) readiness() (v readiness, code int) {
	r.Helper()
	resp, err := http.Get("http://" + r.admin + "/readyz?output=json")
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		r.Fatal(err)
	}
	return v, resp.StatusCode
}

// comes waits for a page to have some text.
func (r *running) comes(path, text string) {
	r.Helper()
	for !strings.Contains(r.page(path), text) {
		continue
	}
}

// One upstream that is not there and not required keeps nobody from a relay.
func TestReady_SUR5_notRequired(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", a.address), secondary(nowhere, false)))
	r.comes("/readyz", "ready\nnot reached: b ("+nowhere+": connection refused)")
	v, code := r.readiness()
	if code != http.StatusOK || !v.Ready || len(v.Upstreams) != 2 {
		t.Fatalf("%d: %+v", code, v)
	}
	if u := v.Upstreams[0]; u.Name != "a" || u.State != reachedOnce || !u.Required || !u.Since.IsZero() {
		t.Errorf("a is %+v", u)
	}
	if u := v.Upstreams[1]; u.Name != "b" || u.State != notReached || u.Required || u.Since.IsZero() || u.Cause != nowhere+": connection refused" {
		t.Errorf("b is %+v", u)
	}
	r.shows("/upstreams", `"required": false`, `"required": true`)
}

// An upstream that is required and not there is named, with the time since when.
func TestReady_SUR5_required(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", a.address), secondary(nowhere, true)))
	want := regexp.MustCompile(`^not reached yet: b \(127\.0\.0\.1:1: connection refused\) since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n$`)
	for !want.MatchString(r.page("/readyz")) {
		continue
	}
	if v, code := r.readiness(); code != http.StatusServiceUnavailable || v.Ready || v.Upstreams[1].State != notReached {
		t.Errorf("%d: %+v", code, v)
	}
}

// An upstream need not be reached if its content is there from before.
func TestReady_SUR5_restored(t *testing.T) {
	r, err := New(configOf(upstreamAt("a", nowhere), secondary(nowhere, true)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.serving.Store(true)
	r.hub.present()["a"].reached.Store(true)
	if v := r.health.ready(time.Now()); v.Ready {
		t.Fatalf("ready before: %+v", v)
	}
	r.hub.snapshots = &snapshots{found: map[string]bool{"b": true}}
	if v := r.health.ready(time.Now()); !v.Ready || !strings.Contains(v.text(), "ready\nrestored: b (") {
		t.Errorf("it shows %q, %+v", v.text(), v)
	}
}

// Once a relay was ready only the loss of everything takes that back.
func TestReady_SUR5_whileAnythingIsServed(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	cfg := configOf(upstreamAt("a", a.address))
	cfg.Server.UnreachableAfter = config.Duration(time.Millisecond)
	r := run(t, cfg)
	r.comes("/readyz", "ready")
	c := r.join("client")
	c.holds(contents{"x": "1"})
	a.stop()
	r.comes("/readyz", "ready\nunreachable: a (")
	if v, code := r.readiness(); code != http.StatusOK || !v.Ready || v.Upstreams[0].State != unreachable || v.Upstreams[0].Since.IsZero() {
		t.Errorf("%d: %+v", code, v)
	}
}

// A relay that was ready and has nothing to serve any more says so until it has.
func TestReady_SUR5_nothingToServe(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	cfg := configOf(upstreamAt("a", a.address))
	cfg.Server.UnreachableAfter = config.Duration(time.Millisecond)
	r := run(t, cfg)
	r.comes("/readyz", "ready")
	a.stop()
	c := r.join("client") // whose stream finds out that nobody is there
	defer c.stop()
	r.comes("/readyz", "nothing is cached, and no upstream can be reached: a (")
	newPlaneServerAt(t, a.address, contents{"x": "1"})
	r.comes("/readyz", "ready")
}

// mutePlane takes streams, and answers nothing before it is told to.
type mutePlane struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer

	asked, speak chan struct{}
}

func (p *mutePlane) DeltaAggregatedResources(g discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	r, err := g.Recv()
	if err != nil {
		return err
	}
	close(p.asked)
	<-p.speak
	if err := g.Send(&discovery.DeltaDiscoveryResponse{TypeUrl: r.TypeUrl, Nonce: "n"}); err != nil {
		return err
	}
	<-g.Context().Done()
	return nil
}

// An upstream that takes requests and does not answer is named, and keeps a relay from being ready
// that it never answered.
func TestReady_SUR5_SUR2_mute(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, server := &mutePlane{asked: make(chan struct{}), speak: make(chan struct{})}, grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(server, p)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(lis); err != nil {
			t.Errorf("control plane: %v", err)
		}
	})
	r := run(t, configOf(upstreamAt("a", lis.Addr().String()), secondary(nowhere, true)))
	t.Cleanup(func() {
		r.stop()
		server.Stop()
		serving.Wait()
	})
	r.join("client")
	<-p.asked
	of := func(after time.Duration) upstreamReady {
		return r.relay.health.availabilities(time.Now().Add(after))[0]
	}
	for of(muteAfter).State != mute { // as soon as the relay has noted the request
		continue
	}
	if u := of(muteAfter); u.Since.IsZero() || u.counts() {
		t.Errorf("an upstream that never answered is %+v", u)
	}
	if u := of(0); u.State != reachedOnce {
		t.Errorf("before it had time to answer it is %+v", u)
	}
	close(p.speak)
	for of(muteAfter).Answered.IsZero() {
		continue
	}
	if u := of(muteAfter); u.State != reachedOnce || !u.counts() {
		t.Errorf("once it has answered it is %+v", u)
	}
}

// A relay that has just begun and has nothing says that it serves nobody, under the name of each
// service, and tells whoever watches as soon as it does.
func TestHealth_ABS2_cold(t *testing.T) {
	r := run(t, configOf(upstreamAt("a", nowhere)))
	conn, err := grpc.NewClient(r.xds, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	health := healthpb.NewHealthClient(conn)
	names := []string{
		"", "envoy.service.discovery.v3.AggregatedDiscoveryService", "envoy.service.cluster.v3.ClusterDiscoveryService",
		"envoy.service.load_stats.v3.LoadReportingService",
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := health.Watch(ctx, &healthpb.HealthCheckRequest{Service: names[1]})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if said, err := watch.Recv(); err != nil || said.Status != want {
			t.Fatalf("who watches is told %v, %v", said, err)
		}
		for _, name := range names {
			if said, err := health.Check(ctx, &healthpb.HealthCheckRequest{Service: name}); err != nil || said.Status != want {
				t.Errorf("%q is %v, %v, want %v", name, said, err, want)
			}
		}
	}
	next(healthpb.HealthCheckResponse_NOT_SERVING)
	a := newPlaneServer(t, contents{"x": "1"})
	r.reload(func(c *config.Config) { c.Upstreams[0].Endpoints = [][]string{{a.address}} })
	next(healthpb.HealthCheckResponse_SERVING)
}

// An upstream that answered a client counts as reached, whether or not the relay's own first
// attempt to reach it came through before it went away.
func TestReady_SUR5_answeredBeforeItWasTried(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", a.address)))
	c := r.join("client")
	c.holds(contents{"x": "1"})
	r.relay.hub.present()["a"].reached.Store(false)
	if all := r.relay.health.availabilities(time.Now()); all[0].State != reachedOnce {
		t.Errorf("it is %+v", all[0])
	}
}
