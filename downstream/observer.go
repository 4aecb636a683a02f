package downstream

import (
	"time"

	"google.golang.org/grpc/codes"
)

// Observer is told what happens on the streams. Its methods are called from the
// streams' goroutines and must not block.
type Observer interface {
	// StreamOpened and StreamClosed frame a stream, or a poll; variant is one of
	// Variants.
	StreamOpened(variant string)
	StreamClosed(variant string, code codes.Code)
	// Requested tells of a request: a subscription change, an ACK or a NACK.
	Requested(typeURL string)
	// Subscribed tells by how many names a stream's subscriptions changed.
	Subscribed(typeURL string, n int)
	// Sent tells of a response, and of the number of updates that later ones had
	// replaced before it was sent.
	Sent(typeURL string, resources, removed, bytes, merged int)
	// Propagated tells how long a change took from its receipt upstream until the
	// response was handed to the stream, Acknowledged until its ACK or NACK came.
	Propagated(typeURL string, d time.Duration)
	Acknowledged(typeURL string, d time.Duration)
	// Acked tells of a response that the client accepted, once, Nacked of every
	// rejection, whatever its nonce (ACK-1, ACK-7).
	Acked(typeURL string)
	Nacked(typeURL string)
	// Rejecting tells by how many the clients changed that reject something of a type now
	// (ACK-7).
	Rejecting(typeURL string, n int)
	// Overdue tells that a client was sent a response although the one before was
	// not acknowledged within the time limit: it is slow.
	Overdue(typeURL string)
	// Refused tells of a name that was answered by the relay itself: malformed, of
	// another type, or of an authority without an upstream (LOC-4).
	Refused(typeURL string, code codes.Code)
	// Moved tells that subscriptions of a stream or poll live elsewhere since the plan
	// changed, and MoveEnded that a stream ended because of that.
	Moved(variant string)
	MoveEnded(reason MoveEnd)
	// Unserved tells that a stream ended, or a poll was refused, because none of the control
	// planes that it needs can be reached, and nothing that it asks for is known (ABS-2).
	Unserved(variant string)
	// Unsendable tells of a poll that was answered with an error because something in
	// the response cannot be written as JSON.
	Unsendable(typeURL string)
}

type silent struct{}

func (silent) StreamOpened(string)                {}
func (silent) StreamClosed(string, codes.Code)    {}
func (silent) Requested(string)                   {}
func (silent) Subscribed(string, int)             {}
func (silent) Sent(string, int, int, int, int)    {}
func (silent) Propagated(string, time.Duration)   {}
func (silent) Acknowledged(string, time.Duration) {}
func (silent) Acked(string)                       {}
func (silent) Nacked(string)                      {}
func (silent) Rejecting(string, int)              {}
func (silent) Overdue(string)                     {}
func (silent) Refused(string, codes.Code)         {}
func (silent) Moved(string)                       {}
func (silent) MoveEnded(MoveEnd)                  {}
func (silent) Unserved(string)                    {}
func (silent) Unsendable(string)                  {}
