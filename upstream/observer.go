package upstream

import "time"

// Observer is told the events of a session, for metrics. The methods are
// called from the session's goroutines, several at a time, and must not block.
// Embed [NopObserver] to implement only some.
type Observer interface {
	// StateChanged has the new state of the session (OPS-1).
	StateChanged(state State)
	// ConnectFailed says that no stream could be opened to endpoint.
	ConnectFailed(endpoint string, reason Reason)
	// StreamOpened and StreamClosed come in pairs. Stream is as wire.StreamID has it:
	// "ads" or a type URL, and "#2" behind it for the second of the kind (SUB-12).
	StreamOpened(stream, endpoint string)
	StreamClosed(stream string, reason Reason)
	// TypeUnavailable says that a type is wanted and has no service of its own, where
	// each type needs one.
	TypeUnavailable(typeURL string)
	// RequestSent says that a request was written.
	RequestSent(typeURL string, kind RequestKind)
	// ResponseReceived comes before the response is taken: the type URL is the
	// server's. Bytes is its encoded size.
	ResponseReceived(typeURL string, resources, removed, bytes int)
	// BackedOff says that the next attempt waits (OPS-2).
	BackedOff(delay time.Duration)
	// EndpointChanged says that the session turns to another endpoint (LOC-6).
	EndpointChanged(from, to string)
	// Answered says how long the server took for an answer: to a request on a stream or
	// poll, or to a query of the relay (SUR-2).
	Answered(after time.Duration)
	// EndpointSilent says that an endpoint was found to take streams and to answer nothing.
	EndpointSilent(endpoint string)
	// VersionsReused says that the control plane uses a version for two contents (ACK-4).
	VersionsReused()
	// ListChecked has the result of asking the server, on a stream of its own, for resources that it may have left out
	// of a list of the state of the world.
	ListChecked(result ListCheck)
	// AckWaitOver says that the relay acknowledged a response because no client decided on its content in time (ACK-7).
	AckWaitOver()
	// FileUnusable says that a file, or the path of all, cannot be used as it is now
	// (VAR-6), once for each reason.
	FileUnusable()
}

// NopObserver does nothing.
type NopObserver struct{}

var _ Observer = NopObserver{}

// StateChanged does nothing.
func (NopObserver) StateChanged(State) {}

// ConnectFailed does nothing.
func (NopObserver) ConnectFailed(string, Reason) {}

// StreamOpened does nothing.
func (NopObserver) StreamOpened(string, string) {}

// StreamClosed does nothing.
func (NopObserver) StreamClosed(string, Reason) {}

// TypeUnavailable does nothing.
func (NopObserver) TypeUnavailable(string) {}

// RequestSent does nothing.
func (NopObserver) RequestSent(string, RequestKind) {}

// ResponseReceived does nothing.
func (NopObserver) ResponseReceived(string, int, int, int) {}

// BackedOff does nothing.
func (NopObserver) BackedOff(time.Duration) {}

// EndpointChanged does nothing.
func (NopObserver) EndpointChanged(string, string) {}

// Answered does nothing.
func (NopObserver) Answered(time.Duration) {}

// EndpointSilent does nothing.
func (NopObserver) EndpointSilent(string) {}

// VersionsReused does nothing.
func (NopObserver) VersionsReused() {}

// ListChecked does nothing.
func (NopObserver) ListChecked(ListCheck) {}

// AckWaitOver does nothing.
func (NopObserver) AckWaitOver() {}

// FileUnusable does nothing.
func (NopObserver) FileUnusable() {}

// RequestKind is the purpose of a request; it is fit for a metric's label.
type RequestKind string

// The kinds of requests.
const (
	KindSubscribe RequestKind = "subscribe" // changes subscriptions
	KindAck       RequestKind = "ack"
	KindNack      RequestKind = "nack"
)

// ListCheck is the result of asking for resources that a list may lack; it is fit for a metric's label.
type ListCheck string

// The results.
const (
	CheckAdded   ListCheck = "added"   // it has names that were added and that it had left unanswered
	CheckNothing ListCheck = "nothing" // it has none of them

	CheckWhole      ListCheck = "whole"      // resources that a list lacked are gone
	CheckPartial    ListCheck = "partial"    // some resources that a list lacked are there
	CheckUnanswered ListCheck = "unanswered" // it is not known which resources that a list lacked are gone
)

// ListChecks are all results.
func ListChecks() []ListCheck {
	return []ListCheck{CheckAdded, CheckNothing, CheckWhole, CheckPartial, CheckUnanswered}
}
