package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/relay/loadreport"
)

// loadReportVecs are the metrics of the load reports for all upstreams.
type loadReportVecs struct {
	clients, streams, unserved *prometheus.GaugeVec   // upstream
	lastSent                   *prometheus.GaugeVec   // upstream
	received, sent, failures   *prometheus.CounterVec // upstream
	dropped, refused           *prometheus.CounterVec // upstream and reason
}

func newLoadReportVecs(s *set) *loadReportVecs {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return s.counter("loadreport", name, help, append([]string{labelUpstream}, labels...)...)
	}
	return &loadReportVecs{
		clients:  s.gauge("loadreport", "clients", "Clients' streams of load reports.", labelUpstream),
		streams:  s.gauge("loadreport", "upstream_streams", "Streams of load reports to the upstream.", labelUpstream),
		unserved: s.gauge("loadreport", "upstream_unserved", "1 while the upstream is taken to have no load reporting service.", labelUpstream),
		lastSent: s.gauge("loadreport", "last_sent_timestamp_seconds", "When the relay last sent the upstream a load report; 0: never.", labelUpstream),
		received: counter("received_total", "Load reports of clients."),
		sent:     counter("sent_total", "Load reports to the upstream."),
		failures: counter("upstream_failures_total", "Streams of load reports that broke, or could not be opened."),
		dropped:  counter("dropped_entries_total", "Entries of load reports that the relay left out.", labelReason),
		refused:  counter("refused_total", "Streams of load reports that the relay refused or ended.", labelReason),
	}
}

// loadReportSeries counts what is told of the load reports for one upstream.
type loadReportSeries struct {
	clients, streams, unserved prometheus.Gauge
	lastSent                   prometheus.Gauge
	received, sent, failures   prometheus.Counter
	dropped, refused           counters // by reason
}

var _ loadreport.Observer = (*loadReportSeries)(nil)

// of makes the series of one upstream.
func (v *loadReportVecs) of(name string) *loadReportSeries {
	l := &loadReportSeries{
		clients: v.clients.WithLabelValues(name), streams: v.streams.WithLabelValues(name), unserved: v.unserved.WithLabelValues(name),
		lastSent: v.lastSent.WithLabelValues(name),
		received: v.received.WithLabelValues(name), sent: v.sent.WithLabelValues(name), failures: v.failures.WithLabelValues(name),
		dropped: make(counters), refused: make(counters),
	}
	for _, r := range loadreport.DroppedList() {
		l.dropped[string(r)] = v.dropped.WithLabelValues(name, string(r))
	}
	for _, r := range loadreport.Refusals() {
		l.refused[string(r)] = v.refused.WithLabelValues(name, string(r))
	}
	return l
}

// forget drops the series of one upstream.
func (v *loadReportVecs) forget(name string) {
	of := prometheus.Labels{labelUpstream: name}
	for _, vec := range []*prometheus.GaugeVec{v.clients, v.streams, v.unserved, v.lastSent} {
		vec.DeletePartialMatch(of)
	}
	for _, vec := range []*prometheus.CounterVec{v.received, v.sent, v.failures, v.dropped, v.refused} {
		vec.DeletePartialMatch(of)
	}
}

// Joined implements loadreport.Observer.
func (l *loadReportSeries) Joined() { l.clients.Inc() }

// Left implements loadreport.Observer.
func (l *loadReportSeries) Left() { l.clients.Dec() }

// Received implements loadreport.Observer.
func (l *loadReportSeries) Received() { l.received.Inc() }

// Sent implements loadreport.Observer.
func (l *loadReportSeries) Sent() {
	l.sent.Inc()
	l.lastSent.SetToCurrentTime()
}

// Dropped implements loadreport.Observer.
func (l *loadReportSeries) Dropped(why loadreport.Dropped, entries int) {
	if c := l.dropped[string(why)]; c != nil {
		c.Add(float64(entries))
	}
}

// Refused implements loadreport.Observer.
func (l *loadReportSeries) Refused(why loadreport.Refusal) { l.refused.inc(string(why)) }

// StreamOpened implements loadreport.Observer.
func (l *loadReportSeries) StreamOpened() { l.streams.Inc() }

// StreamClosed implements loadreport.Observer.
func (l *loadReportSeries) StreamClosed() { l.streams.Dec() }

// Failed implements loadreport.Observer.
func (l *loadReportSeries) Failed() { l.failures.Inc() }

// Served implements loadreport.Observer.
func (l *loadReportSeries) Served(served bool) {
	if served {
		l.unserved.Set(0)
		return
	}
	l.unserved.Set(1)
}
