package loadreport

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"
)

// idle is a scope whose goroutine never runs: a test takes the sums out of it.
func idle(t interface{ Helper() }) *Scope {
	t.Helper()
	o := newCounts()
	s := NewScopes(context.Background()).NewScope(new(fakeSource), NewGate(o), o, slog.New(slog.DiscardHandler))
	s.running = true
	return s
}

// totals is what was reported, field by field: "cluster/service/region/p0/issued" → sum.
type totals map[string]float64

// gauge says whether a field is none that adds up.
func gauge(field string) bool {
	return strings.HasSuffix(field, "/in_progress") || strings.HasSuffix(field, "/active_connections")
}

// add adds a report, without the gauges or with nothing else.
func (n totals) add(clusters []*endpointv3.ClusterStats, gauges bool) {
	put := func(field string, v float64) {
		if v != 0 && gauge(field) == gauges {
			n[field] += v
		}
	}
	metrics := func(at string, all []*endpointv3.EndpointLoadMetricStats) {
		for _, m := range all {
			put(at+"/metric/"+m.GetMetricName()+"/requests", float64(m.GetNumRequestsFinishedWithMetric()))
			put(at+"/metric/"+m.GetMetricName()+"/total", m.GetTotalMetricValue())
		}
	}
	requests := func(at string, r requester) {
		put(at+"/successful", float64(r.GetTotalSuccessfulRequests()))
		put(at+"/error", float64(r.GetTotalErrorRequests()))
		put(at+"/issued", float64(r.GetTotalIssuedRequests()))
		put(at+"/in_progress", float64(r.GetTotalRequestsInProgress()))
	}
	for _, c := range clusters {
		at := c.GetClusterName() + "/" + c.GetClusterServiceName()
		put(at+"/dropped", float64(c.GetTotalDroppedRequests()))
		for _, d := range c.GetDroppedRequests() {
			put(at+"/dropped/"+d.GetCategory(), float64(d.GetDroppedCount()))
		}
		for _, l := range c.GetUpstreamLocalityStats() {
			at := fmt.Sprintf("%s/%s/p%d", at, l.GetLocality().GetRegion(), l.GetPriority())
			requests(at, l)
			put(at+"/active_connections", float64(l.GetTotalActiveConnections()))
			put(at+"/new_connections", float64(l.GetTotalNewConnections()))
			put(at+"/fail_connections", float64(l.GetTotalFailConnections()))
			put(at+"/cpu/requests", float64(l.GetCpuUtilization().GetNumRequestsFinishedWithMetric()))
			put(at+"/cpu/total", l.GetCpuUtilization().GetTotalMetricValue())
			put(at+"/mem/total", l.GetMemUtilization().GetTotalMetricValue())
			put(at+"/application/total", l.GetApplicationUtilization().GetTotalMetricValue())
			metrics(at, l.GetLoadMetricStats())
			for _, e := range l.GetUpstreamEndpointStats() {
				at := at + "/" + e.GetAddress().GetSocketAddress().GetAddress()
				requests(at, e)
				metrics(at, e.GetLoadMetricStats())
			}
		}
	}
}

// number draws a count. Its sums are exact as a float64, too.
func number(t *rapid.T, what string) uint64 { return rapid.Uint64Range(0, 1000).Draw(t, what) }

func someMetrics(t *rapid.T) []*endpointv3.EndpointLoadMetricStats {
	var all []*endpointv3.EndpointLoadMetricStats
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"queue", "lag", ""}), 0, 2, rapid.ID).Draw(t, "metrics") {
		all = append(all, &endpointv3.EndpointLoadMetricStats{
			MetricName: name, NumRequestsFinishedWithMetric: number(t, "requests"),
			TotalMetricValue: float64(rapid.IntRange(-1000, 1000).Draw(t, "value")) / 8,
		})
	}
	return all
}

func utilization(t *rapid.T, what string) *endpointv3.UnnamedEndpointLoadMetricStats {
	if !rapid.Bool().Draw(t, what) {
		return nil
	}
	return &endpointv3.UnnamedEndpointLoadMetricStats{
		NumRequestsFinishedWithMetric: number(t, what), TotalMetricValue: float64(number(t, what)) / 16,
	}
}

