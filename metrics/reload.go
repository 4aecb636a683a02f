package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ReloadResult is the result of a reload. It is a metric's label.
type ReloadResult string

// The results.
const (
	ReloadSuccess   ReloadResult = "success"   // it is in force, except keys that need a restart
	ReloadFailure   ReloadResult = "failure"   // it is not usable, and nothing changed
	ReloadUnchanged ReloadResult = "unchanged" // it is the same as before
)

// Reloads are the metrics of the configuration and its changes. Its methods may be
// called from any goroutine, one at a time.
type Reloads struct {
	total        *prometheus.CounterVec // result
	successful   prometheus.Gauge
	at, awaiting prometheus.Gauge
	info         *prometheus.GaugeVec // hash
	hash         string               // of its series
}

func newReloads(s *set) *Reloads {
	r := &Reloads{
		total: s.counter("config", "reloads_total", "Reloads of the configuration, by result.", labelResult),
		successful: s.gauge("config", "last_reload_successful",
			"1 if the relay could use the configuration that it read last, otherwise 0.").WithLabelValues(),
		at: s.gauge("config", "last_reload_success_timestamp_seconds",
			"Time of the last read of a usable configuration, including the start.").WithLabelValues(),
		awaiting: s.gauge("config", "keys_awaiting_restart",
			"Changed keys that need a restart.").WithLabelValues(),
		info: s.gauge("config", "info", "Hash of the configuration in force; always 1.", "hash"),
	}
	for _, result := range []ReloadResult{ReloadSuccess, ReloadFailure, ReloadUnchanged} {
		r.total.WithLabelValues(string(result))
	}
	return r
}

// Started records the configuration of the start.
func (r *Reloads) Started(hash string, at time.Time) {
	r.successful.Set(1)
	r.at.Set(float64(at.UnixMilli()) / 1000)
	r.inForce(hash)
}

// Failed records a configuration that is not usable.
func (r *Reloads) Failed() {
	r.total.WithLabelValues(string(ReloadFailure)).Inc()
	r.successful.Set(0)
}

// Succeeded records a usable configuration: the result, the hash of the configuration in
// force, and the number of keys that wait for a restart.
func (r *Reloads) Succeeded(result ReloadResult, hash string, at time.Time, awaiting int) {
	r.total.WithLabelValues(string(result)).Inc()
	r.successful.Set(1)
	r.at.Set(float64(at.UnixMilli()) / 1000)
	r.awaiting.Set(float64(awaiting))
	r.inForce(hash)
}

// inForce replaces the one series of info. A scrape meanwhile may see both series, but
// never none.
func (r *Reloads) inForce(hash string) {
	r.info.WithLabelValues(hash).Set(1)
	if r.hash != hash {
		r.info.DeleteLabelValues(r.hash) // there is none at the start
		r.hash = hash
	}
}
