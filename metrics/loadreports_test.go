package metrics

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/relay/loadreport"
)

func TestLoadReports_LRS1(t *testing.T) {
	synctest.Test(t, testLoadReports) // time stands still
}

func testLoadReports(t *testing.T) {
	m, reg := setUp(t)
	a, b := m.LoadReports("primary"), m.LoadReports("backup")
	a.Joined()
	a.Joined()
	a.Left()
	a.Received()
	a.Received()
	a.Sent()
	a.StreamOpened()
	a.StreamOpened()
	a.StreamClosed()
	a.Failed()
	a.Dropped(loadreport.DroppedName, 3)
	a.Dropped("unheard of", 3)
	a.Refused(loadreport.RefusedInvalid)
	b.Served(false)
	b.Refused(loadreport.RefusedUnserved)
	want := map[string]float64{
		`loadreport_clients{upstream="primary"}`:                             1,
		`loadreport_received_total{upstream="primary"}`:                      2,
		`loadreport_sent_total{upstream="primary"}`:                          1,
		`loadreport_last_sent_timestamp_seconds{upstream="primary"}`:         float64(time.Now().Unix()),
		`loadreport_upstream_streams{upstream="primary"}`:                    1,
		`loadreport_upstream_failures_total{upstream="primary"}`:             1,
		`loadreport_dropped_entries_total{reason="name",upstream="primary"}`: 3,
		`loadreport_refused_total{reason="invalid",upstream="primary"}`:      1,
		`loadreport_refused_total{reason="unserved",upstream="backup"}`:      1,
		`loadreport_upstream_unserved{upstream="backup"}`:                    1,
	}
	expect(t, reg, want)
	b.Served(true)
	delete(want, `loadreport_upstream_unserved{upstream="backup"}`)
	expect(t, reg, want)
}
