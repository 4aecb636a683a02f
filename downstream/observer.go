package downstream

import (
	"time"

	"google.golang.org/grpc/codes"
)

// MoveEnd is why a stream ends after the plan changed. It is a metric's label.
type MoveEnd string

// The reasons.
const (
	EndMoved   MoveEnd = "moved"   // a name of the stream lives in another store, or has an upstream only now
	EndRefused MoveEnd = "refused" // the aggregation rules refuse the client now (AGG-2)

	EndUnverified MoveEnd = "unverified" // the client may not present its node now (ACC-5)
	EndNarrowed   MoveEnd = "access"     // the access rules say something else of a type of the stream now (ACC-2)
)

// refuses reports whether the client is not to be served any more.
func (r MoveEnd) refuses() bool { return r == EndRefused || r == EndUnverified }

// MoveEnds lists every MoveEnd.
func MoveEnds() []MoveEnd { return []MoveEnd{EndMoved, EndRefused, EndUnverified, EndNarrowed} }

// Limit is a limit of what clients may take. It is a metric's label, and the name of the key in limits.
type Limit string

// The limits.
const (
	LimitFirstRequest   Limit = "first_request"          // a stream ended that sent no request
	LimitRequests       Limit = "requests_per_second"    // a request waited
	LimitNode           Limit = "node_bytes"             // a stream or a poll ended
	LimitName           Limit = "name_bytes"             // a name was refused
	LimitSubscriptions  Limit = "subscriptions"          // likewise
	LimitNames          Limit = "names_bytes"            // likewise
	LimitNamesTotal     Limit = "names_total"            // likewise
	LimitScopes         Limit = "scopes"                 // a stream or poll ended
	LimitStreams        Limit = "streams"                // a stream or poll was refused
	LimitShare          Limit = "share"                  // likewise
	LimitPolls          Limit = "polls_per_client"       // a poll was refused
	LimitREST           Limit = "rest_bytes"             // likewise
	LimitTypes          Limit = "unknown_types"          // a name was refused, or a stream ended with too many types
	LimitUnfinished     Limit = "unfinished_bytes"       // a message was refused: its stream or poll ended
	LimitConnections    Limit = "connections"            // a connection was refused
	LimitConnectionRate Limit = "connections_per_second" // a connection waited
	LimitWatches        Limit = "health_watches"         // a stream of gRPC's health service was refused; there is no key
	LimitFrames         Limit = "frames"                 // a connection is read slowly; there is no key
	LimitMemory         Limit = "memory"                 // a stream or a poll was refused, or a scope
	LimitAdmission      Limit = "admission"              // a stream or a poll was refused
)

// LimitsOfClients lists every Limit.
func LimitsOfClients() []Limit {
	return []Limit{
		LimitFirstRequest, LimitRequests, LimitNode, LimitName, LimitSubscriptions, LimitNames, LimitNamesTotal, LimitScopes, LimitStreams, LimitShare,
		LimitPolls, LimitREST, LimitTypes, LimitUnfinished, LimitConnections, LimitConnectionRate, LimitWatches, LimitFrames, LimitMemory, LimitAdmission,
	}
}

// Observer receives the events of streams and polls. The owners of streams and the handlers of polls
// call its methods, which must not block.
type Observer interface {
	// StreamOpened begins a stream or a poll, and StreamClosed ends it. variant is one of
	// Variants.
	StreamOpened(variant string)
	StreamClosed(variant string, code codes.Code)
	// Requested reports a request: a subscription change, an ACK or a NACK.
	Requested(typeURL string)
	// Subscribed reports by how many names a stream's subscriptions changed.
	Subscribed(typeURL string, n int)
	// Sent reports a response. merged is the number of updates that later updates replaced
	// before the response.
	Sent(typeURL string, resources, removed, bytes, merged int)
	// Propagated reports the time from the receipt of a change upstream until gRPC took the
	// response, Acknowledged the time until the ACK or NACK.
	Propagated(typeURL string, d time.Duration)
	Acknowledged(typeURL string, d time.Duration)
	// Acked reports an accepted response, once, and Warned one that was accepted with warnings. Nacked reports a
	// rejection (ACK-1, ACK-7).
	Acked(typeURL string)
	Warned(typeURL string)
	Nacked(typeURL string, reason NackReason)
	// Offered reports a response that offers again what the client rejected (ACK-3).
	Offered(typeURL string)
	// Overdue reports a response to a client that did not acknowledge the one before within
	// the time limit: the client is slow.
	Overdue(typeURL string)
	// Refused reports a name that the relay itself answers: malformed, of another type, beyond
	// a limit, or of an authority without an upstream (LOC-4).
	Refused(typeURL string, code codes.Code)
	// Moved reports that a new plan leads subscriptions of a stream or poll to another store, or
	// does not let the client present its node, and MoveEnded that a stream ended because of that.
	Moved(variant string)
	MoveEnded(reason MoveEnd)
	// Limited reports that a limit was in a client's way.
	Limited(limit Limit)
	// Retired reports that a stream ends because its connection has reached its age (SUR-4).
	Retired(variant string)
	// Unserved reports that a stream ended, or that a poll was refused, because no control
	// plane that it needs can be reached, and the relay knows nothing that it asks for (ABS-2).
	Unserved(variant string)
	// Unsendable reports a poll that was answered with an error, because the relay cannot write
	// a resource of the response as JSON.
	Unsendable(typeURL string)
}

// silent is the Observer for a Config without one.
type silent struct{}

func (silent) StreamOpened(string)                {}
func (silent) StreamClosed(string, codes.Code)    {}
func (silent) Requested(string)                   {}
func (silent) Subscribed(string, int)             {}
func (silent) Sent(string, int, int, int, int)    {}
func (silent) Propagated(string, time.Duration)   {}
func (silent) Acknowledged(string, time.Duration) {}
func (silent) Acked(string)                       {}
func (silent) Warned(string)                      {}
func (silent) Nacked(string, NackReason)          {}
func (silent) Offered(string)                     {}
func (silent) Overdue(string)                     {}
func (silent) Refused(string, codes.Code)         {}
func (silent) Moved(string)                       {}
func (silent) MoveEnded(MoveEnd)                  {}
func (silent) Limited(Limit)                      {}
func (silent) Retired(string)                     {}
func (silent) Unserved(string)                    {}
func (silent) Unsendable(string)                  {}
