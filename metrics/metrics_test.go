package metrics

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/relay/loadreport"
	"github.com/xdsrelay/xdsrelay/relay/refusals"
	"github.com/xdsrelay/xdsrelay/relay/resolve"
	"github.com/xdsrelay/xdsrelay/upstream"
)

func TestNothingHappened(t *testing.T) {
	m, reg := setUp(t)
	if err := m.Collect(fakeSource{}); err != nil {
		t.Fatal(err)
	}
	expect(t, reg, map[string]float64{})
}

// TestLabelValues sees that every value that a label can have is there before
// anything has happened.
func TestLabelValues(t *testing.T) {
	m, reg := setUp(t)
	if err := m.Collect(fakeSource{}); err != nil {
		t.Fatal(err)
	}
	var every, refused, ended []string
	every = shortNames[:]
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		ended = append(ended, c.String())
	}
	for _, c := range refusalCodes {
		refused = append(refused, c.String())
	}
	var lost, evicted, nacks []string
	for _, r := range downstream.NackReasons() {
		nacks = append(nacks, string(r))
	}
	for _, r := range upstream.Reasons() {
		lost = append(lost, string(r))
	}
	for _, r := range cache.Reasons() {
		evicted = append(evicted, string(r))
	}
	var faults []string
	for _, f := range ReferenceFaults() {
		faults = append(faults, string(f))
	}
	var handshakes []string
	for _, r := range refusals.Reasons() {
		handshakes = append(handshakes, string(r))
	}
	var identities []string
	for _, r := range identity.Reasons() {
		identities = append(identities, string(r))
	}
	identities = append(identities, "token_"+string(credentials.ReasonExpired), "token_"+string(credentials.ReasonWithdrawn))
	var tokens []string
	for _, r := range credentials.TokenRefusals() {
		tokens = append(tokens, string(r))
	}
	var unresolved []string
	for _, f := range resolve.Failures() {
		unresolved = append(unresolved, string(f))
	}
	var dropped, unreported []string
	for _, r := range loadreport.DroppedList() {
		dropped = append(dropped, string(r))
	}
	for _, r := range loadreport.Refusals() {
		unreported = append(unreported, string(r))
	}
	var parts []string
	for _, p := range logs.Parts() {
		parts = append(parts, string(p))
	}
	var limits []string
	for _, l := range downstream.LimitsOfClients() {
		limits = append(limits, string(l))
	}
	var turned []string
	for _, r := range refusals.AdminReasons() {
		turned = append(turned, string(r))
	}
	var checks []string
	for _, r := range upstream.ListChecks() {
		checks = append(checks, string(r))
	}
	m.Reloads().Started("abc", time.Now())
	values := map[string][]string{
		"upstream": {"primary", "backup"},
		"type":     every,
		"state":    {"idle", "waiting", "connecting", "connected"},
		"variant":  {"delta", "delta-ads", "rest", "sotw", "sotw-ads"},
		"result":   {"hit", "miss"},
		"to":       {"alternative", "better"},
		"version":  {"v1.2.3"}, "goversion": {runtime.Version()},
		"hash":                                  {"abc"},
		"rule":                                  {"sidecars", "otherwise"},
		"xdsrelay_access_unverified_total rule": {"own-node"},
		"xdsrelay_access_shadow_total rule":     {"no-vault"},
		"part":                                  parts,
		"message":                               {"others"},
		"limit":                                 limits,
		"work":                                  {"handshake", "join", "poll", "scope", "token"},
		"xdsrelay_admission_refused_total reason": {"late", "memory"},

		"xdsrelay_downstream_nacks_total reason": nacks,

		"xdsrelay_downstream_streams_closed_total code":          ended,
		"xdsrelay_downstream_refused_names_total code":           refused,
		"xdsrelay_downstream_streams_ended_by_move_total reason": {"moved", "refused", "unverified", "access"},
		"xdsrelay_downstream_failed_handshakes_total reason":     handshakes,
		"xdsrelay_downstream_identities_ended_total reason":      identities,
		"xdsrelay_admin_refused_total reason":                    turned,
		"xdsrelay_downstream_refused_tokens_total reason":        tokens,

		"xdsrelay_upstream_streams_closed_total reason":   lost,
		"xdsrelay_upstream_connect_failures_total reason": lost,
		"xdsrelay_cache_evictions_total reason":           evicted,
		"xdsrelay_references_faults_total reason":         faults,
		"xdsrelay_resolve_failures_total reason":          unresolved,

		"xdsrelay_loadreport_dropped_entries_total reason": dropped,
		"xdsrelay_loadreport_refused_total reason":         unreported,
		"xdsrelay_downstream_clients state":                {"current", "behind", "rejecting", "waiting"},
		"xdsrelay_loadreport_scopes state":                 {"unserved", "connecting", "waiting", "reporting"},
		"xdsrelay_config_reloads_total result":             {"failure", "success", "unchanged"},
		"xdsrelay_upstream_list_checks_total result":       checks,
		"xdsrelay_peer_asked_total result":                 {"content", "nothing", "refused", "failed"},
		"xdsrelay_peer_answers_total result":               {"refused"},
		"xdsrelay_peer_answers_total identity":             {""},
	}
	for _, f := range families(t, reg) {
		product := 1
		for _, label := range f.GetMetric()[0].GetLabel() {
			want, ok := values[f.GetName()+" "+label.GetName()]
			if !ok {
				want = values[label.GetName()]
			}
			seen := make(map[string]struct{})
			for _, metric := range f.GetMetric() {
				for _, l := range metric.GetLabel() {
					if l.GetName() == label.GetName() {
						seen[l.GetValue()] = struct{}{}
					}
				}
			}
			got := slices.Sorted(maps.Keys(seen))
			if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
				t.Errorf("%s has %s %q, want %q", f.GetName(), label.GetName(), got, want)
			}
			product *= len(want)
		}
		if got := len(f.GetMetric()); got != product {
			t.Errorf("%s has %d series, want %d", f.GetName(), got, product)
		}
	}
}

