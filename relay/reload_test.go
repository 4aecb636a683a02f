package relay

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// one is the only session of an upstream.
func (r *running) one(name string) *session {
	r.Helper()
	var found []*session
	for _, s := range r.relay.hub.all() {
		if s.key.plane == name && !s.key.resolved {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		r.Fatalf("%d sessions of %s, want 1", len(found), name)
	}
	return found[0]
}

// Upstreams of which nothing changed keep their streams, whatever else changes.
func TestReload_unchanged(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", a.address)))
	c := r.join("n")
	c.holds(contents{"x": "1"})
	before := r.one("a")
	for name, change := range map[string]func(*config.Config){
		"nothing":          func(*config.Config) {},
		"limits":           func(c *config.Config) { c.Cache.MaxResources, c.Limits.Subscriptions = 17, 3 },
		"an upstream more": func(c *config.Config) { c.Upstreams = append(c.Upstreams, claiming(upstreamAt("b", a.address), "b")) },
		"its names":        func(c *config.Config) { c.Upstreams[0].Authorities = []string{"a"} },
		"its clocks":       func(c *config.Config) { c.Upstreams[0].Settle, c.Upstreams[0].AbsentAfter = 2e9, 3e9 },
		"what is resolved": func(c *config.Config) { c.Resolve.Prefetch = false },
		"the relay's node": func(c *config.Config) { c.Node.ID = "another" },
	} {
		r.reload(change)
		if now := r.one("a"); now != before || now.client.Status().Opened != 1 {
			t.Errorf("%s: another session, or another stream", name)
		}
		r.check()
	}
	if got := c.lost(); got != "" {
		t.Errorf("the client lost %s", got)
	}
}

func claiming(u config.Upstream, authority string) config.Upstream {
	u.Authorities = []string{authority}
	return u
}

// An upstream with other endpoints is asked there, with what is held: clients get what
// differs, and nothing is taken from them meanwhile.
func TestReload_endpoints_RES12(t *testing.T) {
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("the old server is away: %t", away), func(t *testing.T) {
			old, next := newPlaneServer(t, contents{"x": "1", "y": "1", "z": "1"}), newPlaneServer(t, contents{"x": "1", "y": "2"})
			at := upstreamAt("a", old.address)
			at.ResponseTimeout = 0 // the new server is not asked whether it answers: its first stream is the session's
			r := run(t, configOf(at))
			c := r.join("n")
			c.holds(contents{"x": "1", "y": "1", "z": "1"})
			session := r.one("a")
			since := time.Time{}
			if away {
				old.Stop()
				old.ends()
				for session.client.Status().State != upstream.StateConnecting { // until the relay has noticed
					r.page("/upstreams")
				}
				since = session.client.Status().Since
				late := r.join("n") // served from the cache
				late.holds(contents{"x": "1", "y": "1", "z": "1"})
				if got := late.lost() + c.lost(); got != "" {
					t.Errorf("OPS-1: clients lost %s while the server was away", got)
				}
			}
			r.reload(func(c *config.Config) { c.Upstreams[0].Endpoints = [][]string{{next.address}} })
			if st := session.client.Status(); away && st.State == upstream.StateConnecting && !st.Since.Equal(since) {
				t.Errorf("OPS-1: what is cached has been getting old since %v, and is said to since %v", since, st.Since)
			}
			c.holds(contents{"x": "1", "y": "2"})
			first := next.opens()
			if want := (contents{"x": "1", "y": "1", "z": "1"}); !maps.Equal(first.Versions, want) || first.Node != "n" {
				t.Errorf("RES-12: the new server was shown %v of %s, want %v", first.Versions, first.Node, want)
			}
			if !away {
				old.ends()
			}
			if got := c.lost(); got != "z" {
				t.Errorf("the client lost %q, want what the new server has not", got)
			}
			if r.one("a") != session {
				t.Error("there is another session")
			}
			r.check()
		})
	}
}

// Reloads that follow each other before anything comes of them: the last one counts.
func TestReload_inARow(t *testing.T) {
	nobody := "127.0.0.1:1"
	a := newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", nobody)))
	c := r.join("n")
	for i := range 10 {
		r.reload(func(c *config.Config) {
			c.Upstreams[0].Endpoints = [][]string{{nobody}, {fmt.Sprint("127.0.0.1:", 2+i)}}
		})
	}
	r.reload(func(c *config.Config) { c.Upstreams[0].Endpoints = [][]string{{a.address}} })
	c.holds(contents{"x": "1"})
}

