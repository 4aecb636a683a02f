package metrics

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/relay/load"
	"github.com/xdsrelay/xdsrelay/relay/loadreport"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// Source gives the numbers that are read at each scrape. Its methods are called from any
// goroutine, by several scrapes at once.
type Source interface {
	// CacheTotals gives the totals that the cache's limits apply to, and the number of
	// names and collections that no client subscribes to now.
	CacheTotals() (resources, bytes int64, unwatched int)
	// PastBytes gives the size of what is remembered of the states that clients had before.
	PastBytes() int64
	// Memory gives the bytes that the process cannot do without, and those that it may take; 0: there is no limit.
	Memory() (used, limit int64)
	// Admission gives how many clients join, and wait for it.
	Admission() load.Status
	// Connections counts the connections of clients, and those of them that wait until they are served.
	Connections() (present, waiting int)
	// Clients counts the streams and the held polls of clients, by type URL and state.
	Clients() map[string]map[downstream.ClientState]int
	// Passed counts the streams of clients that are served 1:1, by upstream: of each upstream, 0 for none.
	Passed() map[string]int
	// Certificates lists the certificates that the relay shows, as they stand in their files.
	Certificates() []Certificate
	// KeyAges gives for each issuer of tokens how long ago its keys were read or fetched.
	KeyAges() map[string]time.Duration
	// Sessions lists the sessions that are running.
	Sessions() []SessionStats
	// Replicas lists the servers of the upstreams.
	Replicas() []ReplicaStats
	// Contacts says of each upstream that is made of servers how they answer.
	Contacts() map[string]upstream.Contact
	// Scopes counts the scopes of the aggregation rules, and the scopes whose clients
	// differ in a field that no rule mentions.
	Scopes() (scopes, unmentioned int)
	// Workloads counts the SPIFFE Workload APIs in use that do not answer, and says when the first of
	// the certificates from such APIs expires; zero: there is none.
	Workloads() credentials.WorkloadState
}

// Certificate is one in a file. One that cannot be read has no times.
type Certificate struct {
	Key           string // of the configuration
	From, Expires time.Time
}

// SessionStats is one session: the relay's side towards one upstream for one scope.
// It has the values of upstream.Status, cache.Store.Stats and loadreport.Scope.Status.
type SessionStats struct {
	Upstream string
	State    upstream.State
	Since    time.Time // of State
	Stale    time.Time
	Tables   []cache.TypeStats
	Loads    loadreport.Status

	Restored     int       // resources of an earlier process that were not confirmed
	RestoredAsOf time.Time // when they were last known to be current
}

// ReplicaStats is one server of an upstream. It has the values of upstream.Replica.
type ReplicaStats struct {
	Upstream    string
	Priority    int // 0 is the first
	Unreachable bool
	Silent      bool
	Sessions    int // that have streams to it
}

