package metrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	clusterURL  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpointURL = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	listenerURL = "type.googleapis.com/envoy.config.listener.v3.Listener"
	unknownURL  = "type.googleapis.com/acme.Gadget"
)

// setUp gives metrics of the upstreams "primary" and "backup".
func setUp(t testing.TB) (*Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	m, err := New(reg, []string{"primary", "backup"}, WithVersion("v1.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	m.Aggregation().Rules([]string{"sidecars", "otherwise"})
	m.Access().Rules([]string{"own-node"})
	m.Access().ShadowRules([]string{"no-vault"})
	return m, reg
}

// families gathers the relay's own metrics.
func families(t testing.TB, g prometheus.Gatherer) []*dto.MetricFamily {
	t.Helper()
	all, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var own []*dto.MetricFamily
	for _, f := range all {
		if strings.HasPrefix(f.GetName(), namespace+"_") {
			own = append(own, f)
		}
	}
	return own
}

// expect compares everything that is not zero with want, whose keys are without
// the namespace. What does not change is left out: build_info. A histogram has its
// number of observations, and their sum under …_sum.
func expect(t *testing.T, g prometheus.Gatherer, want map[string]float64) {
	t.Helper()
	got := make(map[string]float64)
	for _, f := range families(t, g) {
		name := strings.TrimPrefix(f.GetName(), namespace+"_")
		if name == "build_info" {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			suffix := ""
			if len(labels) > 0 {
				suffix = "{" + strings.Join(labels, ",") + "}"
			}
			got[name+suffix] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			got[name+"_sum"+suffix] = m.GetHistogram().GetSampleSum()
		}
	}
	for key, v := range got {
		if v == 0 {
			delete(got, key)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is not zero (-want +got):\n%s", diff)
	}
}
