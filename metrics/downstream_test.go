package metrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream"
	"google.golang.org/grpc/codes"
)

func TestDownstream(t *testing.T) {
	m, reg := setUp(t)
	d := m.Downstream()
	for range 3 {
		d.StreamOpened("delta-ads")
	}
	d.StreamClosed("delta-ads", codes.Unavailable)
	d.StreamClosed("delta-ads", codes.Code(4711)) // whatever number a status carries
	d.Requested(clusterURL)
	d.Requested(unknownURL)
	d.Requested("of another type")
	d.Subscribed(clusterURL, 5)
	d.Subscribed(clusterURL, -2)
	d.Sent(clusterURL, 3, 1, 1000, 2)
	d.Sent(clusterURL, 4, 0, 500, 0)
	d.Propagated(clusterURL, 250*time.Millisecond)
	d.Propagated(clusterURL, 500*time.Millisecond)
	d.Acknowledged(clusterURL, 2*time.Second)
	d.Acked(clusterURL)
	d.Acked(endpointURL)
	d.Warned(endpointURL)
	d.Nacked(endpointURL, downstream.NackInvalid)
	m.LimitResponses(2000)
	d.Sent(listenerURL, 1, 0, 1000, 0)
	d.Sent(listenerURL, 1, 0, 900, 0)
	d.Offered(listenerURL)
	d.Overdue(listenerURL)
	d.Moved(downstream.StateADS)
	d.Unserved(downstream.StateADS)
	d.Retired(downstream.StateADS)
	d.Limited(downstream.LimitNode)
	d.MoveEnded(downstream.EndMoved)
	d.Unsendable(listenerURL)
	d.Refused(listenerURL, codes.NotFound)
	d.Refused(listenerURL, codes.ResourceExhausted)
	expect(t, reg, map[string]float64{
		`downstream_streams{variant="delta-ads"}`:                                 1,
		`downstream_streams_opened_total{variant="delta-ads"}`:                    3,
		`downstream_streams_closed_total{code="Unavailable",variant="delta-ads"}`: 1,
		`downstream_streams_closed_total{code="Unknown",variant="delta-ads"}`:     1,
		`downstream_requests_total{type="cds"}`:                                   1,
		`downstream_requests_total{type="other"}`:                                 2,
		`downstream_subscriptions{type="cds"}`:                                    3,
		`downstream_responses_total{type="cds"}`:                                  2,
		`downstream_resources_total{type="cds"}`:                                  7,
		`downstream_removals_total{type="cds"}`:                                   1,
		`downstream_response_bytes_total{type="cds"}`:                             1500,
		`downstream_merged_updates_total{type="cds"}`:                             2,
		`downstream_propagation_seconds{type="cds"}`:                              2,
		`downstream_propagation_seconds_sum{type="cds"}`:                          0.75,
		`downstream_acknowledgement_seconds{type="cds"}`:                          1,
		`downstream_acknowledgement_seconds_sum{type="cds"}`:                      2,
		`downstream_acks_total{type="cds"}`:                                       1,
		`downstream_acks_total{type="eds"}`:                                       1,
		`downstream_nacks_total{reason="invalid",type="eds"}`:                     1,
		`downstream_largest_response_ratio{type="lds"}`:                           0.5,
		`downstream_responses_total{type="lds"}`:                                  2,
		`downstream_resources_total{type="lds"}`:                                  2,
		`downstream_response_bytes_total{type="lds"}`:                             1900,
		`downstream_warned_acks_total{type="eds"}`:                                1,
		`downstream_offers_total{type="lds"}`:                                     1,
		`downstream_overdue_acks_total{type="lds"}`:                               1,
		`downstream_streams_moved_total{variant="sotw-ads"}`:                      1,
		`downstream_streams_retired_total{variant="sotw-ads"}`:                    1,
		`downstream_limited_total{limit="node_bytes"}`:                            1,
		`downstream_streams_unserved_total{variant="sotw-ads"}`:                   1,
		`downstream_streams_ended_by_move_total{reason="moved"}`:                  1,
		`downstream_unsendable_polls_total{type="lds"}`:                           1,
		`downstream_refused_names_total{code="NotFound",type="lds"}`:              1,
		`downstream_refused_names_total{code="ResourceExhausted",type="lds"}`:     1,
	})
}

// TestClockSetBack: a negative duration must not make a sum fall, which would read
// as a restart.
func TestClockSetBack(t *testing.T) {
	m, reg := setUp(t)
	m.Downstream().Propagated(clusterURL, -time.Hour)
	expect(t, reg, map[string]float64{`downstream_propagation_seconds{type="cds"}`: 1})
}

func TestHistogramsAreNativeAndClassic(t *testing.T) {
	m, reg := setUp(t)
	m.Downstream().Propagated(clusterURL, 3*time.Millisecond)
	m.Downstream().Acknowledged(clusterURL, 3*time.Millisecond)
	found := 0
	for _, f := range families(t, reg) {
		for _, metric := range f.GetMetric() {
			h := metric.GetHistogram()
			if h.GetSampleCount() == 0 {
				continue
			}
			found++
			if h.GetSchema() != 3 || len(h.GetPositiveSpan()) != 1 {
				t.Errorf("%s: schema %d with %d spans, want 3 (1.1) with one", f.GetName(), h.GetSchema(), len(h.GetPositiveSpan()))
			}
			for _, b := range h.GetBucket() {
				want := uint64(0)
				if b.GetUpperBound() >= .005 {
					want = 1
				}
				if b.GetCumulativeCount() != want {
					t.Errorf("%s: %d up to %v s", f.GetName(), b.GetCumulativeCount(), b.GetUpperBound())
				}
			}
			if len(h.GetBucket()) != 8 {
				t.Errorf("%s: %d classic buckets", f.GetName(), len(h.GetBucket()))
			}
		}
	}
	if found != 2 {
		t.Errorf("%d histograms, want 2", found)
	}
}

// However many types, codes and sizes clients and control planes make up, the number of series stays (OPS-6).
func TestSeriesAreBounded_OPS6(t *testing.T) {
	m, reg := setUp(t)
	if err := m.Collect(fakeSource{}); err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		for _, f := range families(t, reg) {
			n += len(f.GetMetric())
		}
		return n
	}
	before := count()
	const most = 2500 // of a relay with two upstreams
	if before > most {
		t.Errorf("%d series, at most %d", before, most)
	}
	d, u := m.Downstream(), m.Upstream("primary", 1)
	for i := range 1000 {
		url := fmt.Sprintf("type.googleapis.com/of.a.client.T%d", i)
		d.Requested(url)
		d.Subscribed(url, 1)
		d.Sent(url, 1, 1, i, 1)
		d.Nacked(url, downstream.NackReasons()[i%len(downstream.NackReasons())])
		d.Refused(url, codes.Code(i))
		d.StreamClosed(downstream.StateADS, codes.Code(i))
		d.Unsendable(url)
		d.Warned(url)
		u.ResponseReceived(url, 1, 1, i)
		u.TypeUnavailable(url)
	}
	if after := count(); after > before+len(refusalCodes)+int(codes.Unauthenticated) {
		t.Errorf("%d series before, and %d after", before, after)
	}
}
