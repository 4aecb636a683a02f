package gocontrolplane

import (
	"cmp"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Stats is what a control plane has seen of its clients since it was made,
// restarts included. It is a copy.
type Stats struct {
	// Opened is the number of streams opened in total; Streams are those open now,
	// oldest first.
	Opened  int
	Streams []Stream
	// Nodes gives by node ID on how many streams it was presented.
	Nodes map[string]int
	// Fetches gives by type URL how often it was asked for over REST, which counts
	// nowhere else; Fetched how often the answer was a response.
	Fetches, Fetched map[string]int
	Counts
}

// Counts are numbers of messages and of what was in them.
type Counts struct {
	Requests  int // ACKs and NACKs included
	Acks      int
	Nacks     int
	Responses int
	Resources int // sent, each time it was
	Removed   int // names sent in removed_resources
}

// Stream is one open stream.
type Stream struct {
	ID      int          // unique, in the order of opening
	Delta   bool         // incremental, else SotW
	Service string       // type URL of a type's own service; "" for ADS
	Node    *corev3.Node // of the first request that had one; shared, not to be changed
	// Types holds the subscriptions by type URL, of each type that was asked for.
	Types map[string]Subscriptions
	// Nack is the reason in the last NACK, "" without one.
	Nack string
	Counts
}

// Subscriptions is what one stream asks for of one type. The wildcard is the
// name "*", in its legacy form too.
type Subscriptions struct {
	// Names holds each name subscribed now, and how often the stream asked for it
	// since it was last not subscribed: more than once is a repetition (SUB-10).
	// On a SotW stream, which repeats all names, it is always once.
	Names map[string]int
	// Unsubscribed counts, by name, how often it was let go.
	Unsubscribed map[string]int

	named bool // a request named something, so that an empty one is no wildcard
}

// Subscribed is the number of names subscribed on all open streams, each once
// per stream and type.
func (s *Stats) Subscribed() int {
	n := 0
	for i := range s.Streams {
		n += s.Streams[i].Subscribed()
	}
	return n
}

// Subscribed is the number of names subscribed, each once per type.
func (s *Stream) Subscribed() int {
	n := 0
	for _, of := range s.Types {
		n += len(of.Names)
	}
	return n
}

func sortStreams(s []Stream) {
	slices.SortFunc(s, func(a, b Stream) int { return cmp.Compare(a.ID, b.ID) })
}
