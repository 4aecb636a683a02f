package metrics

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/relay/load"
	"github.com/xdsrelay/xdsrelay/relay/loadreport"
	"github.com/xdsrelay/xdsrelay/upstream"
)

type fakeSource struct {
	resources, bytes    int64
	past                int64
	used, limit         int64
	admission           load.Status
	unwatched           int
	sessions            []SessionStats
	replicas            []ReplicaStats
	scopes, unmentioned int
	present, waiting    int
	contacts            map[string]upstream.Contact
	passed              map[string]int
	away                int
	expires             time.Duration // from now
	clients             map[string]map[downstream.ClientState]int
	certificates        []Certificate
	keyAges             map[string]time.Duration
}

func (f fakeSource) KeyAges() map[string]time.Duration { return f.keyAges }

func (f fakeSource) Clients() map[string]map[downstream.ClientState]int { return f.clients }

func (f fakeSource) Certificates() []Certificate { return f.certificates }

func (f fakeSource) CacheTotals() (resources, bytes int64, unwatched int) {
	return f.resources, f.bytes, f.unwatched
}

func (f fakeSource) PastBytes() int64 { return f.past }

func (f fakeSource) Memory() (used, limit int64) { return f.used, f.limit }

func (f fakeSource) Admission() load.Status              { return f.admission }
func (f fakeSource) Connections() (present, waiting int) { return f.present, f.waiting }

func (f fakeSource) Sessions() []SessionStats { return f.sessions }

func (f fakeSource) Replicas() []ReplicaStats { return f.replicas }

func (f fakeSource) Passed() map[string]int                { return f.passed }
func (f fakeSource) Contacts() map[string]upstream.Contact { return f.contacts }

func (f fakeSource) Scopes() (scopes, unmentioned int) { return f.scopes, f.unmentioned }

func (f fakeSource) Workloads() credentials.WorkloadState {
	now := credentials.WorkloadState{Away: f.away}
	if f.expires != 0 {
		now.Certificate, now.Token = time.Now().Add(f.expires), time.Now().Add(f.expires/2)
	}
	return now
}

func TestSource(t *testing.T) {
	m, reg := setUp(t)
	table := func(url string) cache.TypeStats {
		return cache.TypeStats{
			TypeURL: url, Kind: "named", Stream: "ads#2", Subscriptions: 1, LeftOut: 8, Collections: 2,
			Resources: 3, Bytes: 4, Tombstones: 5, Followers: 6, Watchers: 7,
		}
	}
	err := m.Collect(fakeSource{
		resources: 10, bytes: 1000, unwatched: 4, past: 300, used: 700, limit: 800, admission: load.Status{Places: 4, Working: 3, Waiting: map[load.Work]int{load.Join: 2, load.Handshake: 1}}, present: 9, waiting: 1, scopes: 8, unmentioned: 3,
		sessions: []SessionStats{
			{Upstream: "primary", State: upstream.StateConnected, Tables: []cache.TypeStats{
				table(clusterURL), table(clusterURL), table(unknownURL),
			}, Loads: loadreport.Status{State: loadreport.StateReporting, Clients: 2, Interval: 3 * time.Second}},
			{
				Upstream: "primary", State: upstream.StateConnected, Tables: []cache.TypeStats{table(clusterURL)},
				Loads: loadreport.Status{State: loadreport.StateReporting, Clients: 1, Interval: 2 * time.Second},
			},
			{Upstream: "primary", State: upstream.StateIdle, Loads: loadreport.Status{State: loadreport.StateWaiting, Clients: 1}},
			{Upstream: "primary", State: upstream.StateIdle, Loads: loadreport.Status{State: loadreport.StateUnserved}},
			{Upstream: "added later", State: upstream.StateIdle},
		},
		replicas: []ReplicaStats{
			{Upstream: "primary", Sessions: 5}, {Upstream: "primary", Sessions: 2}, {Upstream: "primary", Sessions: 4},
			{Upstream: "primary", Priority: 1, Unreachable: true}, {Upstream: "reached by name", Priority: 1, Sessions: 9},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		`cache_resources`: 10, `cache_bytes`: 1000, `cache_unwatched`: 4, `cache_past_bytes`: 300, `memory_used_bytes`: 700, `memory_limit_bytes`: 800,
		`admission_places`: 4, `admission_working`: 3, `admission_waiting{work="join"}`: 2, `admission_waiting{work="handshake"}`: 1,
		`downstream_connections`: 9, `downstream_connections_waiting`: 1,
		`aggregation_scopes`: 8, `aggregation_scopes_with_unmentioned_fields`: 3,
		`loadreport_scopes{state="reporting",upstream="primary"}`: 2, `loadreport_scopes{state="waiting",upstream="primary"}`: 1,
		`loadreport_interval_seconds{upstream="primary"}`: 2,
		`upstream_replicas{upstream="primary"}`:           4, `upstream_replicas_unreachable{upstream="primary"}`: 1,
		`upstream_replica_sessions_max{upstream="primary"}`: 5, `upstream_replica_sessions_min{upstream="primary"}`: 2,
		`upstream_replicas{upstream="reached by name"}`:           1,
		`upstream_sessions{state="connected",upstream="primary"}`: 2,
		`upstream_sessions{state="idle",upstream="primary"}`:      2,
		`upstream_sessions{state="idle",upstream="added later"}`:  1,
	}
	for name, n := range map[string]float64{
		"upstream_subscriptions": 1, "upstream_left_out_names": 8, "table_collections": 2, "table_resources": 3, "table_bytes": 4,
		"table_tombstones": 5, "table_followers": 6, "table_watchers": 7,
	} {
		want[name+`{type="cds",upstream="primary"}`] = 3 * n
		want[name+`{type="other",upstream="primary"}`] = n
	}
	expect(t, reg, want)
}

// Types that no operator knows count together, and a certificate that cannot be read has no times (ACK-7, ACC-1).
func TestClientsAndCertificates_ACK7_ACC1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reg := setUp(t)
		now := time.Now()
		if err := m.Collect(fakeSource{
			clients: map[string]map[downstream.ClientState]int{
				clusterURL: {downstream.Current: 7, downstream.Rejecting: 2},
				unknownURL: {downstream.Behind: 1}, "of another type": {downstream.Behind: 2, downstream.Waiting: 3},
			},
			certificates: []Certificate{
				{Key: "server.tls.cert_file", From: now.Add(-time.Hour), Expires: now.Add(time.Hour)},
				{Key: "admin.tls.cert_file", From: now.Add(-time.Hour), Expires: now.Add(-time.Minute)}, {Key: "peers.tls.cert_file"},
			},
		}); err != nil {
			t.Fatal(err)
		}
		expect(t, reg, map[string]float64{
			`downstream_clients{state="current",type="cds"}`: 7, `downstream_clients{state="rejecting",type="cds"}`: 2,
			`downstream_clients{state="behind",type="other"}`: 3, `downstream_clients{state="waiting",type="other"}`: 3,
			`tls_certificate_expires_seconds{key="server.tls.cert_file"}`: 3600, `tls_certificate_lifetime_seconds{key="server.tls.cert_file"}`: 7200,
			`tls_certificate_expires_seconds{key="admin.tls.cert_file"}`: -60, `tls_certificate_lifetime_seconds{key="admin.tls.cert_file"}`: 3540,
		})
	})
}