// Files that stand for a control plane may have another path.
func TestReload_path_VAR6(t *testing.T) {
	dir := t.TempDir()
	path := func(version string, names ...string) string {
		var text strings.Builder
		text.WriteString("version_info: '" + version + "'\nresources:\n")
		for _, name := range names {
			fmt.Fprintf(&text, "- {'@type': %s, name: %s}\n", clusterType, name)
		}
		file := filepath.Join(dir, version+".yaml")
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	u := config.DefaultUpstream()
	u.Name, u.Path = "files", path("1", "x", "y")
	r := run(t, configOf(u))
	c := r.join("n")
	names := func(want ...string) {
		t.Helper()
		c.comesTo(fmt.Sprint(want), func() bool { return slices.Equal(slices.Sorted(maps.Keys(c.held)), want) })
	}
	names("x", "y")
	second := path("2", "x", "z")
	r.reload(func(c *config.Config) { c.Upstreams[0].Path = second })
	names("x", "z")
	if got := c.lost(); got != "y" {
		t.Errorf("the client lost %q", got)
	}
	r.check()
}

// The streams of an upstream that is configured no more end at once if nobody uses them,
// else with the last who does; so does one that becomes another kind of source.
func TestReload_removed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*config.Config)
		series bool // of metrics that are left
	}{
		{"removed", func(c *config.Config) { c.Upstreams = c.Upstreams[:1] }, false},
		{"renamed", func(c *config.Config) { c.Upstreams[1].Name = "c" }, false},
		{"speaks another form", func(c *config.Config) { c.Upstreams[1].APIType = config.AggregatedGRPC }, true},
		{"its names are another's, and only a rule leads there", func(c *config.Config) {
			c.Upstreams[1].Authorities = nil
			c.Aggregation.Rules = []config.Rule{{Name: "r", Match: "node.id == 'm'", Scope: []string{}, Upstream: "b"}}
		}, true},
		{"a stream for each type", func(c *config.Config) { c.Upstreams[1].APIType = config.DeltaGRPC }, true},
	} {
		const name = "xdstp://b/envoy.config.cluster.v3.Cluster/x"
		for _, used := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, with a client: %t", tt.name, used), func(t *testing.T) {
				a, b := newPlaneServer(t, contents{}), newPlaneServer(t, contents{name: "1"})
				r := run(t, configOf(claiming(upstreamAt("a", a.address), "a"), claiming(upstreamAt("b", b.address), "b")))
				c := r.join("n", name)
				c.holds(contents{name: "1"})
				s := r.one("b")
				if !used {
					c.stop()
					for r.relay.hub.users(s) > 0 { // until the relay has noticed
						r.page("/upstreams")
					}
				}
				r.reload(tt.change)
				c.stop()
				b.ends()
				<-s.done
				r.relay.hub.all() // who ended it holds the hub's lock until all of it is done
				if got := strings.Contains(r.page("/metrics"), `upstream="b"`); got != tt.series {
					t.Errorf("metrics have series of the upstream: %t", got)
				}
				if strings.Contains(r.page("/upstreams"), "retired") {
					t.Error("it is still there")
				}
				r.check()
			})
		}
	}
}

// What the relay shows of itself is shown anew where it is shown.
func TestReload_node_STR2(t *testing.T) {
	const name = "xdstp://a/envoy.config.cluster.v3.Cluster/x"
	a := newPlaneServer(t, contents{name: "1"})
	r := run(t, configOf(upstreamAt("a", a.address)))
	c := r.join("n", name)
	c.holds(contents{name: "1"})
	if first := a.opens(); first.Node != "xdsrelay" {
		t.Errorf("the node is %q", first.Node)
	}
	r.reload(func(c *config.Config) { c.Node.ID = "another" })
	a.ends()
	if first := a.opens(); first.Node != "another" || first.Versions[name] != "1" {
		t.Errorf("the node is %q, the versions %v", first.Node, first.Versions)
	}
	if got := c.lost(); got != "" {
		t.Errorf("the client lost %q", got)
	}
}

// A scope that nobody uses waits as long as the linger is now.
func TestReload_linger_AGG3(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", a.address)))
	c := r.join("n")
	c.holds(contents{"x": "1"})
	s := r.one("a")
	c.stop()
	r.reload(func(c *config.Config) { c.Aggregation.Linger = config.Duration(time.Millisecond) })
	<-s.done
}