// Collect registers src for every scrape from now on. The error says that there is a
// registered Source already.
func (m *Metrics) Collect(src Source) error {
	if err := m.reg.Register(newSourceCollector(m, src)); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// sourceCollector asks a Source for each scrape.
type sourceCollector struct {
	metrics *Metrics
	source  Source

	resources, bytes, unwatched *prometheus.Desc
	past                        *prometheus.Desc
	memory, memoryLimit         *prometheus.Desc
	places, working, waiting    *prometheus.Desc
	connections, kept           *prometheus.Desc
	clients, passed             *prometheus.Desc
	certificates, lifetimes     *prometheus.Desc
	sessions, staleness         *prometheus.Desc
	replicas, unreachable       *prometheus.Desc
	silent                      *prometheus.Desc
	answered, unanswered        *prometheus.Desc
	most, least                 *prometheus.Desc
	scopes, unmentioned         *prometheus.Desc
	reporting, interval         *prometheus.Desc
	restored, restoredAge       *prometheus.Desc
	workloadsAway               *prometheus.Desc
	keyAges                     *prometheus.Desc
	expires, tokenExpires       *prometheus.Desc
	tables                      []tableDesc
}

// tableDesc is one number of each upstream's tables of each type.
type tableDesc struct {
	desc  *prometheus.Desc
	value func(*tableSum) float64
}

// tableSum adds up tables.
type tableSum struct {
	subscriptions, leftOut, collections, tombstones, followers, pins, held int
	frozen, frozenNames                                                    int
	resources, bytes, watchers                                             int64
}

func newSourceCollector(m *Metrics, src Source) *sourceCollector {
	desc := func(subsystem, name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, name), help, labels, nil)
	}
	table := func(subsystem, name, help string, value func(*tableSum) float64) tableDesc {
		return tableDesc{desc(subsystem, name, help, labelUpstream, labelType), value}
	}
	return &sourceCollector{
		metrics:     m,
		source:      src,
		resources:   desc("cache", "resources", "Cached resources, counted as for cache.max_resources."),
		bytes:       desc("cache", "bytes", "Encoded size of the cached resources, counted as for cache.max_bytes."),
		unwatched:   desc("cache", "unwatched", "Cached names and collections that no client subscribes to now. The relay evicts only these."),
		memory:      desc("memory", "used_bytes", "Memory that the process cannot do without: what the last garbage collection found in use, stacks, and what the runtime needs."),
		memoryLimit: desc("memory", "limit_bytes", "What limits.memory comes to; 0: there is no limit."),
		places:      desc("admission", "places", "How many works of clients that join may be under way at a time; 0: limits.admission is off."),
		working:     desc("admission", "working", "Works of clients that join that are under way."),
		waiting:     desc("admission", "waiting", "Works of clients that join that wait for their turn.", labelWork),
		connections: desc("downstream", "connections", "Open connections of clients, through all listeners, also those that wait."),
		kept:        desc("downstream", "connections_waiting", "Connections of clients that wait until the relay serves them."),
		clients:     desc("downstream", "clients", "Streams and held polls of clients that subscribe to the type, by how far they are with it.", labelType, labelState),
		certificates: desc("tls", "certificate_expires_seconds",
			"Time until the certificate of a file expires, negative after that; 0 if the file has none that can be read.", labelKey),
		lifetimes: desc("tls", "certificate_lifetime_seconds", "For how long the certificate of a file is valid in all; 0 likewise.", labelKey),
		past:      desc("cache", "past_bytes", "Size of the content that is remembered to roll back to, counted as for cache.generations."),
		sessions:  desc("upstream", "sessions", "Sessions with the upstream, by state. There is one for each scope.", labelUpstream, labelState),
		staleness: desc("upstream", "staleness_seconds",
			"The longest time for which a session with the upstream has needed resources but had no answer; 0 if all such sessions are connected.",
			labelUpstream),
		replicas:    desc("upstream", "replicas", "Servers of the upstream: its endpoints, or the addresses of their names.", labelUpstream),
		unreachable: desc("upstream", "replicas_unreachable", "Servers of the upstream that the relay could not reach when it last tried.", labelUpstream),
		silent:      desc("upstream", "replicas_silent", "Servers of the upstream that take connections and do not answer.", labelUpstream),
		answered: desc("upstream", "answer_age_seconds",
			"Time since a server of the upstream last answered; before the first answer, since the relay knows the upstream.", labelUpstream),
		unanswered: desc("upstream", "unanswered_seconds",
			"Age of the oldest request that a server of the upstream owes an answer; 0 if there is none.", labelUpstream),
		most:   desc("upstream", "replica_sessions_max", "Sessions of the server of the first priority that has the most.", labelUpstream),
		least:  desc("upstream", "replica_sessions_min", "Sessions of the server of the first priority that has the fewest.", labelUpstream),
		scopes: desc("aggregation", "scopes", "Scopes of the aggregation rules, including lingering scopes without a client."),
		unmentioned: desc("aggregation", "scopes_with_unmentioned_fields",
			"Scopes whose clients' nodes differ in a field that no aggregation rule mentions."),
		passed:    desc("passthrough", "streams", "Streams of clients that are served 1:1.", labelUpstream),
		reporting: desc("loadreport", "scopes", "Scopes whose clients report their load, by how far their reports come.", labelUpstream, labelState),
		interval: desc("loadreport", "interval_seconds",
			"The interval at which clients report, the shortest of all scopes; 0 if the upstream has told none.", labelUpstream),
		restored: desc("cache", "restored_resources",
			"Cached resources that come from snapshots, and that the upstream has not confirmed since the start.", labelUpstream),
		restoredAge: desc("cache", "restored_age_seconds",
			"The longest time since such a resource was last known to be current; 0 if there is none.", labelUpstream),
		workloadsAway: desc("spiffe", "away", "SPIFFE Workload APIs in use that do not answer, or have no identity for the relay."),
		keyAges:       desc("downstream", "token_keys_age_seconds", "Time since the keys of an issuer of bearer tokens were read or fetched.", labelIssuer),
		expires: desc("spiffe", "certificate_expires_seconds",
			"Time until the first of the certificates from SPIFFE Workload APIs expires, negative after that; 0 if there is none."),
		tokenExpires: desc("spiffe", "token_expires_seconds",
			"Time until the first of the tokens from SPIFFE Workload APIs expires, negative after that; 0 if there is none."),
		tables: []tableDesc{
			table("upstream", "subscriptions", "Names and collections that the relay is subscribed to.",
				func(t *tableSum) float64 { return float64(t.subscriptions) }),
			table("upstream", "left_out_names", "Names that the upstream is not asked for, because requests have no room for them.",
				func(t *tableSum) float64 { return float64(t.leftOut) }),
			table("table", "resources", "Cached resources of the upstream.",
				func(t *tableSum) float64 { return float64(t.resources) }),
			table("table", "bytes", "Encoded size of the cached resources of the upstream.",
				func(t *tableSum) float64 { return float64(t.bytes) }),
			table("table", "collections", "Cached globs and whole types of the upstream.",
				func(t *tableSum) float64 { return float64(t.collections) }),
			table("table", "tombstones", "Removed members of collections that some client does not know of yet.",
				func(t *tableSum) float64 { return float64(t.tombstones) }),
			table("table", "followers", "Clients' subscriptions to the upstream's collections.",
				func(t *tableSum) float64 { return float64(t.followers) }),
			table("table", "watchers", "Clients' subscriptions to the upstream's resources by name.",
				func(t *tableSum) float64 { return float64(t.watchers) }),
			table("table", "held", "Resources that the upstream removed and that clients keep for a while, because it removed many at once.",
				func(t *tableSum) float64 { return float64(t.held) }),
			table("table", "frozen", "Tables of scopes of which an operator holds everything.",
				func(t *tableSum) float64 { return float64(t.frozen) }),
			table("table", "frozen_names", "Names of which clients have something else than the upstream sent last, because an operator holds everything.",
				func(t *tableSum) float64 { return float64(t.frozenNames) }),
			table("table", "pins", "Names and globs of the upstream that the relay fetches ahead.",
				func(t *tableSum) float64 { return float64(t.pins) }),
		},
	}
}

