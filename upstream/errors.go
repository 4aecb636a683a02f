package upstream

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// ErrClosed is returned by Session.Run when its Upstream was closed.
var ErrClosed = errors.New("upstream: closed")

var (
	errRunning        = errors.New("upstream: a session can be run only once")
	errConnectTimeout = errors.New("no stream within the connect timeout")
	errNotReading     = errors.New("the server sends but does not read")
	errNotAsked       = errors.New("type URL was not asked for on this stream")
	errNotRead        = errors.New("the path was not read yet")
	errUnanswerable   = errors.New("response without what is needed to answer it")
	errNoToken        = errors.New("the relay has no token to show")
)

// Reason is why a stream could not be opened or ended; it is fit for a
// metric's label. [Reasons] lists them all.
type Reason string

// The reasons.
const (
	ReasonUnreachable  Reason = "unreachable"   // the connection could not be made
	ReasonNoToken      Reason = "no_token"      // the relay has no bearer token to show
	ReasonTimeout      Reason = "timeout"       // neither made nor refused in time
	ReasonSilent       Reason = "silent"        // the server does not answer, nor its host
	ReasonServerClosed Reason = "server_closed" // the server ended the stream in order
	ReasonUnavailable  Reason = "unavailable"   // the connection broke, or the server sends us away
	ReasonExhausted    Reason = "exhausted"     // a message passed MaxReceiveSize, or the server's limits
	ReasonDenied       Reason = "denied"        // the server does not let us in
	ReasonMalformed    Reason = "malformed"     // a response that could not even be refused
	ReasonNotReading   Reason = "not_reading"   // the server sends without ever reading
	ReasonError        Reason = "error"         // any other status
	ReasonUnwanted     Reason = "unwanted"      // nothing is wanted on the stream any more
	ReasonResubscribe  Reason = "resubscribe"   // the Store wants to begin anew
	ReasonFailback     Reason = "failback"      // a better endpoint is back
	ReasonShutdown     Reason = "shutdown"      // the session ends
)

// Reasons returns every reason.
func Reasons() []Reason {
	return []Reason{
		ReasonUnreachable, ReasonNoToken, ReasonTimeout, ReasonSilent, ReasonServerClosed, ReasonUnavailable, ReasonExhausted, ReasonDenied,
		ReasonMalformed, ReasonNotReading, ReasonError, ReasonUnwanted, ReasonResubscribe, ReasonFailback, ReasonShutdown,
	}
}

// reasonOf classifies the error that ended a stream, or an attempt to open one.
func reasonOf(err error, opened bool) Reason {
	switch {
	case errors.Is(err, errNoToken):
		return ReasonNoToken
	case errors.Is(err, errConnectTimeout):
		return ReasonTimeout
	case errors.Is(err, errSilent), opened && vanished(err):
		return ReasonSilent
	case errors.Is(err, errNotReading):
		return ReasonNotReading
	case errors.Is(err, errUnanswerable):
		return ReasonMalformed
	case errors.Is(err, io.EOF):
		return ReasonServerClosed
	case !opened:
		return ReasonUnreachable
	}
	switch status.Code(err) {
	case codes.Unavailable:
		return ReasonUnavailable
	case codes.ResourceExhausted:
		return ReasonExhausted
	case codes.Unauthenticated, codes.PermissionDenied:
		return ReasonDenied
	default:
		return ReasonError
	}
}

// vanished reports whether a connection ended because nothing came from the other side: no
// answer to a ping, or no acknowledgement of TCP. gRPC tells so in words only.
func vanished(err error) bool {
	text := status.Convert(err).Message()
	return status.Code(err) == codes.Unavailable &&
		(strings.Contains(text, "keepalive ping failed") || strings.Contains(text, "connection timed out"))
}

// own says that the relay ended the stream.
func (r Reason) own() bool {
	return r.final() || r == ReasonResubscribe || r == ReasonFailback
}

// repeats says that the reason lies in the server's responses, so that the next
// stream is likely to end the same way however well it begins.
func (r Reason) repeats() bool { return r == ReasonMalformed || r == ReasonExhausted }

// refuses says that the server is there and ended the stream for a reason that may be the
// scope's own.
func (r Reason) refuses() bool { return r == ReasonDenied || r == ReasonError }

// final says that the line's stream is not to be tried again for now.
func (r Reason) final() bool { return r == ReasonUnwanted || r == ReasonShutdown }

// ConnectionError says that a stream broke or could not be opened. Cached
// resources stay (OPS-1).
type ConnectionError struct {
	Endpoint string
	Reason   Reason
	Err      error
	At       time.Time
}

func (e *ConnectionError) Error() string {
	return fmt.Sprintf("upstream: endpoint %s: %s: %v", e.Endpoint, e.Reason, e.Err)
}

// Cause is the error in few words.
func (e *ConnectionError) Cause() Cause { return causeAt(e.Endpoint, e.Err, e.Reason.refuses()) }

// Unwrap gives the cause, a gRPC status for the most part.
func (e *ConnectionError) Unwrap() error { return e.Err }

// RejectedError says that a response was refused (ACK-6). The stream lives on
// and what is cached stays.
type RejectedError struct {
	TypeURL, Nonce string
	Err            error
	At             time.Time
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("upstream: response %q of type %s rejected: %v", e.Nonce, e.TypeURL, e.Err)
}

// Unwrap gives the reason.
func (e *RejectedError) Unwrap() error { return e.Err }

// clientError is why a client rejected content, which the relay took nothing amiss with: it
// is cached, and served to everybody (ACK-7).
type clientError struct{ reason error }

func (e *clientError) Error() string { return e.reason.Error() }

// Unwrap gives the reason.
func (e *clientError) Unwrap() error { return e.reason }

// maxReason is how many bytes of its head and of its tail the reason has that a NACK carries
// and a log line shows. A client's reason comes shortened already, with the client's name
// before it, and is not cut once more (ACK-7).
const maxReason = logs.ReasonBytes + logs.ReasonBytes/2

// detail is err's text as a NACK carries it.
func detail(err error) string { return logs.Excerpt(err.Error(), maxReason) }
