package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
)

// What a reload would do is what it does: the clients end that it would move or refuse, and nobody else. To ask changes nothing.
func TestForesee_AGG1_ACC2(t *testing.T) {
	const east = "xdstp://east/envoy.config.cluster.v3.Cluster/x"
	rule := config.Rule{Name: "two", Match: `node.id == "n-2"`, Scope: []string{}}
	for name, tt := range map[string]struct {
		before, change func(*config.Config)
		moved, refused []string // and why
	}{
		"nothing":      {},
		"a limit":      {change: func(c *config.Config) { c.Limits.Subscriptions = 17 }},
		"AGG-1 a rule": {change: func(c *config.Config) { c.Aggregation.Rules = []config.Rule{rule} }, moved: []string{"n-2 (moved)"}},
		"AGG-1 a rule by name": {
			change: func(c *config.Config) {
				c.Aggregation.Rules = []config.Rule{{Name: "named", Match: `name == "a"`, Scope: []string{}}}
			}, moved: []string{"n-4 (moved)"},
		},
		"AGG-2 otherwise": {
			change:  func(c *config.Config) { c.Aggregation.Otherwise = config.Refuse },
			refused: []string{"n-1 (rule otherwise)", "n-2 (rule otherwise)", "n-4 (rule otherwise)"},
		},
		"AGG-2 a rule that refuses by name": {
			before: func(c *config.Config) {
				c.Aggregation.Rules = []config.Rule{{Name: "named", Match: `name != "b"`, Scope: []string{}}}
			},
			change: func(c *config.Config) {
				c.Aggregation.Rules = []config.Rule{{Name: "named", Match: `name == "b"`, Scope: []string{}}}
				c.Aggregation.Otherwise = config.Refuse
			},
			refused: []string{"n-1 (refused)", "n-2 (refused)", "n-4 (refused)"},
		},
		"ACC-5 a rule about nodes": {
			change: func(c *config.Config) {
				c.Access.Verify = []config.VerifyRule{{Name: "not-3", Require: `node.id != "n-3"`}}
			},
			refused: []string{"n-3 (rule not-3)"},
		},
		"LOC-3 an authority": {
			change: func(c *config.Config) {
				c.Upstreams[0].Authorities, c.Upstreams[1].Authorities = nil, []string{"east"}
			}, moved: []string{"n-3 (moved)"},
		},
		"LOC-3 another default": {
			change: func(c *config.Config) { c.Upstreams[0].Default, c.Upstreams[1].Default = false, true },
			moved:  []string{"n-1 (moved)", "n-2 (moved)", "n-4 (moved)"},
		},
		"RES-12 other endpoints": {change: func(c *config.Config) { c.Upstreams[0].Endpoints = [][]string{{"192.0.2.2:1"}} }},
		"ACC-2 an access rule": {
			change: func(c *config.Config) {
				c.Access.Rules = []config.AccessRule{{Name: "one", Match: `node.id == "n-1"`, Effect: config.Deny}}
			}, moved: []string{"n-1 (access)"},
		},
		"ACC-6 a header":            {change: func(c *config.Config) { c.Upstreams[1].Forward = []string{"tenant"} }},
		"served 1:1":                {change: func(c *config.Config) { c.Passthrough = []config.PassRule{{Upstream: "plane"}} }, moved: []string{"n-1 (moved)", "n-2 (moved)", "n-3 (moved)", "n-4 (moved)"}},
		"served 1:1 from elsewhere": {change: func(c *config.Config) { c.Passthrough = []config.PassRule{{Upstream: "other"}} }},
		"not served 1:1 any more": {
			before: func(c *config.Config) { c.Passthrough = []config.PassRule{{Upstream: "plane"}} },
			change: func(c *config.Config) { c.Passthrough = nil },
			moved:  []string{"n-1 (moved)", "n-2 (moved)", "n-3 (moved)", "n-4 (moved)"},
		},
		"AGG-1 a rule for clients that are served 1:1": {
			before: func(c *config.Config) { c.Passthrough = []config.PassRule{{Upstream: "plane"}} },
			change: func(c *config.Config) { c.Aggregation.Rules = []config.Rule{rule} }, moved: []string{"n-2 (moved)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cfg *config.Config
				b := runBubbled(t, func(c *config.Config) {
					c.Upstreams[0].Authorities = []string{"east"}
					c.Upstreams = append(c.Upstreams, upstreamAt("other", "192.0.2.9:1"))
					if cfg = c; tt.before != nil {
						tt.before(c)
					}
				})
				synctest.Wait()
				conn := b.dial()
				defer conn.Close()
				ends := map[string]chan error{"n-1": b.subscriber(conn, "n-1"), "n-2": b.subscriber(conn, "n-2"), "n-3": b.subscriber(conn, "n-3", east), "n-4": b.subscriber(conn, "n-4", "a")}
				<-time.After(5 * time.Second)
				synctest.Wait()
				next := *cfg
				next.Upstreams = slices.Clone(next.Upstreams)
				if tt.change != nil {
					tt.change(&next)
				}
				sessions := len(b.relay.hub.list())
				v, err := b.relay.Foresee(&next, true)
				if err != nil {
					t.Fatal(err)
				}
				if v.Clients != 4 || v.Unknown != 0 || v.Moved.Clients != len(tt.moved) || !slices.Equal(v.Moved.Some, tt.moved) ||
					v.Refused.Clients != len(tt.refused) || !slices.Equal(v.Refused.Some, tt.refused) {
					t.Errorf("AGG-1: %+v, want %q moved and %q refused", v, tt.moved, tt.refused)
				}
				synctest.Wait()
				if n := len(b.relay.hub.list()); n != sessions {
					t.Errorf("AGG-3: there are %d sessions, %d before", n, sessions)
				}
				for node, ended := range ends {
					if len(ended) > 0 {
						t.Errorf("AGG-1: %s ended before the reload: %v", node, <-ended)
					}
				}
				if err := b.relay.ReloadAnyway(&next); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Second)
				synctest.Wait()
				for node, ended := range ends {
					ends := slices.ContainsFunc(slices.Concat(tt.moved, tt.refused), func(s string) bool { return strings.HasPrefix(s, node+" ") })
					if ends != (len(ended) > 0) {
						t.Errorf("AGG-1: the stream of %s ended: %t, want %t", node, !ends, ends)
					}
				}
				for _, x := range b.relay.server.Gone() {
					if moved := slices.ContainsFunc(tt.moved, func(s string) bool { return strings.HasPrefix(s, x.Node+" ") }); moved && x.Why != downstream.WhyMoved {
						t.Errorf("AGG-1: %s was moved, and is said to be gone because of %q: %s", x.Node, x.Why, x.Reason)
					}
				}
			})
		})
	}
}