// Describe implements prometheus.Collector.
func (c *sourceCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.resources, c.bytes, c.unwatched, c.past, c.memory, c.memoryLimit, c.connections, c.kept, c.clients, c.passed, c.certificates, c.lifetimes, c.places, c.working, c.waiting, c.sessions, c.staleness, c.replicas, c.unreachable, c.silent, c.answered, c.unanswered, c.most, c.least, c.scopes, c.unmentioned, c.reporting, c.interval, c.restored, c.restoredAge, c.workloadsAway, c.keyAges, c.expires, c.tokenExpires} {
		ch <- d
	}
	for _, t := range c.tables {
		ch <- t.desc
	}
}

// upstreamSum adds up the sessions of one upstream.
type upstreamSum struct {
	sessions map[upstream.State]int
	stale    time.Duration
	loads    map[loadreport.State]int
	interval time.Duration // of load reports, the shortest
	types    []tableSum
	restored int
	age      time.Duration // of the oldest of them

	replicas, unreachable, silent int
	first                         []int // sessions of each server of the first priority
}

func newUpstreamSum() *upstreamSum {
	u := &upstreamSum{sessions: make(map[upstream.State]int, len(states)), loads: make(map[loadreport.State]int), types: make([]tableSum, len(shortNames))}
	for _, st := range states {
		u.sessions[st] = 0
	}
	for _, st := range loadreport.States() {
		if st != loadreport.StateIdle {
			u.loads[st] = 0
		}
	}
	return u
}