func TestReload_limits(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1", "y": "1", "z": "1"})
	r := run(t, configOf(upstreamAt("a", a.address)))
	c := r.join("n")
	c.holds(contents{"x": "1", "y": "1", "z": "1"})
	c.stop()
	for r.relay.cache.Unwatched() == 0 {
		r.page("/upstreams")
	}
	r.reload(func(c *config.Config) {
		c.Cache.MaxResources, c.Log.Level = 1, config.LevelDebug
	})
	for r.relay.cache.Resources() > 0 { // SUB-11: it is gone once its server was told
		r.page("/upstreams")
	}
	if r.level.Level() != slog.LevelDebug {
		t.Errorf("the level is %v", r.level.Level())
	}
	r.shows("/config", "max_resources: 1\n", "level: debug")
}

// New connections use the TLS files that are named now.
func TestReload_serverTLS(t *testing.T) {
	dir := pki.NewFolder(t)
	old, next := pki.NewAuthority(t, "old"), pki.NewAuthority(t, "next")
	pair := func(name string, ca *pki.Authority) *config.ServerTLS {
		cert, key := dir.PutPair(name, ca.Server("relay.test"))
		return &config.ServerTLS{CertFile: cert, KeyFile: key}
	}
	trusting := func(file string) credentials.TransportCredentials {
		pem, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		return credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "relay.test", MinVersion: tls.VersionTLS13})
	}
	a := newPlaneServer(t, contents{"x": "1"})
	cfg := configOf(upstreamAt("a", a.address))
	cfg.Server.TLS = pair("before", old)
	r := run(t, cfg)
	c := r.joinWith(trusting(dir.PutCA("old", old)), "n")
	c.holds(contents{"x": "1"})
	missing := &config.ServerTLS{CertFile: "missing.pem", KeyFile: "missing.pem"}
	if err := r.try(func(c *config.Config) { c.Server.TLS = missing }); err == nil || !strings.Contains(err.Error(), "missing.pem") {
		t.Errorf("a file that is missing: %v", err)
	}
	after := pair("after", next)
	r.reload(func(c *config.Config) { c.Server.TLS = after })
	r.joinWith(trusting(dir.PutCA("next", next)), "n").holds(contents{"x": "1"})
	if got := c.lost(); got != "" {
		t.Errorf("a client that was connected lost %s", got)
	}
	r.reload(func(c *config.Config) { c.Server.TLS = nil })
	r.shows("/config", "server.tls: {cert_file: ", "removed", "after.crt")
}

// What cannot be used changes nothing, whatever else stands beside it.
func TestReload_fails(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", a.address)))
	c := r.join("n")
	c.holds(contents{"x": "1"})
	page, session := r.page("/config"), r.one("a")
	bad := upstreamAt("b", a.address)
	bad.Authorities, bad.TLS = []string{"b"}, &config.UpstreamTLS{CAFile: "missing.pem"}
	for name, change := range map[string]func(*config.Config){
		"an upstream more":  func(c *config.Config) { c.Upstreams = append(c.Upstreams, bad) },
		"an upstream's TLS": func(c *config.Config) { c.Upstreams[0].TLS = bad.TLS },
		"a session that cannot go on": func(c *config.Config) {
			c.Upstreams[0].MaxRequestSize = 64 * config.KiB
			c.Upstreams[0].Endpoints = [][]string{{"127.0.0.1:1"}}
			c.Node.ID = strings.Repeat("n", 1<<20)
			c.Upstreams = append(c.Upstreams, claiming(upstreamAt("b", a.address), "b"))
		},
	} {
		if name == "a session that cannot go on" {
			r.join("n", "xdstp://a/envoy.config.cluster.v3.Cluster/x")
			a.opens()
			a.opens()
		}
		err := r.try(func(c *config.Config) {
			c.Cache.MaxResources, c.Limits.Subscriptions, c.Limits.Scopes = 1, 1, 1
			change(c)
		})
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		r.shows("/config", "is not usable:", strings.TrimSpace(err.Error()), "max_resources: 1000000\n")
		r.shows("/metrics", "xdsrelay_config_last_reload_successful 0")
		if strings.Contains(r.page("/metrics"), `upstream="b"`) {
			t.Errorf("%s: the upstream has series", name)
		}
		if session.client.Status().Opened != 1 || c.lost() != "" || len(r.relay.hub.present()) != 1 {
			t.Errorf("%s: something has changed", name)
		}
		r.shows("/readyz", "ready")
	}
	r.reload(func(*config.Config) {})
	if got := r.page("/config"); got != page {
		t.Errorf("/config is\n%s, was\n%s", got, page)
	}
	r.shows("/metrics", "xdsrelay_config_last_reload_successful 1", `xdsrelay_config_reloads_total{result="failure"} 3`)
}