// A configuration that would refuse many clients, or that is not usable, is foreseen as such.
func TestForesee_ACC5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cfg *config.Config
		b := runBubbled(t, func(c *config.Config) { cfg = c })
		synctest.Wait()
		conn := b.dial()
		defer conn.Close()
		for i := range 7 {
			b.subscriber(conn, fmt.Sprint("n-", i))
		}
		<-time.After(5 * time.Second)
		synctest.Wait()
		next := *cfg
		next.Access.Verify = []config.VerifyRule{{Name: "nobody", Require: `node.id == "nobody"`}}
		next.Admin.ProbesListen = "127.0.0.1:2"
		for _, anyway := range []bool{false, true} {
			v, err := b.relay.Foresee(&next, anyway)
			if err != nil {
				t.Fatal(err)
			}
			if v.Refused.Clients != 7 || len(v.Refused.Some) != maxNamed || v.Moved.Clients != 0 || (v.Error == "") != anyway || len(v.Changed) != 1 || len(v.Waiting) != 1 {
				t.Errorf("ACC-5: anyway %t: %+v", anyway, v)
			}
		}
		next.Upstreams = slices.Clone(next.Upstreams)
		next.Upstreams[0].TLS = &config.UpstreamTLS{CAFile: "nowhere"}
		if v, err := b.relay.Foresee(&next, true); err == nil || !strings.Contains(err.Error(), "nowhere") {
			t.Errorf("ACC-5: a file that is not there: %+v, %v", v, err)
		}
		if failed := b.relay.failed.Load(); failed != nil || len(b.relay.events.Since(time.Time{})) > 0 {
			t.Errorf("ACC-5: what was only asked counts: %+v", failed)
		}
	})
}
