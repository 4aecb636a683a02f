package metrics_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/xdsrelay/xdsrelay/metrics"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// A registry is passed in, and the rooms are given their observers. One response
// from the control plane went to three clients.
func ExampleNew() {
	reg := prometheus.NewRegistry()
	m, err := metrics.New(reg, []string{"primary"})
	if err != nil {
		fmt.Println(err)
		return
	}
	const cluster = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	session, server := m.Upstream("primary", 0), m.Downstream()
	session.ResponseReceived(cluster, 1, 0, 1024)
	session.RequestSent(cluster, upstream.KindAck)
	for range 3 {
		server.Sent(cluster, 1, 0, 1024, 0)
	}

	families, err := reg.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range families {
		if strings.HasSuffix(f.GetName(), "_responses_total") {
			f.Metric = f.GetMetric()[:1] // cds comes first
			if _, err := expfmt.MetricFamilyToText(os.Stdout, f); err != nil {
				fmt.Println(err)
			}
		}
	}
	// Output:
	// # HELP xdsrelay_downstream_responses_total Responses to clients.
	// # TYPE xdsrelay_downstream_responses_total counter
	// xdsrelay_downstream_responses_total{type="cds"} 3
	// # HELP xdsrelay_upstream_responses_total Responses of the upstream.
	// # TYPE xdsrelay_upstream_responses_total counter
	// xdsrelay_upstream_responses_total{type="cds",upstream="primary"} 1
}
