// Package ack has the outcomes of content at clients: sent, accepted or rejected. They travel from the
// streams of the clients to the session whose control plane sent the content (ACK-7). It imports no other
// package of the relay.
package ack

// Kind says what became of content.
type Kind uint8

// The kinds.
const (
	Sent     Kind = iota // a client was sent it
	Accepted             // a client acknowledged it
	Rejected             // a client rejected it
)

// Outcome tells of content that one client was sent in one response.
type Outcome struct {
	Kind    Kind
	TypeURL string
	// Of are the changes of the store that the response brought to the client
	// (cache.Session.Sequence).
	Of Span
	// Relay says that the client is a relay, which waits for its own clients.
	Relay bool
	// Open is the lowest change of the type that the client was sent before and has not answered;
	// zero if there is none. It says so with Sent and Accepted.
	Open uint64
	// Parts says that the content goes to the client once more in parts, so that words follow
	// that tell more closely what was rejected (ACK-3).
	Parts bool
	// PartOf are the changes of a response that the client rejected, if the content is one of these
	// parts.
	PartOf Span
	// Reason is why the content was rejected, and by which client.
	Reason string
}

// Span is a range of changes by their numbers, both ends included. The zero value has none.
type Span struct{ First, Last uint64 }

// Empty reports whether there is no change in it.
func (s Span) Empty() bool { return s.Last == 0 }

// Add widens it so that it includes a change.
func (s *Span) Add(change uint64) {
	if s.Empty() || change < s.First {
		s.First = change
	}
	s.Last = max(s.Last, change)
}

// Cover widens it so that it includes another one.
func (s *Span) Cover(o Span) {
	if !o.Empty() {
		s.Add(o.First)
		s.Add(o.Last)
	}
}

// Has reports whether a change is in it.
func (s Span) Has(change uint64) bool { return s.First <= change && change <= s.Last }

// Touches reports whether two spans have a number in common.
func (s Span) Touches(o Span) bool {
	return !s.Empty() && !o.Empty() && s.First <= o.Last && o.First <= s.Last
}

// Within reports whether o includes all of s.
func (s Span) Within(o Span) bool { return !s.Empty() && o.First <= s.First && s.Last <= o.Last }
