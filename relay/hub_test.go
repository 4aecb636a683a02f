package relay

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	testplane "github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"github.com/xdsrelay/xdsrelay/relay/loadreport"
	"github.com/xdsrelay/xdsrelay/upstream"
)

const (
	linger      = 5 * time.Minute
	clusterType = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
)

// testHub is a hub with one upstream, in a bubble; its control plane can be away.
func testHub(t *testing.T, away bool) *hub {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	server := testplane.New(testplane.Behaviour{})
	server.Serve(lis, nil)
	outages := new(upstream.Outages)
	up, err := upstream.New(upstream.Config{
		Outages: outages,
		Name:    "plane", Endpoints: [][]string{{"passthrough:///plane"}},
		Dial: upstream.Dial{Options: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			if away {
				return nil, errors.New("away")
			}
			return lis.DialContext(ctx)
		})}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &hub{
		node: &corev3.Node{Id: "relay"},
		ctx:  ctx, cache: cache.New(cache.Limits{}, nil), loads: loadreport.NewScopes(ctx), linger: linger,
		planes: map[string]*plane{"plane": {
			name: "plane", config: config.Upstream{Default: true}, outages: outages,
			upstream: originOf{up}, source: cache.Source{Quiet: time.Second},
		}},
		log:      slog.New(slog.DiscardHandler),
		sessions: make(map[sessionKey]*session),
	}
	t.Cleanup(func() {
		cancel()
		h.close()
		up.Close()
		server.Stop()
	})
	return h
}

// visit is a stream that subscribes to "*" and goes away again, after so long that its scope lingers for
// the whole time.
func visit(t *testing.T, h *hub, scope string) *session {
	t.Helper()
	return visitAnd(t, h, scope, func(*testing.T, *session) {})
}

// visitAnd does something before it goes away.
func visitAnd(t *testing.T, h *hub, scope string, do func(*testing.T, *session)) *session {
	t.Helper()
	s, err := h.acquire(claim{}, sessionKey{plane: "plane", of: h.planes["plane"], scope: scope}, asItself, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := delivery.Join(s.store, func() {}, delivery.Form{})
	c.Update(&delivery.Change{TypeURL: clusterType, Subscribe: []cache.Name{{Spelling: "*", Key: "*"}}})
	pass(lingerPart * linger)
	do(t, s)
	c.Leave()
	h.release(s)
	return s
}

// learn is what a session learned of its control plane: a cluster.
func learn(t *testing.T, s *session) {
	t.Helper()
	res, err := wire.NewResource(&discovery.Resource{Name: "a", Version: "1", Resource: &anypb.Any{TypeUrl: clusterType}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.Session().Apply(wire.StreamID{}, &wire.Response{TypeURL: clusterType, Resources: []*wire.Resource{res}}, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// A session that had clients for a moment only does not stay for the whole linger: who invents one
// node after the other would have the relay keep them all. One of polls does, since a poll is short.
func TestHubShortVisits_AGG3_LIM3(t *testing.T) {
	for _, tt := range []struct {
		name       string
		used, wait time.Duration
		give       func(*hub, *session)
	}{
		{"a moment", 0, leastLinger, (*hub).release},
		{"some seconds", 8 * time.Second, 2 * time.Second, (*hub).release},
		{"long", lingerPart * linger, linger, (*hub).release},
		{"a poll", 0, linger, (*hub).pause},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := testHub(t, false)
				s, err := h.acquire(claim{}, sessionKey{plane: "plane", of: h.planes["plane"], scope: "s"}, asItself, nil)
				if err != nil {
					t.Fatal(err)
				}
				pass(tt.used)
				tt.give(h, s)
				pass(tt.wait - time.Millisecond)
				if len(h.all()) != 1 {
					t.Error("AGG-3: closed too early")
				}
				pass(2 * time.Millisecond)
				if len(h.all()) != 0 {
					t.Error("LIM-3: not closed")
				}
			})
		})
	}
}

// pass lets d of the bubble's time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestHub(t *testing.T) {
	for _, tt := range []struct {
		name, scope string
		away, want  bool // want: the session is there after the linger
	}{
		{"AGG-3 a scope without clients closes after the linger", "shared", false, false},
		{"OPS-1 not while its control plane is away: nobody could fill it again", "shared", true, true},
		{"SUB-11 xdstp names stay as long as anything of them is cached", xdstpScope, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := testHub(t, tt.away)
				s := visitAnd(t, h, tt.scope, learn)
				pass(linger - time.Second)
				if len(h.all()) != 1 {
					t.Error("closed before the linger")
				}
				if again := visit(t, h, tt.scope); again != s {
					t.Error("AGG-3: a client that came within the linger got another session")
				}
				pass(linger - time.Second)
				if len(h.all()) != 1 {
					t.Error("the linger of the last client was not its own")
				}
				pass(2 * time.Second)
				if got := len(h.all()) == 1; got != tt.want {
					t.Errorf("there after the linger: %t, want %t", got, tt.want)
				}
				if !tt.want {
					select {
					case <-s.done:
					default:
						t.Error("the session did not end")
					}
				}
			})
		})
	}
	t.Run("LIM-2 a session that has to stay is not looked at all the time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := testHub(t, true)
			h.linger = 0
			s := visitAnd(t, h, "shared", learn)
			pass(10 * lookAgain)
			h.mu.Lock()
			looks := s.lingers
			h.mu.Unlock()
			if want := 2 + 10; looks != want || len(h.all()) != 1 { // when it is left, and again
				t.Errorf("%d looks at %d sessions, want %d", looks, len(h.all()), want)
			}
		})
	})
	t.Run("LIM-3 one that never had anything has nothing to lose while its control plane is away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := testHub(t, true)
			visit(t, h, "shared")
			pass(linger + time.Second)
			if len(h.all()) != 0 {
				t.Error("an empty session stays")
			}
		})
	})
	t.Run("SUB-11 what was evicted keeps no session", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := testHub(t, false)
			visit(t, h, xdstpScope).store.Close() // stands for evictions
			pass(linger + time.Second)
			if len(h.all()) != 0 {
				t.Error("an empty session stays")
			}
		})
	})
	// The first linger's timer fires and waits for the lock that a stream holds, which
	// comes and goes: the second linger has just begun.
	t.Run("AGG-3 a linger that was cut short ends nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := testHub(t, false)
			s := visit(t, h, "shared")
			first := s.lingers
			visit(t, h, "shared")
			h.closeUnused(s, first)
			if len(h.all()) != 1 {
				t.Error("closed before the linger of the last client")
			}
		})
	})
	t.Run("OPS-4 nothing is acquired after the end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := testHub(t, false)
			h.close()
			if _, err := h.acquire(claim{}, sessionKey{plane: "plane", of: h.planes["plane"]}, asItself, nil); !errors.Is(err, errClosed) {
				t.Errorf("acquired after close: %v", err)
			}
		})
	})
}

// testPlan is a plan of no upstream, without rules.
func testPlan(t *testing.T) *plan {
	t.Helper()
	set, problems := rules.Compile(rules.Config{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return &plan{rules: set, node: &corev3.Node{Id: "relay"}}
}
