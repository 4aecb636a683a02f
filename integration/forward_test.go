package integration

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
)

// ledger has what came with the streams of a control plane, or with its polls.
type ledger struct {
	mu      sync.Mutex
	streams []metadata.MD
}

func (l *ledger) note(md metadata.MD) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = append(l.streams, md)
}

func (l *ledger) intercept(srv any, g grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	md, _ := metadata.FromIncomingContext(g.Context())
	l.note(md)
	return handler(srv, g)
}

// of lists the values that a name had, by stream, sorted; "-" where it had none.
func (l *ledger) of(name string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, md := range l.streams {
		values := md.Get(name)
		if len(values) == 0 {
			values = []string{"-"}
		}
		all = append(all, strings.Join(values, ","))
	}
	slices.Sort(all)
	return all
}

// hides holds the relay to showing a text nowhere (OPS-6).
func (r *testRelay) hides(t *testing.T, secret string) {
	t.Helper()
	for _, page := range []string{"/upstreams", "/clients", "/scopes", "/config", "/metrics", "/resources", "/readyz"} {
		if _, shown := r.get(t, page); strings.Contains(shown, secret) {
			t.Errorf("%s shows what is secret", page)
		}
	}
	if strings.Contains(r.log.String(), secret) {
		t.Error("the log has what is secret")
	}
}

// with has a client send metadata with its streams.
func with(pairs ...string) grpc.DialOption {
	return grpc.WithStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string,
		streamer grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		return streamer(metadata.AppendToOutgoingContext(ctx, pairs...), d, cc, method, opts...)
	})
}

// What clients bring goes to the control plane, and those who bring something else share
// nothing with them, whatever the rules say. Nobody but the control plane sees it.
func TestForward_ACC6_OPS6(t *testing.T) {
	const xdstp = "xdstp://a.test/envoy.config.cluster.v3.Cluster/c"
	seen := new(ledger)
	p := newPlane(t, grpc.StreamInterceptor(seen.intercept))
	p.set(clusterType, "c1", true)
	p.set(clusterType, xdstp, false)
	relay := startRelay(t, func(c *config.Config) {
		c.Upstreams[0].Metadata = config.Headers{"x-relay": {"static-s3cret"}, "x-relay-bin": {"AAE="}}
		c.Upstreams[0].Forward = []string{"x-consul-token", "authorization", "trace-bin"}
	}, p.addr)
	join := func(node string, pairs ...string) *client {
		t.Helper()
		c := newClient(t, relay.addr, node, with(pairs...))
		if err := c.connect(false); err != nil {
			t.Fatal(err)
		}
		c.subscribe(clusterType, []string{"*", xdstp}, nil)
		c.awaitHolding(t, clusterType, "c1", xdstp)
		return c
	}
	join("a", "x-consul-token", "token-s3cret-1", "cookie", "none of its business")
	join("b", "x-consul-token", "token-s3cret-1")
	join("c", "x-consul-token", "token-s3cret-2", "trace-bin", "\x00\xff")
	join("d")
	// Two sessions each: of what is opaque, and of xdstp names.
	want := []string{"-", "-", "token-s3cret-1", "token-s3cret-1", "token-s3cret-2", "token-s3cret-2"}
	if got := seen.of("x-consul-token"); !slices.Equal(got, want) {
		t.Errorf("tokens %v, want %v", got, want)
	}
	for name, want := range map[string]string{
		"x-relay": "static-s3cret", "x-relay-bin": "\x00\x01", "cookie": "-", "authorization": "-",
	} {
		if got := slices.Compact(seen.of(name)); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := slices.Compact(seen.of("trace-bin")); !slices.Equal(got, []string{"\x00\xff", "-"}) && !slices.Equal(got, []string{"-", "\x00\xff"}) {
		t.Errorf("trace-bin: %q", got)
	}

	relay.hides(t, "s3cret")
	relay.consistent(t)

	bad := newClient(t, relay.addr, "e", with("x-consul-token", strings.Repeat("s3cret", 10_000)))
	if err := bad.connect(false); err != nil {
		t.Fatal(err)
	}
	bad.subscribe(clusterType, []string{"*"}, nil)
	bad.await(t, "the refusal", func() bool { return !bad.connected() })
	if err := bad.ended(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("OPS-5: ended with %v", err)
	}
}

// The relay shows a control plane the token of a file, the new one once the file has another. What the
// control plane says of a token is not shown.
func TestTokenFile_ACC6_OPS6(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	renew := func(token string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	renew("s3cret-1")
	seen := new(ledger)
	p := newPlane(t, grpc.StreamInterceptor(func(srv any, g grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		md, _ := metadata.FromIncomingContext(g.Context())
		if token := strings.Join(md.Get("authorization"), ","); token == "Bearer s3cret-2" {
			return status.Errorf(codes.Unauthenticated, "%s is on no list", token)
		}
		return seen.intercept(srv, g, info, handler)
	}))
	p.set(clusterType, "c1", true)
	relay := startRelay(t, func(c *config.Config) {
		c.Upstreams[0].Credentials.TokenFile = file
		c.Upstreams[0].Metadata = config.Headers{"x-relay": {"static"}}
	}, p.addr)
	c := newClient(t, relay.addr, "a")
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "c1")
	taken := func(n int) func() bool {
		return func() bool { return strings.Count(relay.log.String(), "token file taken up") == n }
	}
	renew("s3cret-2")
	waitFor(t, "the second token", taken(1))
	p.breakStreams()
	waitFor(t, "a refused token", func() bool { return strings.Contains(relay.log.String(), "(hidden) is on no list") })
	renew("s3cret-3")
	waitFor(t, "the third token", taken(2))
	p.set(clusterType, "c2", true)
	c.awaitHolding(t, clusterType, "c1", "c2")
	for name, want := range map[string][]string{"authorization": {"Bearer s3cret-1", "Bearer s3cret-3"}, "x-relay": {"static"}} {
		if got := slices.Compact(seen.of(name)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if !c.connected() {
		t.Error("the client lost its stream")
	}
	relay.hides(t, "s3cret")
	relay.consistent(t)
}

// Polls carry it as headers, in both directions.
func TestForwardREST_ACC6(t *testing.T) {
	seen, p := new(ledger), newRESTPlane(t)
	p.set([]string{"a=one"}, nil)
	p.see(func(r *http.Request) {
		md := metadata.MD{}
		for name, values := range r.Header {
			md.Append(name, values...)
		}
		seen.note(md)
	})
	relay := startRelay(t, func(c *config.Config) {
		c.Upstreams[0].APIType = config.REST
		c.Upstreams[0].Metadata = config.Headers{"x-relay": {"one", "two"}, "x-relay-bin": {"AAE="}}
		c.Upstreams[0].Forward = []string{"authorization", "trace-bin"}
	}, p.addr)
	c := newClient(t, relay.addr, "a", with("authorization", "Bearer t", "trace-bin", "\x00\xff"))
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "a")
	for name, want := range map[string]string{"x-relay": "one,two", "x-relay-bin": "AAE", "authorization": "Bearer t", "trace-bin": "AP8"} {
		if got := slices.Compact(seen.of(name)); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}

	poll, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+relay.rest+"/v3/discovery:clusters",
		strings.NewReader(`{"node": {"id": "poller"}}`))
	if err != nil {
		t.Fatal(err)
	}
	poll.Header.Set("Content-Type", "application/json")
	poll.Header.Set("Authorization", "Bearer polled")
	poll.Header.Set("Trace-Bin", "AP8=")
	answer, err := http.DefaultClient.Do(poll)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(body), `"a"`) {
		t.Errorf("the poll was answered with %s, %v", body, err)
	}
	if got := slices.Compact(seen.of("authorization")); !slices.Equal(got, []string{"Bearer polled", "Bearer t"}) {
		t.Errorf("authorization of polls: %q", got)
	}
	relay.consistent(t)
}

