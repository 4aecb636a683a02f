package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/relay/peers"
)

// peerSeries counts what relays ask each other (peers).
type peerSeries struct {
	asked, answers *prometheus.CounterVec // result; result, identity
	taken, gave    prometheus.Counter
}

var _ peers.Observer = (*peerSeries)(nil)

func newPeerSeries(s *set) *peerSeries {
	p := &peerSeries{
		asked: s.counter("peer", "asked_total",
			"Peers that the relay asked for the image of a scope while the control plane was away.", labelResult),
		taken: s.counter("peer", "taken_resources_total", "Resources that the relay took from peers.").WithLabelValues(),
		answers: s.counter("peer", "answers_total",
			"Answers to relays that asked for the image of a scope, by their identity (peers.identities).", labelResult, labelIdentity),
		gave: s.counter("peer", "given_resources_total", "Resources in these answers.").WithLabelValues(),
	}
	for _, r := range peers.Results() {
		p.asked.WithLabelValues(string(r))
	}
	p.answers.WithLabelValues(string(peers.ResultRefused), "")
	return p
}

// Asked implements peers.Observer.
func (p *peerSeries) Asked(r peers.Result) { p.asked.WithLabelValues(string(r)).Inc() }

// Taken implements peers.Observer.
func (p *peerSeries) Taken(resources int) { p.taken.Add(float64(resources)) }

// Gave implements peers.Observer.
func (p *peerSeries) Gave(identity string, r peers.Result, resources int) {
	p.answers.WithLabelValues(string(r), identity).Inc()
	p.gave.Add(float64(resources))
}

// Peers gives the observer for what relays ask each other.
func (m *Metrics) Peers() peers.Observer { return m.peers }
