package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/upstream"
)

// states are those of a session.
var states = []upstream.State{upstream.StateIdle, upstream.StateWaiting, upstream.StateConnecting, upstream.StateConnected}

// upstreamVecs are the metrics of all upstreams.
type upstreamVecs struct {
	streams, largest                      *prometheus.GaugeVec
	opened, backoffs, waited, endpoints   *prometheus.CounterVec   // upstream
	files, silences, reuses, waits        *prometheus.CounterVec   // likewise
	answers                               *prometheus.HistogramVec // likewise
	closed, failed                        *prometheus.CounterVec   // upstream and reason
	states                                *prometheus.CounterVec   // upstream and state
	checks                                *prometheus.CounterVec   // upstream and result
	requests, acks, nacks, unavailable    *prometheus.CounterVec   // upstream and type
	responses, resources, removals, bytes *prometheus.CounterVec   // likewise
}

func newUpstreamVecs(s *set) *upstreamVecs {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return s.counter("upstream", name, help, append([]string{labelUpstream}, labels...)...)
	}
	return &upstreamVecs{
		streams: s.gauge("upstream", "streams", "Open streams to the upstream.", labelUpstream),
		opened:  counter("streams_opened_total", "Streams to the upstream that the relay opened, including reconnects."),
		closed:  counter("streams_closed_total", "Streams to the upstream that ended.", labelReason),
		failed:  counter("connect_failures_total", "Failed attempts to open a stream to the upstream.", labelReason),

		backoffs:  counter("backoffs_total", "Waits of a session before its next attempt to open a stream."),
		waited:    counter("backoff_seconds_total", "Sum of the waits before attempts to open a stream. Each wait counts when it begins."),
		endpoints: counter("endpoint_changes_total", "Changes of a session to another endpoint of the upstream: failovers and returns."),
		states:    counter("state_changes_total", "Changes of a session to this state.", labelState),

		answers: s.durations("upstream", "answer_seconds", "Time that the upstream's servers took to answer: requests, and the relay's questions whether they still answer.",
			labelUpstream),
		silences: counter("silences_total", "Findings that an endpoint of the upstream takes connections and does not answer."),
		reuses:   counter("version_reuses_total", "Findings that the upstream uses a version again for another content."),

		checks: counter("list_checks_total", "Requests on streams of their own for what a control plane of the state of the world may have left out, by result.",
			labelResult),

		waits: counter("ack_waits_over_total", "Responses that the relay acknowledged because no client decided on their content in time."),

		files: counter("file_errors_total", "Unusable files, or an unusable path of all files, once for each reason."),

		requests:  counter("requests_total", "Requests to the upstream, including ACKs and NACKs.", labelType),
		acks:      counter("acks_total", "Responses of the upstream that the relay acknowledged.", labelType),
		nacks:     counter("nacks_total", "Responses of the upstream that the relay rejected.", labelType),
		responses: counter("responses_total", "Responses of the upstream.", labelType),
		resources: counter("resources_total", "Resources in responses of the upstream.", labelType),
		removals:  counter("removals_total", "Removed names in responses of the upstream.", labelType),
		bytes:     counter("response_bytes_total", "Encoded size of the upstream's responses.", labelType),
		largest:   s.gauge("upstream", "largest_response_ratio", "The largest response of the upstream since the start, as a share of upstreams[].max_receive_size.", labelUpstream, labelType),
		unavailable: counter("types_unavailable_total",
			"Types that clients began to ask for although an upstream with one service per type has no service for them.", labelType),
	}
}

// upstreamSeries counts the reports of the sessions of one upstream.
type upstreamSeries struct {
	streams                             prometheus.Gauge
	opened, backoffs, waited, endpoints prometheus.Counter
	files, silences, reuses, waits      prometheus.Counter
	answers                             prometheus.Observer
	closed, failed                      counters // by reason
	states                              counters // by state
	checks                              counters // by result
	types                               []upstreamType
	limit                               atomic.Int64 // of a response, in bytes
}

// counters has a metric's counters for all values of a label. A look-up in the vector
// instead would create the series of a removed upstream again.
type counters map[string]prometheus.Counter

// inc counts one. It ignores unknown values.
func (c counters) inc(value string) {
	if counter := c[value]; counter != nil {
		counter.Inc()
	}
}

type upstreamType struct {
	requests, acks, nacks                 prometheus.Counter
	responses, resources, removals, bytes prometheus.Counter
	unavailable                           prometheus.Counter
	largest                               largest
}

var _ upstream.Observer = (*upstreamSeries)(nil)

