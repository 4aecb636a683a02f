package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ReloadResult is what became of a configuration that was to be reloaded. It is a
// metric's label.
type ReloadResult string

// What can become of it.
const (
	ReloadSuccess   ReloadResult = "success"   // it is in force, but for what needs a restart
	ReloadFailure   ReloadResult = "failure"   // it cannot be used, and nothing was changed
	ReloadUnchanged ReloadResult = "unchanged" // it says what was said before
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
		total: s.counter("config", "reloads_total", "Times that the configuration was to be reloaded.", labelResult),
		successful: s.gauge("config", "last_reload_successful",
			"Whether the configuration that was read last could be used: 1, or 0.").WithLabelValues(),
		at: s.gauge("config", "last_reload_success_timestamp_seconds",
			"When a configuration was last found usable, at the start included.").WithLabelValues(),
		awaiting: s.gauge("config", "keys_awaiting_restart",
			"Keys of which the configuration says something that takes effect after a restart.").WithLabelValues(),
		info: s.gauge("config", "info", "The configuration in force, by a hash; always 1.", "hash"),
	}
	for _, result := range []ReloadResult{ReloadSuccess, ReloadFailure, ReloadUnchanged} {
		r.total.WithLabelValues(string(result))
	}
	return r
}

// Started tells which configuration the relay began with.
func (r *Reloads) Started(hash string, at time.Time) {
	r.successful.Set(1)
	r.at.Set(float64(at.UnixMilli()) / 1000)
	r.inForce(hash)
}

// Failed tells of a configuration that cannot be used.
func (r *Reloads) Failed() {
	r.total.WithLabelValues(string(ReloadFailure)).Inc()
	r.successful.Set(0)
}

// Succeeded tells of one that can: whether it brought a change, the hash of what is in
// force now, and how many keys wait for a restart.
func (r *Reloads) Succeeded(result ReloadResult, hash string, at time.Time, awaiting int) {
	r.total.WithLabelValues(string(result)).Inc()
	r.successful.Set(1)
	r.at.Set(float64(at.UnixMilli()) / 1000)
	r.awaiting.Set(float64(awaiting))
	r.inForce(hash)
}

// inForce replaces the one series of info. Whoever looks meanwhile may see both, and never
// none.
func (r *Reloads) inForce(hash string) {
	r.info.WithLabelValues(hash).Set(1)
	if r.hash != hash {
		r.info.DeleteLabelValues(r.hash) // at the start there is none
		r.hash = hash
	}
}