func TestLint(t *testing.T) {
	m, reg := setUp(t)
	if err := m.Collect(fakeSource{}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families(t, reg) {
		names = append(names, f.GetName())
	}
	problems, err := testutil.GatherAndLint(reg, names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestRuntimeMetrics(t *testing.T) {
	_, reg := setUp(t)
	want := 1
	if runtime.GOOS == "linux" {
		want = 2
	}
	n, err := testutil.GatherAndCount(reg, "go_goroutines", "process_start_time_seconds")
	if err != nil {
		t.Fatal(err)
	}
	if n < want {
		t.Errorf("%d of the runtime's and the process's metrics, want %d", n, want)
	}
}

func TestBuildInfo(t *testing.T) {
	_, reg := setUp(t)
	want := `# HELP xdsrelay_build_info Version of xdsrelay and of Go; always 1.
# TYPE xdsrelay_build_info gauge
xdsrelay_build_info{goversion="` + runtime.Version() + `",version="v1.2.3"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "xdsrelay_build_info"); err != nil {
		t.Error(err)
	}
}

func TestBuildInfoWithoutVersion(t *testing.T) {
	if v := buildVersion(); v == "" || strings.ContainsAny(v, "() ") {
		t.Errorf("version %q", v)
	}
}

func TestRegistration(t *testing.T) {
	t.Run("beside the default collectors", func(t *testing.T) {
		reg := prometheus.NewRegistry()
		if err := reg.Register(collectors.NewGoCollector()); err != nil {
			t.Fatal(err)
		}
		if _, err := New(reg, nil); err != nil {
			t.Error(err)
		}
	})
	t.Run("twice", func(t *testing.T) {
		_, reg := setUp(t)
		if _, err := New(reg, nil); err == nil || !strings.HasPrefix(err.Error(), "metrics: ") {
			t.Errorf("a second New on one registry: %v", err)
		}
	})
	t.Run("two sources", func(t *testing.T) {
		m, _ := setUp(t)
		if err := m.Collect(fakeSource{}); err != nil {
			t.Fatal(err)
		}
		if err := m.Collect(fakeSource{}); err == nil || !strings.HasPrefix(err.Error(), "metrics: ") {
			t.Errorf("a second Source: %v", err)
		}
	})
	t.Run("name of an upstream", func(t *testing.T) {
		reg := prometheus.NewRegistry()
		_, err := New(reg, []string{"fine", "b\xffd"})
		if err == nil || !strings.Contains(err.Error(), `"b\xffd"`) {
			t.Errorf("error %v does not tell which name is bad", err)
		}
		if all, err := reg.Gather(); err != nil || len(all) != 0 {
			t.Errorf("%d metrics stayed registered (%v)", len(all), err)
		}
	})
}

// TestConcurrency is for the race detector.
func TestConcurrency(t *testing.T) {
	m, reg := setUp(t)
	if err := m.Collect(fakeSource{sessions: []SessionStats{{Upstream: "late", State: upstream.StateIdle}}}); err != nil {
		t.Fatal(err)
	}
	const rounds = 200
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range rounds {
				deliver(m)
				m.Upstream("late", 0).StreamOpened("ads", "b:1")
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			families(t, reg)
		}
	})
	wg.Wait()
	n := 0.0
	for _, f := range families(t, reg) {
		if f.GetName() == "xdsrelay_upstream_streams_opened_total" {
			for _, s := range f.GetMetric() {
				n += s.GetCounter().GetValue()
			}
		}
	}
	if n != 4*rounds {
		t.Errorf("%v streams, want %d", n, 4*rounds)
	}
}

// deliver is what is reported with one delivery, from the upstream's response to
// the client's ACK, and with a subscription.
func deliver(m *Metrics) {
	for _, url := range []string{clusterURL, clusterURL + "Collection", unknownURL} {
		u := m.Upstream("primary", 0)
		u.ResponseReceived(url, 3, 1, 1000)
		u.RequestSent(url, upstream.KindAck)
		d := m.Downstream()
		d.Requested(url)
		d.Subscribed(url, 1)
		d.Sent(url, 3, 1, 1000, 2)
		d.Propagated(url, 3*time.Millisecond)
		d.Acknowledged(url, 5*time.Millisecond)
		d.Acked(url)
		d.Nacked(url, downstream.NackOther)
		d.Overdue(url)
		c := m.Cache()
		c.Lookup(url, true)
		c.Lookup(url, false)
		c.Evicted(url, cache.ReasonIdle)
		c.Unsolicited(url, 1)
		c.Foreign("plane", url, "name", 1)
		c.Expired(url)
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	m, _ := setUp(t)
	if n := testing.AllocsPerRun(100, func() { deliver(m) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkDelivery is the share of the metrics in one delivery to one client.
func BenchmarkDelivery(b *testing.B) {
	m, _ := setUp(b)
	d := m.Downstream()
	delivery := func() {
		d.Sent(clusterURL, 3, 0, 1000, 0)
		d.Propagated(clusterURL, 3*time.Millisecond)
		d.Requested(clusterURL)
		d.Acked(clusterURL)
		d.Acknowledged(clusterURL, 5*time.Millisecond)
	}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			delivery()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				delivery()
			}
		})
	})
}