// Collect implements prometheus.Collector.
func (c *sourceCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	resources, bytes, unwatched := c.source.CacheTotals()
	gauge(c.resources, float64(resources))
	gauge(c.bytes, float64(bytes))
	gauge(c.unwatched, float64(unwatched))
	gauge(c.past, float64(c.source.PastBytes()))
	used, limit := c.source.Memory()
	gauge(c.memory, float64(used))
	gauge(c.memoryLimit, float64(limit))
	admission := c.source.Admission()
	gauge(c.places, float64(admission.Places))
	gauge(c.working, float64(admission.Working))
	for _, work := range load.Works() {
		gauge(c.waiting, float64(admission.Waiting[work]), string(work))
	}
	present, waiting := c.source.Connections()
	gauge(c.connections, float64(present))
	gauge(c.kept, float64(waiting))
	for k, states := range c.census() {
		for state, n := range states {
			gauge(c.clients, float64(n), shortNames[k], string(state))
		}
	}
	for name, n := range c.source.Passed() {
		gauge(c.passed, float64(n), name)
	}
	scopes, unmentioned := c.source.Scopes()
	gauge(c.scopes, float64(scopes))
	gauge(c.unmentioned, float64(unmentioned))
	now := time.Now()
	workloads := c.source.Workloads()
	gauge(c.workloadsAway, float64(workloads.Away))
	left := func(expires time.Time) float64 {
		if expires.IsZero() {
			return 0
		}
		return expires.Sub(now).Seconds()
	}
	gauge(c.expires, left(workloads.Certificate))
	gauge(c.tokenExpires, left(workloads.Token))
	for issuer, age := range c.source.KeyAges() {
		gauge(c.keyAges, age.Seconds(), issuer)
	}
	for _, x := range c.source.Certificates() {
		gauge(c.certificates, left(x.Expires), x.Key)
		gauge(c.lifetimes, x.Expires.Sub(x.From).Seconds(), x.Key)
	}
	for name, contact := range c.source.Contacts() {
		last, owed := contact.Answered, time.Duration(0)
		if last.IsZero() {
			last = contact.Since
		}
		if !contact.Unanswered.IsZero() {
			owed = now.Sub(contact.Unanswered)
		}
		gauge(c.answered, now.Sub(last).Seconds(), name)
		gauge(c.unanswered, owed.Seconds(), name)
	}
	for name, u := range c.sums(now) {
		for state, n := range u.sessions {
			gauge(c.sessions, float64(n), name, string(state))
		}
		gauge(c.staleness, u.stale.Seconds(), name)
		for state, n := range u.loads {
			gauge(c.reporting, float64(n), name, string(state))
		}
		gauge(c.interval, u.interval.Seconds(), name)
		gauge(c.restored, float64(u.restored), name)
		gauge(c.restoredAge, u.age.Seconds(), name)
		gauge(c.replicas, float64(u.replicas), name)
		gauge(c.unreachable, float64(u.unreachable), name)
		gauge(c.silent, float64(u.silent), name)
		gauge(c.most, float64(slices.Max(append(u.first, 0))), name)
		gauge(c.least, float64(u.fewest()), name)
		for k := range u.types {
			for _, t := range c.tables {
				gauge(t.desc, t.value(&u.types[k]), name, shortNames[k])
			}
		}
	}
}

// census counts the clients by kind and state. Those that nobody is in are zero.
func (c *sourceCollector) census() (all []map[downstream.ClientState]int) {
	all = make([]map[downstream.ClientState]int, len(shortNames))
	for k := range all {
		all[k] = make(map[downstream.ClientState]int, len(downstream.States))
		for _, state := range downstream.States {
			all[k][state] = 0
		}
	}
	for url, states := range c.source.Clients() {
		for state, n := range states {
			all[kindOf(url)][state] += n
		}
	}
	return all
}

// sums adds the sessions up by upstream. Upstreams without a session have zeros.
func (c *sourceCollector) sums(now time.Time) map[string]*upstreamSum {
	sums := make(map[string]*upstreamSum)
	for _, name := range c.metrics.names() {
		sums[name] = newUpstreamSum()
	}
	of := func(name string) *upstreamSum {
		u := sums[name]
		if u == nil {
			u = newUpstreamSum()
			sums[name] = u
		}
		return u
	}
	for _, s := range c.source.Sessions() {
		of(s.Upstream).add(s, now)
	}
	for _, x := range c.source.Replicas() {
		of(x.Upstream).addReplica(x)
	}
	return sums
}

func (u *upstreamSum) addReplica(x ReplicaStats) {
	u.replicas++
	if x.Unreachable {
		u.unreachable++
	}
	if x.Silent {
		u.silent++
	}
	if x.Priority == 0 {
		u.first = append(u.first, x.Sessions)
	}
}

// fewest are the sessions of the server of the first priority that has the fewest.
func (u *upstreamSum) fewest() int {
	if len(u.first) == 0 {
		return 0
	}
	return slices.Min(u.first)
}

func (u *upstreamSum) add(s SessionStats, now time.Time) {
	u.sessions[s.State]++
	if n, ok := u.loads[s.Loads.State]; ok && s.Loads.Clients > 0 {
		u.loads[s.Loads.State] = n + 1
	}
	if d := s.Loads.Interval; u.interval == 0 || d > 0 && d < u.interval {
		u.interval = d
	}
	// An idle session has nothing that could be stale (OPS-1).
	if s.State == upstream.StateConnecting {
		u.stale = max(u.stale, now.Sub(s.Stale))
	}
	if s.Restored > 0 {
		u.restored += s.Restored
		u.age = max(u.age, now.Sub(s.RestoredAsOf))
	}
	for _, t := range s.Tables {
		sum := &u.types[kindOf(t.TypeURL)]
		sum.subscriptions += t.Subscriptions
		sum.leftOut += t.LeftOut
		sum.collections += t.Collections
		sum.tombstones += t.Tombstones
		sum.followers += t.Followers
		sum.pins += t.Pins
		sum.held += t.Held
		if t.Frozen {
			sum.frozen++
		}
		sum.frozenNames += t.FrozenNames
		sum.resources += t.Resources
		sum.bytes += t.Bytes
		sum.watchers += t.Watchers
	}
}