// of makes the series of one upstream.
func (v *upstreamVecs) of(name string) *upstreamSeries {
	u := &upstreamSeries{
		types:     make([]upstreamType, len(shortNames)),
		streams:   v.streams.WithLabelValues(name),
		opened:    v.opened.WithLabelValues(name),
		backoffs:  v.backoffs.WithLabelValues(name),
		waited:    v.waited.WithLabelValues(name),
		endpoints: v.endpoints.WithLabelValues(name),
		files:     v.files.WithLabelValues(name),
		silences:  v.silences.WithLabelValues(name),
		reuses:    v.reuses.WithLabelValues(name),
		waits:     v.waits.WithLabelValues(name),
		answers:   v.answers.WithLabelValues(name),
		closed:    make(counters),
		failed:    make(counters),
		states:    make(counters),
		checks:    make(counters),
	}
	for _, r := range upstream.ListChecks() {
		u.checks[string(r)] = v.checks.WithLabelValues(name, string(r))
	}
	for _, r := range upstream.Reasons() {
		u.closed[string(r)] = v.closed.WithLabelValues(name, string(r))
		u.failed[string(r)] = v.failed.WithLabelValues(name, string(r))
	}
	for _, st := range states {
		u.states[string(st)] = v.states.WithLabelValues(name, string(st))
	}
	for k, typ := range shortNames {
		u.types[k] = upstreamType{
			requests:  v.requests.WithLabelValues(name, typ),
			acks:      v.acks.WithLabelValues(name, typ),
			nacks:     v.nacks.WithLabelValues(name, typ),
			responses: v.responses.WithLabelValues(name, typ),
			resources: v.resources.WithLabelValues(name, typ),
			removals:  v.removals.WithLabelValues(name, typ),
			bytes:     v.bytes.WithLabelValues(name, typ),
			largest:   largest{gauge: v.largest.WithLabelValues(name, typ)},

			unavailable: v.unavailable.WithLabelValues(name, typ),
		}
	}
	return u
}

// forget drops the series of one upstream. Observers that still have them count unseen.
func (v *upstreamVecs) forget(name string) {
	of := prometheus.Labels{labelUpstream: name}
	v.streams.DeletePartialMatch(of)
	v.answers.DeletePartialMatch(of)
	v.largest.DeletePartialMatch(of)
	for _, vec := range []*prometheus.CounterVec{
		v.opened, v.backoffs, v.waited, v.endpoints, v.files, v.silences, v.reuses, v.waits, v.closed, v.failed, v.states, v.checks,
		v.requests, v.acks, v.nacks, v.unavailable, v.responses, v.resources, v.removals, v.bytes,
	} {
		vec.DeletePartialMatch(of)
	}
}

// StateChanged implements upstream.Observer. The Source counts the sessions in each state:
// a session that ends does not leave its last state.
func (u *upstreamSeries) StateChanged(state upstream.State) {
	u.states.inc(string(state))
}

// ConnectFailed implements upstream.Observer.
func (u *upstreamSeries) ConnectFailed(_ string, reason upstream.Reason) {
	u.failed.inc(string(reason))
}

// StreamOpened implements upstream.Observer.
func (u *upstreamSeries) StreamOpened(string, string) {
	u.streams.Inc()
	u.opened.Inc()
}

// StreamClosed implements upstream.Observer.
func (u *upstreamSeries) StreamClosed(_ string, reason upstream.Reason) {
	u.streams.Dec()
	u.closed.inc(string(reason))
}

// TypeUnavailable implements upstream.Observer.
func (u *upstreamSeries) TypeUnavailable(typeURL string) {
	u.types[kindOf(typeURL)].unavailable.Inc()
}

// RequestSent implements upstream.Observer.
func (u *upstreamSeries) RequestSent(typeURL string, purpose upstream.RequestKind) {
	t := &u.types[kindOf(typeURL)]
	t.requests.Inc()
	switch purpose {
	case upstream.KindAck:
		t.acks.Inc()
	case upstream.KindNack:
		t.nacks.Inc()
	case upstream.KindSubscribe:
	}
}

// ResponseReceived implements upstream.Observer.
func (u *upstreamSeries) ResponseReceived(typeURL string, resources, removed, bytes int) {
	t := &u.types[kindOf(typeURL)]
	t.responses.Inc()
	t.resources.Add(float64(resources))
	t.removals.Add(float64(removed))
	t.bytes.Add(float64(bytes))
	t.largest.see(bytes, &u.limit)
}

// BackedOff implements upstream.Observer.
func (u *upstreamSeries) BackedOff(delay time.Duration) {
	u.backoffs.Inc()
	u.waited.Add(seconds(delay))
}

// FileUnusable implements upstream.Observer.
func (u *upstreamSeries) FileUnusable() { u.files.Inc() }

// Answered implements upstream.Observer.
func (u *upstreamSeries) Answered(after time.Duration) { u.answers.Observe(seconds(after)) }

// EndpointSilent implements upstream.Observer.
func (u *upstreamSeries) EndpointSilent(string) { u.silences.Inc() }

// VersionsReused implements upstream.Observer.
func (u *upstreamSeries) VersionsReused() { u.reuses.Inc() }

// AckWaitOver implements upstream.Observer.
func (u *upstreamSeries) AckWaitOver() { u.waits.Inc() }

// ListChecked implements upstream.Observer.
func (u *upstreamSeries) ListChecked(result upstream.ListCheck) { u.checks.inc(string(result)) }

// EndpointChanged implements upstream.Observer.
func (u *upstreamSeries) EndpointChanged(string, string) { u.endpoints.Inc() }
