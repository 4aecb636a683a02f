package integration

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
)

// bouncer is a control plane's: it takes one token only, and quotes the others.
func bouncer(srv any, g grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	md, _ := metadata.FromIncomingContext(g.Context())
	switch token := strings.Join(md.Get("authorization"), ","); token {
	case "Bearer s3cret-good":
		return handler(srv, g)
	case "Bearer s3cret-stale":
		return status.Errorf(codes.PermissionDenied, "%s may have nothing", token)
	default:
		return status.Errorf(codes.Unauthenticated, "%q is on no list", token)
	}
}

// A client whose token the control plane refuses is told so, and gets nothing that the token of another
// client with the same node fetched: no name of its scope and no xdstp name, however it asks and whatever
// it says that it holds. The other client goes on. Nobody is shown a token.
func TestForwardedTokenRefused_ACC6_ABS2(t *testing.T) { //nolint:tparallel // the other client is looked at when all refused ones have ended
	t.Parallel() // most of it is waiting
	const xdstp = "xdstp://a.test/envoy.config.cluster.v3.Cluster/c"
	p := newPlane(t, grpc.StreamInterceptor(bouncer))
	p.plain = true
	p.set(clusterType, "c1", true)
	p.set(clusterType, xdstp, false)
	relay := startRelay(t, func(c *config.Config) {
		impatient(c)
		c.Upstreams[0].AbsentAfter = config.Duration(time.Minute) // later than that, as by default
		c.Upstreams[0].Forward = []string{"authorization"}
	}, p.addr)
	all := []string{"*"}
	join := func(v variant, bring map[string]held, names []string, token ...string) (xdsClient, func() error) {
		t.Helper()
		var option []grpc.DialOption
		for _, s := range token {
			option = append(option, with("authorization", "Bearer "+s))
		}
		c := newVariantClient(t, v, relay.addr, "node", option...)
		c.common().holds[clusterType] = bring
		c.subscribe(clusterType, names, nil)
		if err := c.connect(true); err != nil {
			t.Fatal(err)
		}
		return c, c.(interface{ ended() error }).ended
	}
	good, ended := join(deltaADS, map[string]held{}, []string{"*", xdstp}, "s3cret-good")
	good.common().awaitHolding(t, clusterType, "c1", xdstp)
	fetched := good.common().holds[clusterType]

	t.Run("refused", func(t *testing.T) { // ends when all of them have
		for _, v := range []variant{deltaADS, delta, sotwADS, sotw} {
			for _, tt := range []struct {
				name  string
				token []string
				bring map[string]held
				names []string
				want  string
			}{
				{"a token on no list", []string{"s3cret-bad"}, nil, all, "UNAUTHENTICATED"},
				{"what the other one holds", []string{"s3cret-bad"}, fetched, all, "UNAUTHENTICATED"},
				{"an xdstp name", []string{"s3cret-bad"}, nil, []string{xdstp}, "UNAUTHENTICATED"},
				{"a token without rights", []string{"s3cret-stale"}, nil, all, "PERMISSION_DENIED"},
				{"no token", nil, nil, all, "UNAUTHENTICATED"},
			} {
				if v.sotw && len(tt.bring) > 0 {
					continue // it would present a version of a list
				}
				t.Run(v.name+", "+tt.name, func(t *testing.T) {
					t.Parallel()
					bring := make(map[string]held, len(tt.bring))
					for name := range tt.bring { // what it holds is not what there is
						bring[name] = held{version: tt.bring[name].version, payload: "brought"}
					}
					c, ended := join(v, bring, tt.names, tt.token...)
					h := c.common()
					if !h.happens(func() bool { return !c.connected() }) {
						t.Fatal("ACC-6: the client is not told that its token is refused")
					}
					if err := ended(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
						t.Errorf("ACC-6: the stream ended with %v", err)
					}
					h.mu.Lock()
					defer h.mu.Unlock()
					if h.counts[clusterType] != 0 {
						t.Errorf("ACC-6: %d responses", h.counts[clusterType])
					}
					for name, x := range h.holds[clusterType] {
						if x.payload != "brought" {
							t.Errorf("ACC-6: served with %s", name)
						}
					}
				})
			}
		}
		t.Run("REST", func(t *testing.T) {
			t.Parallel()
			waitFor(t, "a poll that is told", func() bool {
				got, body := pollAs(t, http.DefaultClient, "http://"+relay.rest, &corev3.Node{Id: "node"}, "Bearer s3cret-bad")
				if strings.Contains(body, "c1") || strings.Contains(body, "s3cret") || got == http.StatusOK {
					t.Errorf("ACC-6: a poll was answered with %d: %s", got, body)
				}
				return got == http.StatusServiceUnavailable && strings.Contains(body, "UNAUTHENTICATED")
			})
		})
	})
	p.set(clusterType, "c2", true)
	p.set(clusterType, xdstp, false)
	last := func() bool {
		got, want := good.common().payloads(clusterType), p.payloads(clusterType, map[string]bool{"c1": true, "c2": true, xdstp: true})
		return maps.Equal(got, want)
	}
	if !good.common().happens(last) {
		t.Error("ACC-6: the client whose token counts has not the last content")
	}
	if !good.connected() {
		t.Errorf("ACC-6: the stream of the client whose token counts ended: %v", ended())
	}
	relay.hides(t, "s3cret")
	relay.consistent(t)
}
