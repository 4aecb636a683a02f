package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/testkit/relays"
	"github.com/xdsrelay/xdsrelay/internal/testkit/tokens"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/relay"
)

// patience is how long anything may take that must happen.
const patience = 40 * time.Second

// clusters are more than the guard lets a control plane remove at once.
const clusters = 30

// site is a control plane with a relay in front of it, to which one fault is done.
type site struct {
	t      *testing.T
	plane  *plane.Plane
	relay  *relay.Relay
	stop   func()
	config *config.Config
	dir    *pki.Folder
	ca     *pki.Authority
	addr   string // for clients
	admin  string
}

// fault is what goes wrong, and the alerts that fire for it.
type fault struct {
	configure func(*site)
	do        func(*site)
	want      []string
}

var faults = map[string]fault{
	"none": {},
	"down": {
		do:   func(s *site) { s.stop() },
		want: []string{"XdsrelayDown"},
	},
	"rejecting": {
		do: func(s *site) { s.plane.Set(cluster(clusters)) },
		// The relay tells the control plane of it.
		want: []string{"XdsrelayClientsReject", "XdsrelayRejectsResponses"},
	},
	"stale": {
		do:   func(s *site) { s.plane.Stop() },
		want: []string{"XdsrelayStale"},
	},
	"unserved": {
		do: func(s *site) {
			s.plane.Stop()
			s.client("new", plane.Listener)
		},
		want: []string{"XdsrelayClientsUnserved"}, // nothing is asked for, so nothing is stale
	},
	"mute": { // what falls mute after it has answered is found a minute later: a test of package upstream has that
		do: func(s *site) {
			s.plane.Behave(func(b *plane.Behaviour) { b.Mute = true })
			s.client("new", plane.Cluster)
		},
		want: []string{"XdsrelayUnanswered"},
	},
	"withheld": {
		do: func(s *site) {
			for i := range clusters - 1 {
				s.plane.Remove(cluster(i))
			}
		},
		want: []string{"XdsrelayLossHeld"},
	},
	"reload": {
		do: func(s *site) {
			next := *s.config
			next.Upstreams = slices.Clone(next.Upstreams)
			next.Upstreams[0].TLS = &config.UpstreamTLS{CAFile: s.dir.Path("missing.crt")}
			if s.relay.Reload(&next) == nil {
				s.t.Error("the relay takes a configuration that names a missing file")
			}
		},
		want: []string{"XdsrelayReloadFailed"},
	},
	"certificate": {
		configure: func(s *site) { s.secure() },
		do:        func(s *site) { s.dir.PutPair("server", s.ca.Server("relay.test", pki.Lifetime(time.Minute))) },
		want:      []string{"XdsrelayCertificateExpires"},
	},
	"handshakes": {
		configure: func(s *site) { s.secure() },
		do: func(s *site) {
			get := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			if r, err := get.Get("http://" + s.addr); err == nil {
				_ = r.Body.Close()
			}
		},
		want: []string{"XdsrelayHandshakesFail"},
	},
	"tokens": {
		configure: func(s *site) {
			issuer := tokens.NewIssuer(s.t, "https://issuer.test", "k")
			file := s.dir.Put("keys.json", tokens.KeySet(s.t, issuer.Key()))
			s.config.Server.Identity.JWT = []config.Issuer{{Issuer: issuer.Name, Audiences: []string{"xds"}, JWKSFile: file}}
		},
		do:   func(s *site) { s.present("no.such.token") },
		want: []string{"XdsrelayTokensRefused"},
	},
	"memory": {
		configure: func(s *site) { s.config.Limits.Memory = config.Memory(256 * config.MiB) },
		do: func(s *site) {
			ballast := make([]byte, 240<<20) // nothing touches it: it takes no memory of the machine
			runtime.GC()
			s.t.Cleanup(func() { runtime.KeepAlive(ballast) })
		},
		want: []string{"XdsrelayMemoryShort"},
	},
	"disk": {
		configure: func(s *site) {
			s.config.Cache.Dir, s.config.Cache.SnapshotEvery = s.dir.Path("cache"), config.Duration(time.Second)
		},
		do: func(s *site) {
			if err := errors.Join(os.RemoveAll(s.config.Cache.Dir), os.WriteFile(s.config.Cache.Dir, nil, 0o600)); err != nil {
				s.t.Error(err)
			}
			s.plane.Set(cluster(0), cluster(clusters+1))
		},
		want: []string{"XdsrelaySnapshotsOff"},
	},
	"peers": {
		configure: func(s *site) {
			s.config.Peers.Addresses = []string{fmt.Sprint("127.0.0.1:", ports.Free(s.t))}
			s.config.Peers.Identities = []string{"spiffe://example.org/relay"}
			s.dir.PutPair("relay", s.ca.SVID(s.config.Peers.Identities[0]))
			s.config.Peers.TLS = config.PeersTLS{CAFile: s.dir.PutCA("ca", s.ca), CertFile: s.dir.Path("relay.crt"), KeyFile: s.dir.Path("relay.key")}
		},
		do: func(s *site) {
			s.plane.Stop()
			s.client("new", plane.Listener)
		},
		want: []string{"XdsrelayClientsUnserved", "XdsrelayPeersFail", "XdsrelayStale"},
	},
}