func someLocality(t *rapid.T, region string) *endpointv3.UpstreamLocalityStats {
	l := &endpointv3.UpstreamLocalityStats{
		Locality: &corev3.Locality{Region: region}, Priority: rapid.Uint32Range(0, 1).Draw(t, "priority"),
		TotalSuccessfulRequests: number(t, "successful"), TotalErrorRequests: number(t, "error"),
		TotalIssuedRequests: number(t, "issued"), TotalRequestsInProgress: number(t, "in progress"),
		TotalActiveConnections: number(t, "active"), TotalNewConnections: number(t, "new"), TotalFailConnections: number(t, "fail"),
		CpuUtilization: utilization(t, "cpu"), MemUtilization: utilization(t, "mem"), ApplicationUtilization: utilization(t, "application"),
		LoadMetricStats: someMetrics(t),
	}
	for _, address := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2"}), 0, 2, rapid.ID).Draw(t, "endpoints") {
		l.UpstreamEndpointStats = append(l.UpstreamEndpointStats, &endpointv3.UpstreamEndpointStats{
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
			}}},
			TotalSuccessfulRequests: number(t, "successful"), TotalErrorRequests: number(t, "error"),
			TotalIssuedRequests: number(t, "issued"), TotalRequestsInProgress: number(t, "in progress"),
			LoadMetricStats: someMetrics(t),
		})
	}
	return l
}

// someReport draws a report on some of the clusters, each once.
func someReport(t *rapid.T) []*endpointv3.ClusterStats {
	var all []*endpointv3.ClusterStats
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a/", "a/x", "b/", "c/y"}), 0, 3, rapid.ID).Draw(t, "clusters") {
		cluster, service, _ := strings.Cut(name, "/")
		c := &endpointv3.ClusterStats{
			ClusterName: cluster, ClusterServiceName: service, TotalDroppedRequests: number(t, "dropped"),
			LoadReportInterval: durationpb.New(time.Duration(rapid.IntRange(1, 20).Draw(t, "interval")) * time.Second),
		}
		for _, region := range rapid.SliceOfN(rapid.SampledFrom([]string{"eu", "us", ""}), 0, 3).Draw(t, "localities") {
			c.UpstreamLocalityStats = append(c.UpstreamLocalityStats, someLocality(t, region))
		}
		for _, category := range rapid.SliceOfN(rapid.SampledFrom([]string{"throttle", "lb"}), 0, 2).Draw(t, "drops") {
			c.DroppedRequests = append(c.DroppedRequests, &endpointv3.ClusterStats_DroppedRequests{Category: category, DroppedCount: number(t, "count")})
		}
		all = append(all, c)
	}
	return all
}

// model is a scope beside what it should be.
type model struct {
	scope   *Scope
	clients map[*Client][]*endpointv3.ClusterStats // what each reported last
	said    totals                                 // the counters of all reports
	told    totals                                 // those of the reports to the control plane
	periods map[string]map[*Client]time.Duration   // of the sums, by cluster
}

// flush takes the sums out. The control plane gets them, or the stream breaks.
func (m *model) flush(t *rapid.T, sent bool) {
	out, stats := m.scope.take()
	m.intervals(t, stats)
	m.underWay(t, stats)
	if sent {
		m.told.add(stats, false)
		m.periods = make(map[string]map[*Client]time.Duration)
	}
	m.scope.settle(out, sent)
}

// intervals checks that a report covers the mean of the times for which the clients reported.
func (m *model) intervals(t *rapid.T, stats []*endpointv3.ClusterStats) {
	if len(stats) != len(m.periods) {
		t.Fatalf("a report on %d clusters, want %d", len(stats), len(m.periods))
	}
	for _, c := range stats {
		of := m.periods[c.GetClusterName()+"/"+c.GetClusterServiceName()]
		var all time.Duration
		for _, d := range of {
			all += d
		}
		if got, want := c.GetLoadReportInterval().AsDuration(), all/time.Duration(len(of)); got != want {
			t.Fatalf("cluster %s: interval %v, want %v", c.GetClusterName(), got, want)
		}
	}
}