// Keys that need a restart are named, stay as they are, and hold nothing else up.
func TestReload_restart(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", a.address)))
	hash := func() string {
		_, rest, _ := strings.Cut(r.page("/metrics"), "xdsrelay_config_info{")
		hash, _, _ := strings.Cut(rest, "}")
		return hash
	}
	first := hash()
	r.reload(func(c *config.Config) {
		c.Server.Listen, c.Admin.Listen, c.Server.Keepalive.Time = "127.0.0.1:2", "127.0.0.1:3", 0
		c.Aggregation.Linger = config.Duration(time.Hour)
	})
	second := hash()
	r.shows("/config", "need a restart:", "server.listen: 127.0.0.1:18100 → 127.0.0.1:2", "server.keepalive.time: 1m → 0s", "linger: 1h", "listen: 127.0.0.1:18100")
	r.shows("/metrics", "xdsrelay_config_keys_awaiting_restart 3")
	if log := r.log.String(); strings.Count(log, "needs a restart") != 3 || !strings.Contains(log, "key=admin.listen running=127.0.0.1:19100 wanted=127.0.0.1:3") {
		t.Errorf("log:\n%s", log)
	}
	r.reload(func(c *config.Config) { c.Server.Listen = "127.0.0.1:18100" })
	r.shows("/metrics", "xdsrelay_config_keys_awaiting_restart 2")
	if third := hash(); first == second || second != third {
		t.Errorf("the hashes of what is in force are %s, %s and %s", first, second, third)
	}
	r.reload(func(*config.Config) {})
	r.shows("/metrics", `reloads_total{result="unchanged"} 1`, `reloads_total{result="success"} 2`)
}

// Replicas that differ in nothing but the ID of their node show one hash, so that an operator sees when
// one of them has another configuration (OPS-6).
func TestConfigHash_OPS6(t *testing.T) {
	hash := func(change func(*config.Config)) string {
		c := configOf(upstreamAt("a", "127.0.0.1:1"))
		change(c)
		force, err := newInForce(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(force.yaml), "id: "+c.Node.ID) {
			t.Errorf("what is in force has another node ID:\n%s", force.yaml)
		}
		return force.hash
	}
	one, two := hash(func(c *config.Config) { c.Node.ID = "one" }), hash(func(c *config.Config) { c.Node.ID = "two" })
	other := hash(func(c *config.Config) { c.Node.ID, c.Node.Cluster = "one", "other" })
	if one != two || one == other {
		t.Errorf("two replicas have hashes %s and %s, and one with another configuration %s", one, two, other)
	}
}

// An upstream that is added and is not there keeps nobody from a relay that is ready.
func TestReload_readiness(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", "127.0.0.1:1")))
	r.comes("/readyz", "not reached yet: a")
	r.reload(func(c *config.Config) { c.Upstreams[0].Endpoints = [][]string{{a.address}} })
	for !strings.HasPrefix(r.page("/readyz"), "ready") {
		continue
	}
	r.reload(func(c *config.Config) {
		c.Upstreams = append(c.Upstreams, claiming(upstreamAt("b", "127.0.0.1:1"), "b"))
	})
	r.shows("/readyz", "ready")
	r.shows("/upstreams", `"reached": false`)
}

// A relay that does not run yet takes a configuration, and one that ends none.
func TestReload_beforeAndAfter(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	cfg := configOf(upstreamAt("a", "127.0.0.1:1"))
	r, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	next := *cfg
	next.Upstreams = []config.Upstream{upstreamAt("b", a.address)}
	next.Upstreams[0].Default = true
	if err := r.Reload(&next); err != nil {
		t.Fatal(err)
	}
	r.release()
	if err := r.Reload(cfg); !errors.Is(err, ErrEnding) {
		t.Errorf("after the end: %v", err)
	}
	other := run(t, cfg)
	other.stop()
	if err := other.relay.Reload(&next); !errors.Is(err, ErrEnding) {
		t.Errorf("after Run: %v", err)
	}
}

