package loadreport

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// maxCount bounds a counter of one report. No client counts so far: a larger one is a
	// negative number, or a lie.
	maxCount = 1 << 53
	// maxInterval bounds the time that one report covers. A client that nobody asked for
	// reports for a long time may say so.
	maxInterval = 366 * 24 * time.Hour
	// maxShown bounds what errors show of a name, in bytes.
	maxShown = 128
)

// weight is a bound for what any of the sums grows by with some reports. It tells before
// they are added that no sum can overflow.
type weight struct {
	counts uint64
	values float64
}

// plus adds another weight. It reports false if a sum might overflow then.
func (w weight) plus(o weight) (weight, bool) {
	counts, carry := bits.Add64(w.counts, o.counts, 0)
	sum := weight{counts, w.values + o.values}
	return sum, carry == 0 && !math.IsInf(sum.values, 0)
}

// checker looks through a report before anything of it is added: a report with a value that
// cannot be is refused as a whole.
type checker struct {
	weight weight
	err    error // the first
}

// check returns the weight of a report. The error is a status: INVALID_ARGUMENT, with the
// cluster and the field.
func check(clusters []*endpointv3.ClusterStats) (weight, error) {
	var k checker
	for _, c := range clusters {
		k.cluster(c)
		if k.err != nil {
			return weight{}, status.Errorf(codes.InvalidArgument, "load report for cluster %q: %v", clip(c.GetClusterName()), k.err)
		}
	}
	return k.weight, nil
}

func (k *checker) cluster(c *endpointv3.ClusterStats) {
	k.interval(c.GetLoadReportInterval())
	k.count("total_dropped_requests", c.GetTotalDroppedRequests())
	for _, d := range c.GetDroppedRequests() {
		k.count("dropped_count", d.GetDroppedCount())
	}
	for _, l := range c.GetUpstreamLocalityStats() {
		k.locality(l)
	}
}

func (k *checker) locality(l *endpointv3.UpstreamLocalityStats) {
	k.requests(l)
	k.count("total_active_connections", l.GetTotalActiveConnections())
	k.count("total_new_connections", l.GetTotalNewConnections())
	k.count("total_fail_connections", l.GetTotalFailConnections())
	k.utilization("cpu_utilization", l.GetCpuUtilization())
	k.utilization("mem_utilization", l.GetMemUtilization())
	k.utilization("application_utilization", l.GetApplicationUtilization())
	k.metrics(l.GetLoadMetricStats())
	for _, e := range l.GetUpstreamEndpointStats() {
		k.requests(e)
		k.metrics(e.GetLoadMetricStats())
	}
}

// requester is what localities and endpoints have in common.
type requester interface {
	GetTotalSuccessfulRequests() uint64
	GetTotalRequestsInProgress() uint64
	GetTotalErrorRequests() uint64
	GetTotalIssuedRequests() uint64
}

func (k *checker) requests(r requester) {
	k.count("total_successful_requests", r.GetTotalSuccessfulRequests())
	k.count("total_requests_in_progress", r.GetTotalRequestsInProgress())
	k.count("total_error_requests", r.GetTotalErrorRequests())
	k.count("total_issued_requests", r.GetTotalIssuedRequests())
}

// metrics checks values that applications name: they mean what they like, and may be
// negative.
func (k *checker) metrics(all []*endpointv3.EndpointLoadMetricStats) {
	for _, m := range all {
		k.count("num_requests_finished_with_metric", m.GetNumRequestsFinishedWithMetric())
		k.value("total_metric_value", m.GetTotalMetricValue())
	}
}

func (k *checker) utilization(field string, m *endpointv3.UnnamedEndpointLoadMetricStats) {
	k.count(field, m.GetNumRequestsFinishedWithMetric())
	k.value(field, m.GetTotalMetricValue())
	if m.GetTotalMetricValue() < 0 {
		k.fail("%s is negative: %v", field, m.GetTotalMetricValue())
	}
}

func (k *checker) count(field string, n uint64) {
	if n > maxCount {
		k.fail("%s is %d, and at most %d is taken", field, n, uint64(maxCount))
		return
	}
	k.add(weight{counts: n})
}

func (k *checker) value(field string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		k.fail("%s is no number: %v", field, v)
		return
	}
	k.add(weight{values: math.Abs(v)})
}

func (k *checker) add(w weight) {
	sum, ok := k.weight.plus(w)
	if !ok {
		k.fail("its sums overflow")
		return
	}
	k.weight = sum
}

func (k *checker) interval(d *durationpb.Duration) {
	switch err := d.CheckValid(); {
	case d == nil:
	case err != nil:
		k.fail("load_report_interval: %v", err)
	case d.AsDuration() < 0:
		k.fail("load_report_interval is negative: %v", d.AsDuration())
	case d.AsDuration() > maxInterval:
		k.fail("load_report_interval is %v, and at most %v is taken", d.AsDuration(), maxInterval)
	}
}

func (k *checker) fail(format string, args ...any) {
	if k.err == nil {
		k.err = fmt.Errorf(format, args...)
	}
}

// errOverflow refuses a report that goes beyond what can be added up until the next report
// to the control plane.
var errOverflow = status.Error(codes.ResourceExhausted, "load report: the sums of the clients of this scope would overflow; report again later")

func clip(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return s[:maxShown] + "…"
}
