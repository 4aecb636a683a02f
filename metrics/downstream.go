package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/xdsrelay/xdsrelay/downstream"
)

// refusalCodes are the codes of names that the relay refuses (NAME-1, LOC-4).
var refusalCodes = []codes.Code{codes.InvalidArgument, codes.NotFound, codes.ResourceExhausted, codes.Unavailable}

// downstreamSeries counts the reports of the server. There is one for each delivery to each
// client, so newDownstreamSeries resolves the children by type.
type downstreamSeries struct {
	streams        *prometheus.GaugeVec   // variant
	opened, closed *prometheus.CounterVec // variant; variant and code
	refused        *prometheus.CounterVec // type and code
	moved          *prometheus.CounterVec // variant
	limited        *prometheus.CounterVec // limit
	retired        *prometheus.CounterVec // variant
	unserved       *prometheus.CounterVec // variant
	moveEnds       *prometheus.CounterVec // reason
	types          []downstreamType
	limit          atomic.Int64 // of a response, in bytes
}

type downstreamType struct {
	subscriptions                                                   prometheus.Gauge
	requests, acks, warned, unsendable                              prometheus.Counter
	nacks                                                           map[downstream.NackReason]prometheus.Counter
	largest                                                         largest
	responses, resources, removals, bytes, merged, offered, overdue prometheus.Counter
	propagation, acknowledgement                                    prometheus.Observer
}

var _ downstream.Observer = (*downstreamSeries)(nil)

func newDownstreamSeries(s *set) *downstreamSeries {
	const subsystem = "downstream"
	d := &downstreamSeries{
		types:   make([]downstreamType, len(shortNames)),
		streams: s.gauge(subsystem, "streams", "Open streams of clients, and held polls.", labelVariant),
		opened:  s.counter(subsystem, "streams_opened_total", "Streams that clients opened, and polls.", labelVariant),
		closed: s.counter(subsystem, "streams_closed_total",
			"Ended streams and answered polls, by gRPC status.", labelVariant, labelCode),
		refused: s.counter(subsystem, "refused_names_total",
			"Names that the relay refused: malformed, of another type, without an upstream, or over a limit.",
			labelType, labelCode),
		moved: s.counter(subsystem, "streams_moved_total",
			"Streams and held polls with a name that belongs to another scope or upstream after a reload.", labelVariant),
		retired: s.counter(subsystem, "streams_retired_total",
			"Streams that the relay has end because their connection has reached its greatest age.", labelVariant),
		limited: s.counter(subsystem, "limited_total", "How often a limit was in a client's way.", labelLimit),
		unserved: s.counter(subsystem, "streams_unserved_total",
			"Streams that ended, and polls that the relay refused, because their upstreams are unreachable and nothing of their names is known.", labelVariant),
		moveEnds: s.counter(subsystem, "streams_ended_by_move_total",
			"Streams that the relay ended because a name belongs to another scope or upstream after a reload.", labelReason),
	}
	for _, r := range downstream.MoveEnds() {
		d.moveEnds.WithLabelValues(string(r))
	}
	for _, l := range downstream.LimitsOfClients() {
		d.limited.WithLabelValues(string(l))
	}
	for _, v := range downstream.Variants() {
		d.moved.WithLabelValues(v)
		d.unserved.WithLabelValues(v)
		d.retired.WithLabelValues(v)
		d.streams.WithLabelValues(v)
		d.opened.WithLabelValues(v)
		for c := codes.OK; c <= codes.Unauthenticated; c++ {
			d.closed.WithLabelValues(v, c.String())
		}
	}
	for _, name := range shortNames {
		for _, c := range refusalCodes {
			d.refused.WithLabelValues(name, c.String())
		}
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return s.counter(subsystem, name, help, labelType)
	}
	var (
		subscriptions = s.gauge(subsystem, "subscriptions",
			"Subscriptions of clients: names, globs and whole types.", labelType)
		requests  = counter("requests_total", "Requests from clients, including ACKs and NACKs.")
		acks      = counter("acks_total", "Responses that clients acknowledged.")
		warned    = counter("warned_acks_total", "Responses that clients acknowledged with warnings.")
		nacks     = s.counter(subsystem, "nacks_total", "Responses that clients rejected, by the class of the reason that they gave.", labelType, labelReason)
		most      = s.gauge(subsystem, "largest_response_ratio", "The largest response to a client since the start, as a share of server.max_message_size.", labelType)
		responses = counter("responses_total", "Responses to clients.")
		resources = counter("resources_total", "Resources in responses to clients.")
		removals  = counter("removals_total", "Removed names in responses to clients.")
		bytes     = counter("response_bytes_total", "Encoded size of the responses to clients.")
		merged    = counter("merged_updates_total", "Updates that the relay did not send to a client because a later update replaced them first.")
		offered   = counter("offers_total", "Responses that offer again what the client rejected.")
		overdue   = counter("overdue_acks_total", "Responses that the relay sent although the client did not acknowledge the response before in time.")

		unsendable = counter("unsendable_polls_total", "Polls that the relay answered with an error because it cannot write a resource as JSON.")

		propagation = s.durations(subsystem, "propagation_seconds",
			"Time from the receipt of a response's oldest change upstream until the relay handed the response to the client's stream.", labelType)
		acknowledgement = s.durations(subsystem, "acknowledgement_seconds",
			"Time from the receipt of a change upstream until the client acknowledged or rejected it.", labelType)
	)
	for k, name := range shortNames {
		d.types[k] = downstreamType{
			subscriptions:   subscriptions.WithLabelValues(name),
			requests:        requests.WithLabelValues(name),
			acks:            acks.WithLabelValues(name),
			warned:          warned.WithLabelValues(name),
			nacks:           make(map[downstream.NackReason]prometheus.Counter),
			largest:         largest{gauge: most.WithLabelValues(name)},
			responses:       responses.WithLabelValues(name),
			resources:       resources.WithLabelValues(name),
			removals:        removals.WithLabelValues(name),
			bytes:           bytes.WithLabelValues(name),
			merged:          merged.WithLabelValues(name),
			offered:         offered.WithLabelValues(name),
			overdue:         overdue.WithLabelValues(name),
			unsendable:      unsendable.WithLabelValues(name),
			propagation:     propagation.WithLabelValues(name),
			acknowledgement: acknowledgement.WithLabelValues(name),
		}
		for _, r := range downstream.NackReasons() {
			d.types[k].nacks[r] = nacks.WithLabelValues(name, string(r))
		}
	}
	return d
}

