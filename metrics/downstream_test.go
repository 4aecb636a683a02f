package metrics

import (
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
	d.Nacked(endpointURL)
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
		`downstream_nacks_total{type="eds"}`:                                      1,
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
