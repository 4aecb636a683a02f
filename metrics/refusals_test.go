package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/relay/refusals"
)

func TestLog_LIM4(t *testing.T) {
	reg, lost := prometheus.NewRegistry(), uint64(0)
	if _, err := New(reg, nil, WithLog(func() uint64 { return lost })); err != nil {
		t.Fatal(err)
	}
	lost = 3
	expect(t, reg, map[string]float64{`log_lost_lines_total`: 3})
}

func TestDoor_LIM4(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := New(reg, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Refusals().HandshakeFailed(refusals.Certificate)
	m.Refusals().MethodUnknown()
	m.Refusals().MethodUnknown()
	expect(t, reg, map[string]float64{
		`downstream_failed_handshakes_total{reason="client_certificate"}`: 1,
		`downstream_unknown_methods_total`:                                2,
	})
}

func TestPanics_SUR6(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := New(reg, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Panics().Panicked(logs.PartClient)
	m.Panics().Panicked(logs.PartClient)
	expect(t, reg, map[string]float64{`panics_total{part="client"}`: 2})
}