// underWay checks that a report has the newest gauges of all clients, in its clusters.
func (m *model) underWay(t *rapid.T, stats []*endpointv3.ClusterStats) {
	got, want := make(totals), make(totals)
	got.add(stats, true)
	for _, last := range m.clients {
		for _, c := range last {
			if _, in := m.periods[c.GetClusterName()+"/"+c.GetClusterServiceName()]; in {
				want.add([]*endpointv3.ClusterStats{c}, true)
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Fatalf("under way: %v, want %v", got, want)
	}
}

func (m *model) report(t *rapid.T, c *Client) {
	r := someReport(t)
	if err := c.Report(&loadv3.LoadStatsRequest{ClusterStats: r}); err != nil {
		t.Fatal(err)
	}
	m.said.add(r, false)
	m.clients[c] = r
	for _, stats := range r {
		at := stats.GetClusterName() + "/" + stats.GetClusterServiceName()
		if m.periods[at] == nil {
			m.periods[at] = make(map[*Client]time.Duration)
		}
		m.periods[at][c] += stats.GetLoadReportInterval().AsDuration()
	}
}

// Whatever clients report, in whatever order they come and go, and whichever report to the
// control plane fails: what the control plane was told is what the clients said, exactly.
func TestModel_LRS1(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			scope: idle(t), clients: make(map[*Client][]*endpointv3.ClusterStats), said: make(totals), told: make(totals),
			periods: make(map[string]map[*Client]time.Duration),
		}
		var present []*Client
		one := func(t *rapid.T) *Client { return rapid.SampledFrom(present).Draw(t, "client") }
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				c, err := m.scope.Join("node")
				if err != nil {
					t.Fatal(err)
				}
				present = append(present, c)
				m.clients[c] = nil
			},
			"leave": func(t *rapid.T) {
				if len(present) == 0 {
					t.Skip("nobody is there")
				}
				c := one(t)
				c.Leave()
				delete(m.clients, c)
				present = slices.DeleteFunc(present, func(x *Client) bool { return x == c })
			},
			"report": func(t *rapid.T) {
				if len(present) == 0 {
					t.Skip("nobody is there")
				}
				m.report(t, one(t))
			},
			"flush": func(t *rapid.T) { m.flush(t, true) },
			"fail":  func(t *rapid.T) { m.flush(t, false) },
		})
		m.flush(t, true)
		for _, sums := range []totals{m.said, m.told} {
			maps.DeleteFunc(sums, func(_ string, v float64) bool { return v == 0 }) // of negative values
		}
		if !maps.Equal(m.said, m.told) {
			t.Fatalf("clients said %v, the control plane was told %v", m.said, m.told)
		}
		for _, c := range present {
			c.Leave()
		}
		if used := m.scope.room.used.Load(); used != 0 || len(m.scope.gauges) != 0 {
			t.Fatalf("%d bytes and %d gauges are left of nothing", used, len(m.scope.gauges))
		}
	})
}

func oneLocality(l *endpointv3.UpstreamLocalityStats) *loadv3.LoadStatsRequest {
	return &loadv3.LoadStatsRequest{ClusterStats: []*endpointv3.ClusterStats{{
		ClusterName: "a", UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{l},
	}}}
}

func join(t *testing.T, s *Scope) *Client {
	t.Helper()
	c, err := s.Join("node")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantCode(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), text) {
		t.Errorf("got %v, want %v with %q", err, code, text)
	}
}

// A report with a value that cannot be is refused as a whole.
func TestBadValues_LRS1(t *testing.T) {
	var negative int64 = -1
	metric := func(v float64) *loadv3.LoadStatsRequest {
		return oneLocality(&endpointv3.UpstreamLocalityStats{
			TotalIssuedRequests: 1, LoadMetricStats: []*endpointv3.EndpointLoadMetricStats{{MetricName: "m", TotalMetricValue: v}},
		})
	}
	interval := func(d *durationpb.Duration) *loadv3.LoadStatsRequest {
		return &loadv3.LoadStatsRequest{ClusterStats: []*endpointv3.ClusterStats{{ClusterName: "a", TotalDroppedRequests: 1, LoadReportInterval: d}}}
	}
	for name, tc := range map[string]struct {
		report *loadv3.LoadStatsRequest
		want   string
	}{
		"a negative count":   {oneLocality(&endpointv3.UpstreamLocalityStats{TotalIssuedRequests: uint64(negative)}), `cluster "a": total_issued_requests is 18446744073709551615`},
		"no number":          {metric(math.NaN()), "total_metric_value is no number: NaN"},
		"infinity":           {metric(math.Inf(-1)), "total_metric_value is no number: -Inf"},
		"an overflow":        {metric2(), "its sums overflow"},
		"a negative load":    {oneLocality(&endpointv3.UpstreamLocalityStats{CpuUtilization: &endpointv3.UnnamedEndpointLoadMetricStats{TotalMetricValue: -1}}), "cpu_utilization is negative"},
		"a negative time":    {interval(durationpb.New(-time.Second)), "load_report_interval is negative: -1s"},
		"a time that is not": {interval(&durationpb.Duration{Seconds: 1, Nanos: -1}), "load_report_interval"},
		"ten thousand years": {interval(durationpb.New(math.MaxInt64)), "at most 8784h0m0s is taken"},
	} {
		t.Run(name, func(t *testing.T) {
			s := idle(t)
			c := join(t, s)
			wantCode(t, c.Report(tc.report), codes.InvalidArgument, tc.want)
			if _, stats := s.take(); len(stats) != 0 {
				t.Errorf("added %v", stats)
			}
		})
	}
}