// So do polls with the token of a file.
func TestTokenFileREST_ACC6(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, p := make(chan string, 1), newRESTPlane(t)
	p.set([]string{"a=one"}, nil)
	p.see(func(r *http.Request) {
		select {
		case tokens <- strings.Join(r.Header.Values("Authorization"), ","):
		default:
		}
	})
	relay := startRelay(t, func(c *config.Config) {
		c.Upstreams[0].APIType = config.REST
		c.Upstreams[0].Credentials.TokenFile = file
	}, p.addr)
	c := newClient(t, relay.addr, "a")
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "a")
	if got := <-tokens; got != "Bearer t" {
		t.Errorf("authorization of a poll: %q", got)
	}
}

// A reload that has other metadata passed on leads clients to other sessions; one that
// changes what is static gives the sessions new streams, and clients notice nothing.
func TestForwardReload_ACC6(t *testing.T) {
	seen := new(ledger)
	p := newPlane(t, grpc.StreamInterceptor(seen.intercept))
	p.set(clusterType, "c1", true)
	relay := startRelay(t, func(c *config.Config) { c.Upstreams[0].Metadata = config.Headers{"x-relay": {"before"}} }, p.addr)
	c := newClient(t, relay.addr, "a", with("x-consul-token", "t"))
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "c1")
	last := func(name, value string) func() bool {
		return func() bool { return slices.Contains(seen.of(name), value) }
	}
	relay.mustReload(t, func(c *config.Config) { c.Upstreams[0].Metadata = config.Headers{"x-relay": {"after"}} })
	waitFor(t, "a stream with other static metadata", last("x-relay", "after"))
	if !c.connected() {
		t.Error("the client lost its stream")
	}
	relay.mustReload(t, func(c *config.Config) { c.Upstreams[0].Forward = []string{"x-consul-token"} })
	c.await(t, "the end of the client's stream", func() bool { return !c.connected() })
	if err := c.connect(true); err != nil {
		t.Fatal(err)
	}
	c.awaitHolding(t, clusterType, "c1")
	waitFor(t, "a stream with what is passed on", last("x-consul-token", "t"))
	relay.consistent(t)
}
