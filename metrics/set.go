package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The labels. One name means the same wherever it occurs, and they stand in this
// order.
const (
	labelUpstream = "upstream" // as configured
	labelType     = "type"     // short name, see kind
	labelVariant  = "variant"  // of the protocol: the downstream method
	labelState    = "state"    // upstream.State, loadreport.State, downstream.ClientState
	labelReason   = "reason"   // refusals.Reason, upstream.Reason, cache.Reason, ReferenceFault, resolve.Failure, load.Reason
	labelTo       = "to"       // alternative, better
	labelCode     = "code"     // gRPC status
	labelResult   = "result"   // of a lookup: hit, miss; upstream.ListCheck
	labelIdentity = "identity" // one of peers.identities
	labelPart     = "part"     // logs.Part
	labelRule     = "rule"     // an aggregation rule's name, or "otherwise"
	labelKey      = "key"      // of the configuration
	labelIssuer   = "issuer"   // of tokens, as configured
	labelLimit    = "limit"    // downstream.Limit
	labelWork     = "work"     // load.Work
	labelMessage  = "message"  // of lines of the log: literals, of which logs.Limit bounds the number
)

const namespace = "xdsrelay"

// set gathers collectors, so that they are registered together or not at all.
type set []prometheus.Collector

// Describe implements prometheus.Collector.
func (s set) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range s {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (s set) Collect(ch chan<- prometheus.Metric) {
	for _, c := range s {
		c.Collect(ch)
	}
}

func (s *set) counter(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help,
	}, labels)
	*s = append(*s, v)
	return v
}

func (s *set) gauge(subsystem, name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help,
	}, labels)
	*s = append(*s, v)
	return v
}

// durations is a native histogram of seconds. A factor of 1.1 makes eight buckets
// of each doubling, so 160 of them reach from 100 µs to 100 s before the resolution
// is halved. After an hour it forgets an accidental widening. The classic buckets are for
// scrapers without native histograms.
func (s *set) durations(subsystem, name, help string, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help,
		Buckets:                         []float64{.001, .005, .025, .1, .5, 2.5, 10, 60},
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}, labels)
	*s = append(*s, v)
	return v
}
