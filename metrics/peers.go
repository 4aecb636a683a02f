package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/xdsrelay/xdsrelay/relay/peers"
)

// peerSeries counts what relays ask each other (peers).
type peerSeries struct {
	asked                       *prometheus.CounterVec // result
	taken, answers, gave, other prometheus.Counter
}

var _ peers.Observer = (*peerSeries)(nil)

func newPeerSeries(s *set) *peerSeries {
	count := func(name, help string) prometheus.Counter {
		return s.counter("peer", name, help).WithLabelValues()
	}
	p := &peerSeries{
		asked: s.counter("peer", "asked_total",
			"Peers that the relay asked for the content of a scope while the control plane was away.", labelResult),
		taken:   count("taken_resources_total", "Resources that the relay took from peers."),
		answers: count("answers_total", "Answers that the relay gave to peers."),
		gave:    count("given_resources_total", "Resources in these answers."),
		other:   count("ignored_total", "Streams with the marker of a peer that may not ask (peers.listener, peers.identities)."),
	}
	for _, r := range peers.Results() {
		p.asked.WithLabelValues(string(r))
	}
	return p
}

// Asked implements peers.Observer.
func (p *peerSeries) Asked(r peers.Result) { p.asked.WithLabelValues(string(r)).Inc() }

// Taken implements peers.Observer.
func (p *peerSeries) Taken(resources int) { p.taken.Add(float64(resources)) }

// Gave implements peers.Observer.
func (p *peerSeries) Gave(resources int) {
	p.answers.Inc()
	p.gave.Add(float64(resources))
}

// Ignored implements peers.Observer.
func (p *peerSeries) Ignored() { p.other.Inc() }

// Peers gives the observer for what relays ask each other.
func (m *Metrics) Peers() peers.Observer { return m.peers }
