package relay

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/xdsrelay/xdsrelay/config"
	testplane "github.com/xdsrelay/xdsrelay/internal/testkit/plane"
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
	code, body := r.ask(http.MethodGet, "/readyz?output=json", "")
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		r.Fatal(err)
	}
	return v, code
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
	a.Stop()
	r.comes("/readyz", "ready\nunreachable: a (")
	if v, code := r.readiness(); code != http.StatusOK || !v.Ready || v.Upstreams[0].State != unreachable || v.Upstreams[0].Since.IsZero() {
		t.Errorf("%d: %+v", code, v)
	}
}

// An upstream that is away does not take readiness back, though nothing is cached. Clients that end unserved do, until
// it is there again.
func TestReady_SUR5_unserved(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	cfg := configOf(upstreamAt("a", a.address))
	cfg.Server.UnreachableAfter = config.Duration(time.Millisecond)
	r := run(t, cfg)
	r.comes("/readyz", "ready")
	a.Stop()
	for range 3 {
		c := r.join("client")
		c.comesTo("an end", func() bool { return c.ended != nil })
	}
	r.comes("/readyz", "streams end unserved, no other is served, and no upstream can be reached that they need: a (")
	if v, code := r.readiness(); code != http.StatusServiceUnavailable || v.Ready {
		t.Errorf("%d: %+v", code, v)
	}
	newPlaneServerAt(t, a.address, contents{"x": "1"})
	r.comes("/readyz", "ready\n")
	r.join("client").holds(contents{"x": "1"})
	if v, _ := r.readiness(); len(v.Scopes) != 1 || v.Scopes[0].Upstream != "a" || v.Scopes[0].Resources == 0 {
		t.Errorf("it can serve %+v", v.Scopes)
	}
}

// The relay is not ready from the third stream on that ends unserved within half a minute, while nobody is served. That
// ends with an upstream that is reached or with content, and after a minute at the latest.
func TestUnserved_SUR5(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	away, there := []upstreamReady{{Name: "a", away: true}, {Name: "b"}}, []upstreamReady{{Name: "a"}, {Name: "b"}}
	never, always := func() bool { return false }, func() bool { return true }
	type step struct {
		at        int
		upstreams []upstreamReady
		resources int64
		serving   func() bool
		red       bool
	}
	for name, c := range map[string]struct {
		ends   []int // seconds at which streams end unserved
		polled int   // when a poll was answered; 0: never
		steps  []step
	}{
		"two are too few":                  {[]int{1, 2}, 0, []step{{2, away, 0, never, false}}},
		"three within half a minute":       {[]int{1, 2, 31}, 0, []step{{31, away, 0, never, true}, {32, away, 0, always, true}}},
		"three in a longer time":           {[]int{1, 2, 33}, 0, []step{{33, away, 0, never, false}}},
		"another stream is served":         {[]int{1, 2, 3}, 0, []step{{3, away, 0, always, false}, {4, away, 0, never, true}}},
		"a poll was answered":              {[]int{1, 2, 33, 34, 35}, 5, []step{{35, away, 0, never, false}, {36, away, 0, never, true}}},
		"all upstreams can be reached":     {[]int{1, 2, 3}, 0, []step{{3, there, 0, never, false}}},
		"an upstream alone is away":        {nil, 0, []step{{3, away, 0, never, false}, {100, away, 0, never, false}}},
		"until the upstream is reached":    {[]int{1, 2, 3}, 0, []step{{3, away, 0, never, true}, {9, there, 0, never, false}, {10, away, 0, never, false}}},
		"until there is content":           {[]int{1, 2, 3}, 0, []step{{3, away, 7, never, true}, {9, away, 7, never, true}, {10, away, 8, never, false}}},
		"a minute at most, and then again": {[]int{1, 2, 3, 50, 51, 52}, 0, []step{{52, away, 0, never, true}, {111, away, 0, never, true}, {112, away, 0, never, false}, {113, away, 0, never, false}}},
	} {
		var u unserved
		for _, end := range c.ends {
			u.note(at(end))
		}
		if c.polled > 0 {
			u.polled.Store(at(c.polled).UnixNano())
		}
		for _, s := range c.steps {
			since := u.judge(at(s.at), supplies{s.upstreams, s.resources, s.serving})
			if red := !since.IsZero(); red != s.red {
				t.Errorf("SUR-5: %s: after %d s it is not ready: %v, want %v", name, s.at, red, s.red)
			}
		}
	}
}

// With ready.unserved: off nothing that ends unserved takes readiness back.
func TestReady_SUR5_unservedOff(t *testing.T) {
	for how, want := range map[config.Unserved]bool{config.UnservedOn: false, config.UnservedOff: true} {
		cfg := configOf(upstreamAt("a", nowhere))
		cfg.Ready.Unserved = how
		r, err := New(cfg, Options{})
		if err != nil {
			t.Fatal(err)
		}
		r.serving.Store(true)
		r.health.complete.Store(true)
		for range 3 {
			r.health.unserved.Unserved("delta")
		}
		if v := r.health.ready(time.Now()); v.Ready != want {
			t.Errorf("%s: ready is %v: %s", how, v.Ready, v.Reason)
		}
	}
}

// A relay that begins waits half a minute for all required upstreams, and then for one.
func TestReady_SUR5_start(t *testing.T) {
	r, err := New(configOf(upstreamAt("a", nowhere), secondary(nowhere, true)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.serving.Store(true)
	r.started = time.Now()
	ready := func(after time.Duration) *readiness { return r.health.ready(r.started.Add(after)) }
	if v := ready(time.Hour); v.Ready {
		t.Errorf("ready though no required upstream was reached: %s", v.Reason)
	}
	r.hub.present()["a"].reached.Store(true)
	if v := ready(startGrace - time.Second); v.Ready || !strings.HasPrefix(v.Reason, "not reached yet: b (") {
		t.Errorf("before its time: ready is %v: %s", v.Ready, v.Reason)
	}
	if v := ready(startGrace); !v.Ready || !strings.Contains(v.text(), "not reached: b (") {
		t.Errorf("SUR-5: ready is %v: %s", v.Ready, v.text())
	}
	r.hub.present()["a"].reached.Store(false)
	if v := ready(startGrace + time.Second); !v.Ready {
		t.Errorf("an upstream's absence alone took it back: %s", v.Reason)
	}
}

// /healthz is what /livez is.
func TestHealthz_SUR5(t *testing.T) {
	r := run(t, configOf(upstreamAt("a", nowhere)))
	if code, body := r.ask(http.MethodGet, "/healthz", ""); code != http.StatusOK || body != r.page("/livez") {
		t.Errorf("%d: %q", code, body)
	}
}

// An upstream that takes requests and does not answer is named, and keeps a relay from being ready
// that it never answered.
func TestReady_SUR5_SUR2_mute(t *testing.T) {
	p := newPlaneServer(t, contents{})
	p.Behave(func(b *testplane.Behaviour) { b.Mute = true })
	r := run(t, configOf(upstreamAt("a", p.address), secondary(nowhere, true)))
	r.join("client")
	p.opens()
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
	p.Behave(func(b *testplane.Behaviour) { b.Mute = false })
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