// Each fault fires its alerts at its relay, and no others there or elsewhere; before, none fires. A Prometheus judges
// by the rules, of which "for" is cut to two seconds and ages to four: a fault need not last for minutes, and a scrape that
// a busy machine makes late is none.
func TestFaults_OPS6(t *testing.T) {
	binary := program(t, "prometheus")
	text, err := os.ReadFile(filepath.Join(rules, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	short := regexp.MustCompile(`for: \w+`).ReplaceAllString(string(text), "for: 2s")
	short = regexp.MustCompile(`(_seconds) > \d+`).ReplaceAllString(short, "$1 > 4")

	sites := make(map[string]*site)
	want := make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		sites[name] = newSite(t, faults[name].configure)
		if all := faults[name].want; all != nil {
			want[name] = all
		}
	}
	at := make(map[string]string)
	for name, s := range sites {
		at[name] = s.admin
		if s.config.Server.TLS == nil && name != "unserved" && name != "mute" {
			s.client("client", plane.Cluster)
		}
	}
	p := startPrometheus(t, binary, short, at)
	p.until("a second of scrapes", func() bool {
		return len(p.query(fmt.Sprintf("count_over_time(xdsrelay_build_info[1h]) > %d", time.Second/scrapeEvery))) == len(sites)
	})
	if firing := p.firing(); len(firing) > 0 {
		t.Fatalf("before any fault fire %v", firing)
	}
	for name, f := range faults {
		if f.do != nil {
			f.do(sites[name])
		}
	}
	var firing map[string][]string
	if _, ok := wait.Until(patience, func() bool {
		firing = p.firing()
		return maps.EqualFunc(firing, want, slices.Equal)
	}); !ok {
		for name := range faults {
			if !slices.Equal(firing[name], want[name]) {
				t.Errorf("%s: %v fire, want %v", name, firing[name], want[name])
			}
		}
	}
}

func cluster(i int) *clusterv3.Cluster { return &clusterv3.Cluster{Name: fmt.Sprint("cluster-", i)} }

func newSite(t *testing.T, configure func(*site)) *site {
	t.Helper()
	s := &site{t: t, plane: plane.Start(t, plane.Behaviour{}), config: config.Default(), dir: pki.NewFolder(t), ca: pki.NewAuthority(t, "ca")}
	for i := range clusters {
		s.plane.Set(cluster(i))
	}
	c := s.config
	c.Aggregation.Otherwise = config.Share
	c.Server.Drain = config.Duration(10 * time.Millisecond)
	c.Server.UnreachableAfter = config.Duration(time.Second)
	c.Limits.Memory = 0
	u := config.DefaultUpstream()
	u.Name, u.Endpoints, u.Default = "plane", [][]string{{s.plane.Addr()}}, true
	c.Upstreams = []config.Upstream{u}
	if configure != nil {
		configure(s)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	r := relays.Run(t, c, relay.Options{Version: "test", Log: slog.New(slog.DiscardHandler), Memory: int64(c.Limits.Memory)}, relays.Listeners{})
	t.Cleanup(r.Stop)
	s.relay, s.stop, s.addr, s.admin = r.Relay, r.Stop, r.XDS, r.Admin
	return s
}

// secure has the relay's clients need TLS.
func (s *site) secure() {
	cert, key := s.dir.PutPair("server", s.ca.Server("relay.test"))
	s.config.Server.TLS = &config.ServerTLS{CertFile: cert, KeyFile: key}
}

// client subscribes to everything of a type until the test ends. It rejects the cluster that the fault "rejecting" adds.
func (s *site) client(node, typeURL string) {
	conn, err := xdsclient.Dial(s.addr, insecure.NewCredentials())
	if err != nil {
		s.t.Fatal(err)
	}
	bad := cluster(clusters).GetName()
	c := xdsclient.New(xdsclient.Options{Conn: conn, Node: &corev3.Node{Id: node}, OnResponse: func(r *xdsclient.Response) error {
		if slices.ContainsFunc(r.Changes, func(c xdsclient.Change) bool { return c.Name == bad }) {
			return errors.New("this cluster makes no sense")
		}
		return nil
	}})
	c.Subscribe(typeURL, "*")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Follow(ctx, xdsclient.DefaultBackoff(), func(error, time.Duration) error { return nil }) // until the test ends
	}()
	s.t.Cleanup(func() {
		cancel()
		<-done
		_ = conn.Close()
	})
}

// present opens a stream with a token, and waits for its end.
func (s *site) present(token string) {
	conn, err := xdsclient.Dial(s.addr, insecure.NewCredentials())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx := metadata.AppendToOutgoingContext(s.t.Context(), "authorization", "Bearer "+token)
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err == nil {
		_, err = stream.Recv()
	}
	if err == nil {
		s.t.Error("the relay takes the token")
	}
}

// scrapeEvery is how often relays are scraped and the rules are looked at.
const scrapeEvery = 250 * time.Millisecond

// prometheus is a process that scrapes relays.
type prometheus struct {
	t    *testing.T
	url  string
	http *http.Client
}

// startPrometheus starts one until the test ends, with rules, for relays by their names.
func startPrometheus(t *testing.T, binary, ruleText string, relays map[string]string) *prometheus {
	t.Helper()
	dir := pki.NewFolder(t)
	var b strings.Builder
	fmt.Fprintf(&b, "global: {scrape_interval: %v, evaluation_interval: %v}\nrule_files: [%q]\nscrape_configs:\n- job_name: xdsrelay\n  static_configs:\n",
		scrapeEvery, scrapeEvery, dir.Put("rules.yaml", []byte(ruleText)))
	for _, name := range slices.Sorted(maps.Keys(relays)) {
		fmt.Fprintf(&b, "  - {targets: [%q], labels: {instance: %q}}\n", relays[name], name)
	}
	listen := fmt.Sprint("127.0.0.1:", ports.Free(t))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "--config.file="+dir.Put("prometheus.yaml", []byte(b.String())),
		"--storage.tsdb.path="+dir.Path("data"), "--web.listen-address="+listen, "--log.level=warn")
	cmd.Dir = dir.Path("")
	log, err := os.Create(dir.Path("log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it keeps nothing
		_ = cmd.Wait()
		_ = log.Close()
		if said, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("Prometheus:\n%s", said)
		}
	})
	p := &prometheus{t: t, url: "http://" + listen, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	p.until("Prometheus to be ready", func() bool {
		r, err := p.http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		_ = r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	return p
}

// until waits for what must happen.
func (p *prometheus) until(what string, cond func() bool) {
	p.t.Helper()
	if _, ok := wait.Until(patience, cond); !ok {
		p.t.Fatalf("waited for %s", what)
	}
}

// query gives the labels of what an expression finds now.
func (p *prometheus) query(expr string) (found []map[string]string) {
	p.t.Helper()
	r, err := p.http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	var answer struct {
		Status string `json:"status"`
		Data   struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || answer.Status != "success" {
		p.t.Fatalf("%s: %v, %+v", expr, err, answer)
	}
	for _, x := range answer.Data.Result {
		found = append(found, x.Metric)
	}
	return found
}

// firing lists the alerts that fire, by relay.
func (p *prometheus) firing() map[string][]string {
	p.t.Helper()
	all := make(map[string][]string)
	for _, labels := range p.query(`ALERTS{alertstate="firing"}`) {
		at := labels["instance"]
		all[at] = append(all[at], labels["alertname"])
	}
	for at, names := range all {
		slices.Sort(names)
		all[at] = slices.Compact(names)
	}
	return all
}