// Of SPIFFE Workload APIs: how many are away, and when the first certificate and the first token expire
// (ACC-1, ACC-6).
func TestWorkloads_ACC1_ACC6(t *testing.T) {
	for _, expires := range []time.Duration{0, time.Minute, -time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			m, reg := setUp(t)
			if err := m.Collect(fakeSource{away: 2, expires: expires}); err != nil {
				t.Fatal(err)
			}
			m.Workloads().WorkloadAnswered()
			m.Workloads().WorkloadFailed()
			m.Workloads().WorkloadFailed()
			want := map[string]float64{"spiffe_away": 2, "spiffe_updates_total": 1, "spiffe_failures_total": 2}
			if expires != 0 {
				want["spiffe_certificate_expires_seconds"] = expires.Seconds()
				want["spiffe_token_expires_seconds"] = (expires / 2).Seconds()
			}
			expect(t, reg, want)
		})
	}
}

// TestSUR2Contacts: SUR-2, how long the servers have not answered, and what they owe.
func TestSUR2Contacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reg := setUp(t)
		now := time.Now()
		ago := func(d time.Duration) time.Time { return now.Add(-d) }
		if err := m.Collect(fakeSource{
			contacts: map[string]upstream.Contact{
				"primary": {Answered: ago(3 * time.Second), Unanswered: ago(2 * time.Second), Since: ago(time.Hour)},
				"cold":    {Since: ago(time.Minute)},
			},
			replicas: []ReplicaStats{{Upstream: "primary"}, {Upstream: "primary", Priority: 1, Silent: true}},
		}); err != nil {
			t.Fatal(err)
		}
		expect(t, reg, map[string]float64{
			`upstream_answer_age_seconds{upstream="primary"}`: 3, `upstream_unanswered_seconds{upstream="primary"}`: 2,
			`upstream_answer_age_seconds{upstream="cold"}`: 60,
			`upstream_replicas{upstream="primary"}`:        2, `upstream_replicas_silent{upstream="primary"}`: 1,
		})
	})
}

// TestStaleness: OPS-1, the age of what clients get while a server is gone is that
// of the session that has been without an answer for the longest time, and not without it
// since the loss was noticed (SUR-2).
func TestStaleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reg := setUp(t)
		now := time.Now() // it stands still in the bubble
		sessions := []SessionStats{
			{Upstream: "primary", State: upstream.StateConnected, Since: now.Add(-time.Hour)},
			{Upstream: "primary", State: upstream.StateConnecting, Since: now, Stale: now.Add(-4 * time.Minute)},
			{Upstream: "primary", State: upstream.StateConnecting, Since: now.Add(-3 * time.Minute), Stale: now.Add(-3 * time.Minute)},
			{Upstream: "backup", State: upstream.StateIdle, Since: now.Add(-time.Hour)},
		}
		if err := m.Collect(fakeSource{sessions: sessions}); err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{
			`upstream_sessions{state="connected",upstream="primary"}`:  1,
			`upstream_sessions{state="connecting",upstream="primary"}`: 2,
			`upstream_sessions{state="idle",upstream="backup"}`:        1,
			`upstream_staleness_seconds{upstream="primary"}`:           240,
		}
		expect(t, reg, want)

		for i := range sessions {
			sessions[i].State = upstream.StateConnected
		}
		expect(t, reg, map[string]float64{
			`upstream_sessions{state="connected",upstream="primary"}`: 3,
			`upstream_sessions{state="connected",upstream="backup"}`:  1,
		})
	})
}