func (d *downstreamSeries) of(typeURL string) *downstreamType { return &d.types[kindOf(typeURL)] }

// StreamOpened implements downstream.Observer.
func (d *downstreamSeries) StreamOpened(variant string) {
	d.streams.WithLabelValues(variant).Inc()
	d.opened.WithLabelValues(variant).Inc()
}

// StreamClosed implements downstream.Observer.
func (d *downstreamSeries) StreamClosed(variant string, code codes.Code) {
	d.streams.WithLabelValues(variant).Dec()
	d.closed.WithLabelValues(variant, codeName(code)).Inc()
}

// Requested implements downstream.Observer.
func (d *downstreamSeries) Requested(typeURL string) { d.of(typeURL).requests.Inc() }

// Subscribed implements downstream.Observer.
func (d *downstreamSeries) Subscribed(typeURL string, n int) {
	d.of(typeURL).subscriptions.Add(float64(n))
}

// Sent implements downstream.Observer.
func (d *downstreamSeries) Sent(typeURL string, resources, removed, bytes, merged int) {
	t := d.of(typeURL)
	t.responses.Inc()
	t.resources.Add(float64(resources))
	t.removals.Add(float64(removed))
	t.bytes.Add(float64(bytes))
	t.largest.see(bytes, &d.limit)
	t.merged.Add(float64(merged))
}

// Propagated implements downstream.Observer.
func (d *downstreamSeries) Propagated(typeURL string, took time.Duration) {
	d.of(typeURL).propagation.Observe(seconds(took))
}

// Acknowledged implements downstream.Observer.
func (d *downstreamSeries) Acknowledged(typeURL string, took time.Duration) {
	d.of(typeURL).acknowledgement.Observe(seconds(took))
}

// Acked implements downstream.Observer.
func (d *downstreamSeries) Acked(typeURL string) { d.of(typeURL).acks.Inc() }

// Warned implements downstream.Observer.
func (d *downstreamSeries) Warned(typeURL string) { d.of(typeURL).warned.Inc() }

// Nacked implements downstream.Observer.
func (d *downstreamSeries) Nacked(typeURL string, reason downstream.NackReason) {
	d.of(typeURL).nacks[reason].Inc()
}

// Offered implements downstream.Observer.
func (d *downstreamSeries) Offered(typeURL string) { d.of(typeURL).offered.Inc() }

// Overdue implements downstream.Observer.
func (d *downstreamSeries) Overdue(typeURL string) { d.of(typeURL).overdue.Inc() }

// Refused implements downstream.Observer.
func (d *downstreamSeries) Refused(typeURL string, code codes.Code) {
	d.refused.WithLabelValues(shortNames[kindOf(typeURL)], codeName(code)).Inc()
}

// Unserved implements downstream.Observer.
func (d *downstreamSeries) Unserved(variant string) { d.unserved.WithLabelValues(variant).Inc() }

// Limited implements downstream.Observer.
func (d *downstreamSeries) Limited(limit downstream.Limit) {
	d.limited.WithLabelValues(string(limit)).Inc()
}

// Retired implements downstream.Observer.
func (d *downstreamSeries) Retired(variant string) { d.retired.WithLabelValues(variant).Inc() }

// Moved implements downstream.Observer.
func (d *downstreamSeries) Moved(variant string) { d.moved.WithLabelValues(variant).Inc() }

// MoveEnded implements downstream.Observer.
func (d *downstreamSeries) MoveEnded(reason downstream.MoveEnd) {
	d.moveEnds.WithLabelValues(string(reason)).Inc()
}

// Unsendable implements downstream.Observer.
func (d *downstreamSeries) Unsendable(typeURL string) { d.of(typeURL).unsendable.Inc() }

// seconds converts a duration for an observation. The cache keeps wall-clock times. A clock
// that was set back makes a duration negative, and a negative one would spoil the sum.
func seconds(d time.Duration) float64 { return max(0, d).Seconds() }

// codeName bounds the label: a status may carry any number.
func codeName(c codes.Code) string {
	if c > codes.Unauthenticated {
		c = codes.Unknown
	}
	return c.String()
}