func metric2() *loadv3.LoadStatsRequest {
	huge := &endpointv3.EndpointLoadMetricStats{MetricName: "m", TotalMetricValue: math.MaxFloat64}
	return oneLocality(&endpointv3.UpstreamLocalityStats{LoadMetricStats: []*endpointv3.EndpointLoadMetricStats{huge, huge}})
}

// Values that applications name may be negative.
func TestNegativeMetric_LRS1(t *testing.T) {
	s := idle(t)
	r := oneLocality(&endpointv3.UpstreamLocalityStats{
		LoadMetricStats: []*endpointv3.EndpointLoadMetricStats{{MetricName: "celsius", NumRequestsFinishedWithMetric: 1, TotalMetricValue: -3.5}},
	})
	if err := join(t, s).Report(r); err != nil {
		t.Fatal(err)
	}
	_, stats := s.take()
	if got := stats[0].GetUpstreamLocalityStats()[0].GetLoadMetricStats()[0].GetTotalMetricValue(); got != -3.5 {
		t.Errorf("got %v", got)
	}
}

// Clients that report the largest values again and again are refused before a sum overflows,
// also if the sums before come back; after the next report there is room again.
func TestOverflow_LRS1(t *testing.T) {
	s := idle(t)
	c := join(t, s)
	r := oneLocality(&endpointv3.UpstreamLocalityStats{TotalIssuedRequests: maxCount})
	taken := func() (n uint64) {
		for c.Report(r) == nil {
			n++
		}
		wantCode(t, c.Report(r), codes.ResourceExhausted, "would overflow")
		return n
	}
	const most = 1<<11 - 1
	if n := taken(); n != most {
		t.Fatalf("took %d reports, want %d", n, most)
	}
	out, _ := s.take()
	if n := taken(); n != 0 {
		t.Errorf("took %d reports before the sums were sent", n)
	}
	s.settle(out, false)
	out, stats := s.take()
	if got := stats[0].GetUpstreamLocalityStats()[0].GetTotalIssuedRequests(); got != most<<53 {
		t.Errorf("sum %d, want %d", got, uint64(most<<53))
	}
	s.settle(out, true)
	if n := taken(); n != most {
		t.Errorf("took %d reports when there was room again", n)
	}
}