// However often it happens, nothing is left of it. goleak looks for goroutines.
func TestReload_leaks(t *testing.T) {
	servers := []*planeServer{newPlaneServer(t, contents{"x": "1", "y": "1"}), newPlaneServer(t, contents{"x": "1", "y": "2"})}
	r := run(t, configOf(upstreamAt("a", servers[0].address)))
	c := r.join("n")
	c.holds(servers[0].has)
	series := strings.Count(r.page("/metrics"), "\nxdsrelay_")
	for i := range 50 {
		to := servers[(i+1)%2]
		r.reload(func(c *config.Config) {
			c.Upstreams[0].Endpoints = [][]string{{to.address}}
			c.Upstreams = append(c.Upstreams[:1], claiming(upstreamAt(fmt.Sprint("b", i), to.address), "b"))
			c.Node.ID = fmt.Sprint("relay-", i)
			c.Resolve.Prefetch = i%3 == 0
		})
		if i%10 == 0 {
			c.holds(to.has)
		}
	}
	c.holds(servers[0].has)
	r.reload(func(c *config.Config) { c.Upstreams = c.Upstreams[:1] })
	if n := len(r.relay.hub.all()); n != 1 {
		t.Errorf("%d sessions are left", n)
	}
	if n := strings.Count(r.page("/metrics"), "\nxdsrelay_"); n != series {
		t.Errorf("%d series are left, there were %d", n, series)
	}
	if got := c.lost(); got != "" {
		t.Errorf("the client lost %s", got)
	}
	r.check()
	// Of streams there are as many as sessions.
	if _, ok := wait.Until(patience, func() bool { return servers[0].Streams()+servers[1].Streams() <= 1 }); !ok {
		t.Error("streams are left")
	}
}

// Clients of an upstream that is gone, or is another kind of source, are moved to where
// their names live now. Then nobody is left there, and its streams end.
func TestReload_moved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.yaml")
	text := fmt.Sprintf("version_info: '2'\nresources:\n- {'@type': %s, name: x}\n", clusterType)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newPlaneServer(t, contents{"x": "2"})
	for name, change := range map[string]func(*config.Config){
		"another default upstream": func(c *config.Config) {
			c.Upstreams = []config.Upstream{upstreamAt("b", b.address)}
			c.Upstreams[0].Default, c.Upstreams[0].Settle = true, config.Duration(time.Second) // RES-14: then y is gone
		},
		"another upstream takes the name over": func(c *config.Config) {
			c.Upstreams[0].Endpoints, c.Upstreams[0].Path = nil, file
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newPlaneServer(t, contents{"x": "1", "y": "1"})
			r := run(t, configOf(upstreamAt("a", a.address)))
			everything, named := r.join("n"), r.join("m", "x")
			everything.holds(contents{"x": "1", "y": "1"})
			named.holds(contents{"x": "1"})
			before := r.relay.hub.all()
			r.reload(change)
			everything.comesTo("x", func() bool { return len(everything.held) == 1 && everything.held["x"] != "1" })
			named.comesTo("x", func() bool { return named.held["x"] != "1" })
			a.ends()
			a.ends()
			for _, s := range before {
				<-s.done
			}
			r.relay.hub.all()
			if got := everything.lost() + named.lost(); got != "y" {
				t.Errorf("clients lost %q", got)
			}
			if strings.Contains(r.page("/upstreams"), "retired") {
				t.Error("what nobody uses is still there")
			}
			r.check()
		})
	}
}

// Operators see what a reload changed, and why one failed, beside what clients got (/changes).
func TestReload_events(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", a.address)))
	r.reload(func(c *config.Config) { c.Log.Level = config.LevelDebug })
	bad := &config.UpstreamTLS{CAFile: "missing.pem"}
	for range 3 {
		if err := r.try(func(c *config.Config) { c.Upstreams[0].TLS = bad }); err == nil {
			t.Fatal("no error")
		}
	}
	all := adminState{r.relay}.Changes(time.Now().Add(-time.Hour), nil).Events
	if len(all) != 2 || all[0].Kind != "reload failed" || !strings.Contains(all[0].Text, "missing.pem") ||
		all[1].Kind != "reload" || !strings.Contains(all[1].Text, "hash "+r.relay.now.Load().hash+": log.level: info → debug") {
		t.Errorf("got %+v", all)
	}
	if late := (adminState{r.relay}).Changes(time.Now().Add(time.Hour), nil).Events; len(late) != 0 {
		t.Errorf("since later: %+v", late)
	}
}
