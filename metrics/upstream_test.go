package metrics

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/upstream"
)

// TestUpstream has two sessions of one upstream and one of another.
func TestUpstream(t *testing.T) {
	m, reg := setUp(t)
	a, b, c := m.Upstream("primary", 0), m.Upstream("primary", 0), m.Upstream("backup", 0)
	a.StateChanged(upstream.StateConnecting)
	a.ConnectFailed("b:1", upstream.ReasonUnreachable)
	a.EndpointChanged("b:1", "b:2")
	a.BackedOff(500 * time.Millisecond)
	a.StreamOpened("ads", "b:2")
	a.StateChanged(upstream.StateConnected)
	b.StateChanged(upstream.StateConnecting)
	b.StreamOpened("ads", "b:2")
	b.StreamOpened("ads#2", "b:2")
	b.StreamClosed("ads#2", upstream.ReasonServerClosed)
	b.BackedOff(250 * time.Millisecond)
	c.StreamOpened("ads", "c:1")

	a.FileUnusable()
	b.FileUnusable()
	a.AckWaitOver()
	a.RequestSent(clusterURL, upstream.KindSubscribe)
	b.RequestSent(clusterURL, upstream.KindAck)
	b.RequestSent(endpointURL, upstream.KindNack)
	a.ResponseReceived(clusterURL, 3, 1, 1000)
	b.ResponseReceived(clusterURL, 2, 0, 100)
	c.ResponseReceived(unknownURL, 0, 1, 10)
	expect(t, reg, map[string]float64{
		`upstream_state_changes_total{state="connecting",upstream="primary"}`:      2,
		`upstream_state_changes_total{state="connected",upstream="primary"}`:       1,
		`upstream_connect_failures_total{reason="unreachable",upstream="primary"}`: 1,
		`upstream_endpoint_changes_total{upstream="primary"}`:                      1,
		`upstream_file_errors_total{upstream="primary"}`:                           2,
		`upstream_ack_waits_over_total{upstream="primary"}`:                        1,
		`upstream_backoffs_total{upstream="primary"}`:                              2,
		`upstream_backoff_seconds_total{upstream="primary"}`:                       0.75,
		`upstream_streams{upstream="primary"}`:                                     2,
		`upstream_streams{upstream="backup"}`:                                      1,
		`upstream_streams_opened_total{upstream="primary"}`:                        3,
		`upstream_streams_opened_total{upstream="backup"}`:                         1,
		`upstream_streams_closed_total{reason="server_closed",upstream="primary"}`: 1,
		`upstream_requests_total{type="cds",upstream="primary"}`:                   2,
		`upstream_requests_total{type="eds",upstream="primary"}`:                   1,
		`upstream_acks_total{type="cds",upstream="primary"}`:                       1,
		`upstream_nacks_total{type="eds",upstream="primary"}`:                      1,
		`upstream_responses_total{type="cds",upstream="primary"}`:                  2,
		`upstream_resources_total{type="cds",upstream="primary"}`:                  5,
		`upstream_removals_total{type="cds",upstream="primary"}`:                   1,
		`upstream_response_bytes_total{type="cds",upstream="primary"}`:             1100,
		`upstream_responses_total{type="other",upstream="backup"}`:                 1,
		`upstream_removals_total{type="other",upstream="backup"}`:                  1,
		`upstream_response_bytes_total{type="other",upstream="backup"}`:            10,
	})
}