// What is beyond the limits is left out and counted; the rest is exact.
func TestLimits_LRS1(t *testing.T) {
	long := strings.Repeat("x", maxName+1)
	t.Run("names", func(t *testing.T) {
		s := idle(t)
		err := join(t, s).Report(&loadv3.LoadStatsRequest{ClusterStats: []*endpointv3.ClusterStats{
			{ClusterName: long, TotalDroppedRequests: 5},
			{ClusterName: "a", TotalDroppedRequests: 7, DroppedRequests: []*endpointv3.ClusterStats_DroppedRequests{
				{Category: long, DroppedCount: 3}, {Category: "lb", DroppedCount: 4},
			}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		_, stats := s.take()
		if len(stats) != 1 || stats[0].GetTotalDroppedRequests() != 7 || len(stats[0].GetDroppedRequests()) != 1 {
			t.Errorf("reported %v", stats)
		}
		if n := observed(s).dropped[DroppedName]; n != 2 {
			t.Errorf("counted %d dropped entries, want 2", n)
		}
	})
	t.Run("a client", func(t *testing.T) {
		s := idle(t)
		flood, other := join(t, s), join(t, s)
		fill(t, flood, "flood", maxClientBytes/(entryBytes+maxName)+10)
		if n := observed(s).dropped[DroppedClient]; n == 0 {
			t.Error("nothing was dropped")
		}
		fill(t, other, "other", 1) // there is room for others
		out, stats := s.take()
		if last := stats[len(stats)-1].GetClusterName(); !strings.HasPrefix(last, "other") {
			t.Errorf("another client's cluster is missing: the last is %.20s", last)
		}
		s.settle(out, true)
		before := observed(s).dropped[DroppedClient]
		fill(t, flood, "flood", 1)
		if n := observed(s).dropped[DroppedClient]; n != before {
			t.Error("dropped after everything was sent")
		}
	})
	t.Run("a scope", func(t *testing.T) {
		s := idle(t)
		for i := range maxScopeBytes/maxClientBytes + 1 {
			fill(t, join(t, s), fmt.Sprint("flood", i), maxClientBytes/(entryBytes+maxName))
		}
		if n := observed(s).dropped[DroppedScope]; n == 0 {
			t.Error("nothing was dropped")
		}
		if used := s.room.used.Load(); used > maxScopeBytes {
			t.Errorf("%d bytes", used)
		}
	})
	t.Run("all", func(t *testing.T) {
		s := idle(t)
		s.all.total.limit = 1000
		fill(t, join(t, s), "flood", 10)
		if n := observed(s).dropped[DroppedTotal]; n != 10 {
			t.Errorf("dropped %d", n)
		}
	})
	t.Run("gauges", func(t *testing.T) {
		s := idle(t)
		s.room.limit = 2*entryBytes + 2
		r := oneLocality(&endpointv3.UpstreamLocalityStats{TotalRequestsInProgress: 1})
		if err := join(t, s).Report(r); err != nil {
			t.Fatal(err)
		}
		if n := observed(s).dropped[DroppedScope]; n != 1 {
			t.Errorf("dropped %d", n)
		}
	})
}

// fill reports clusters with long names.
func fill(t *testing.T, c *Client, prefix string, n int) {
	t.Helper()
	for i := range n {
		name := fmt.Sprint(prefix, i)
		r := &loadv3.LoadStatsRequest{ClusterStats: []*endpointv3.ClusterStats{{ClusterName: name + strings.Repeat("-", maxName-len(name))}}}
		if err := c.Report(r); err != nil {
			t.Fatal(err)
		}
	}
}

// The last metadata of an endpoint is reported, as the client said it.
func TestEndpointMetadata_LRS1(t *testing.T) {
	s := idle(t)
	c := join(t, s)
	for _, value := range []string{"old", "new"} {
		m, err := structpb.NewStruct(map[string]any{"version": value})
		if err != nil {
			t.Fatal(err)
		}
		r := oneLocality(&endpointv3.UpstreamLocalityStats{UpstreamEndpointStats: []*endpointv3.UpstreamEndpointStats{{Metadata: m, TotalIssuedRequests: 2}}})
		if err := c.Report(r); err != nil {
			t.Fatal(err)
		}
	}
	_, stats := s.take()
	e := stats[0].GetUpstreamLocalityStats()[0].GetUpstreamEndpointStats()
	if len(e) != 1 || e[0].GetTotalIssuedRequests() != 4 || e[0].GetMetadata().GetFields()["version"].GetStringValue() != "new" || e[0].GetAddress() != nil {
		t.Errorf("reported %v", e)
	}
}

// A report that is too large for one request goes in several, a cluster in one of them.
func TestSplit_LRS1(t *testing.T) {
	var all []*endpointv3.ClusterStats
	for i := range 10 {
		all = append(all, &endpointv3.ClusterStats{ClusterName: strings.Repeat("c", 100), TotalDroppedRequests: uint64(i)})
	}
	large := &endpointv3.ClusterStats{ClusterName: "large", UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{{TotalIssuedRequests: 9}}}
	for range 100 {
		e := &endpointv3.UpstreamEndpointStats{TotalIssuedRequests: 1, TotalErrorRequests: 1}
		large.UpstreamLocalityStats[0].UpstreamEndpointStats = append(large.UpstreamLocalityStats[0].UpstreamEndpointStats, e)
	}
	parts, dropped := split(append(all, large), 350)
	if dropped != 100 {
		t.Errorf("dropped %d entries, want 100", dropped)
	}
	n := 0
	for _, part := range parts {
		size := 0
		for _, c := range part {
			size += len(c.GetClusterName())
			n++
		}
		if size > 350 || len(part) == 0 {
			t.Errorf("a part of %d clusters has %d bytes of names", len(part), size)
		}
	}
	if n != 11 || len(parts) != 4 {
		t.Errorf("%d clusters in %d parts", n, len(parts))
	}
	if parts, _ := split(nil, 350); len(parts) != 1 || parts[0] != nil {
		t.Errorf("nothing is split into %v", parts)
	}
}
