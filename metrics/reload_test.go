package metrics

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/upstream"
)

func TestReloads(t *testing.T) {
	m, reg := setUp(t)
	r := m.Reloads()
	r.Started("a", time.Unix(1000, 0))
	r.Failed()
	expect(t, reg, map[string]float64{
		`config_info{hash="a"}`:                  1,
		`config_reloads_total{result="failure"}`: 1,

		`config_last_reload_success_timestamp_seconds`: 1000,
	})
	r.Succeeded(ReloadSuccess, "b", time.Unix(2000, 5e8), 3)
	r.Succeeded(ReloadUnchanged, "b", time.Unix(3000, 0), 2)
	expect(t, reg, map[string]float64{
		`config_info{hash="b"}`:                    1,
		`config_reloads_total{result="failure"}`:   1,
		`config_reloads_total{result="success"}`:   1,
		`config_reloads_total{result="unchanged"}`: 1,
		`config_last_reload_successful`:            1,
		`config_keys_awaiting_restart`:             2,

		`config_last_reload_success_timestamp_seconds`: 3000,
	})
}

// Whoever scrapes while a configuration is read again finds one series of info, or in
// between both.
func TestReloads_infoNeverMissing(t *testing.T) {
	m, reg := setUp(t)
	r := m.Reloads()
	r.Started("a", time.Now())
	info := func() (hashes []string) {
		for _, f := range families(t, reg) {
			if strings.HasSuffix(f.GetName(), "config_info") {
				for _, metric := range f.GetMetric() {
					hashes = append(hashes, metric.GetLabel()[0].GetValue())
				}
			}
		}
		return hashes
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			r.Succeeded(ReloadSuccess, strconv.Itoa(i/2%2), time.Now(), 0)
		}
	})
	for range 20 {
		if n := len(info()); n != 1 && n != 2 {
			t.Errorf("%d series", n)
			break
		}
	}
	stop()
	wg.Wait()
	r.Succeeded(ReloadSuccess, "z", time.Now(), 0)
	r.Succeeded(ReloadUnchanged, "z", time.Now(), 0)
	if got := info(); !slices.Equal(got, []string{"z"}) {
		t.Errorf("series of %v are left, want of z", got)
	}
}

// Upstreams may share a name for a while: the series go with the last of them.
func TestForget_shared(t *testing.T) {
	m, reg := setUp(t)
	before, after := m.Upstream("third", 0), m.Upstream("third", 0)
	before.BackedOff(time.Second)
	m.Forget("third")
	after.BackedOff(time.Second)
	expect(t, reg, map[string]float64{`upstream_backoffs_total{upstream="third"}`: 2, `upstream_backoff_seconds_total{upstream="third"}`: 2})
	m.Forget("third")
	m.Forget("third") // says nothing new
	expect(t, reg, map[string]float64{})
	m.Upstream("third", 0).BackedOff(time.Second)
	expect(t, reg, map[string]float64{`upstream_backoffs_total{upstream="third"}`: 1, `upstream_backoff_seconds_total{upstream="third"}`: 1})
}

// An upstream that is gone leaves no series, though its streams go on reporting until
// they end, and may come back.
func TestForget(t *testing.T) {
	m, reg := setUp(t)
	if err := m.Collect(fakeSource{}); err != nil {
		t.Fatal(err)
	}
	series := func() int {
		n := 0
		for _, f := range families(t, reg) {
			for _, metric := range f.GetMetric() {
				for _, l := range metric.GetLabel() {
					if l.GetName() == labelUpstream && l.GetValue() == "third" {
						n++
					}
				}
			}
		}
		return n
	}
	third := m.Upstream("third", 0)
	all := series()
	if all == 0 {
		t.Fatal("an upstream that is new has no series")
	}
	third.StreamOpened("ads", "a:1")
	m.Forget("third")
	third.StreamClosed("ads", upstream.ReasonUnwanted)
	third.StateChanged(upstream.StateIdle)
	third.ConnectFailed("a:1", upstream.ReasonTimeout)
	third.RequestSent(clusterURL, upstream.KindAck)
	m.Resolve().Switched("third", true)
	if n := series(); n != 0 {
		t.Errorf("%d series of an upstream that is gone", n)
	}
	m.Upstream("third", 0).StreamOpened("ads", "a:1")
	m.Resolve().Switched("third", true)
	if n := series(); n != all {
		t.Errorf("%d series of an upstream that came back, want %d", n, all)
	}
	for _, f := range families(t, reg) {
		if !strings.HasSuffix(f.GetName(), "streams_opened_total") {
			continue
		}
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				if l.GetValue() == "third" && metric.GetCounter().GetValue() != 1 {
					t.Errorf("%s is %v, want 1", f.GetName(), metric.GetCounter().GetValue())
				}
			}
		}
	}
}
