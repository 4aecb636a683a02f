package demo

import (
	"time"
)

// Phase is a part of the demo.
type Phase int

// The phases, in their order.
const (
	Connect Phase = iota // the clients connect and get everything
	Updates              // resources change
	Away                 // the control plane is killed, and clients join
	Return               // it comes back with another state, which goes on changing
	Check                // nothing changes: every client is compared with it
)

// String gives the phase as it is shown.
func (p Phase) String() string {
	return [...]string{"connect", "updates", "control plane away", "return", "check"}[p]
}

// Snapshot is what there is to see at one time.
type Snapshot struct {
	Phase    Phase
	Elapsed  time.Duration // since the beginning
	Duration time.Duration // about how long it will be

	// Clients. Wanted are to be there by the end of the phase, Complete once held
	// everything they asked for, Joined of them did while the control plane was away.
	Wanted, Connected, Complete, Joined int
	Subscriptions                       int

	// The control plane, and what it sees of the relay.
	AwayFor               time.Duration // 0: it is there
	Streams               int
	UpstreamSubscriptions int

	// Per second, in the last seconds: updates of the control plane, and resources
	// that reached clients.
	UpdateRate, DeliveryRate float64
	// In total: resources that the control plane sent, and that clients received.
	Received, Delivered int
	// How long updates took to clients in the last seconds; 0 if none did.
	P50, P99 time.Duration

	Events []Event
}

// FanOut is how many resources were delivered for each that was received; 0
// before the first.
func (s *Snapshot) FanOut() float64 { return ratio(s.Delivered, s.Received) }

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// Event is something that happened.
type Event struct {
	At   time.Duration // since the beginning
	Text string
}

// meter turns totals into what they were in the last seconds. It is owned by the
// goroutine that draws.
type meter struct{ samples []sample }

type sample struct {
	phase              Phase
	at                 time.Duration
	updates, delivered int
	propagation        *distribution
}

// window is how far back "the last seconds" go.
const window = 5 * time.Second

// add takes a sample and gives the rates per second since the oldest one kept,
// and the propagation times. A phase is not mixed with the one before.
func (m *meter) add(s sample) (updates, delivered float64, recent *distribution) {
	if len(m.samples) > 0 && m.samples[0].phase != s.phase {
		m.samples = nil
	}
	for len(m.samples) > 1 && s.at-m.samples[1].at >= window {
		m.samples = m.samples[1:]
	}
	m.samples = append(m.samples, s)
	first := m.samples[0]
	if seconds := (s.at - first.at).Seconds(); seconds > 0 {
		updates = float64(s.updates-first.updates) / seconds
		delivered = float64(s.delivered-first.delivered) / seconds
	}
	return updates, delivered, s.propagation.since(first.propagation)
}
