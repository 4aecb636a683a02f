package downstream

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/verdict"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// retryAfter is the time in seconds after which a refused client may poll again.
const retryAfter = "1"

// answer is the answer to a poll.
type answer struct {
	code  int
	body  *restjson.Body // with 200
	err   error          // with every code but 200 and 304; the client sees it
	leave bool           // the client shall open its next connection to another replica (OPS-4)
}

func answered(body *restjson.Body) *answer { return &answer{code: http.StatusOK, body: body} }
func unchanged() *answer                   { return &answer{code: http.StatusNotModified} }

// gone is the answer to a client that has gone away. It is not written.
func gone() *answer { return &answer{} }

func refused(err error) *answer {
	e := pollError(err)
	return &answer{code: e.Code, err: e}
}

// expelled is the answer to a client whose identity has ended: its next connection begins with
// another handshake.
func expelled(err error) *answer {
	a := refused(err)
	a.leave = true
	return a
}

func draining() *answer {
	a := refused(errDraining)
	a.leave = true
	return a
}

// pollError translates the status that a stream would end with into HTTP (REST-2).
func pollError(err error) *restjson.StatusError {
	if refused, ok := errors.AsType[*restjson.StatusError](err); ok {
		return refused
	}
	code := http.StatusInternalServerError
	switch status.Code(err) {
	case codes.InvalidArgument, codes.FailedPrecondition:
		code = http.StatusBadRequest
	case codes.Unauthenticated:
		code = http.StatusUnauthorized
	case codes.PermissionDenied:
		code = http.StatusForbidden
	case codes.NotFound:
		code = http.StatusNotFound
	case codes.ResourceExhausted: // the request is too large, now and later
		code = http.StatusRequestEntityTooLarge
	case codes.Unavailable:
		code = http.StatusServiceUnavailable
	}
	message := err.Error()
	if s, ok := status.FromError(err); ok {
		message = s.Message()
	}
	return &restjson.StatusError{Code: code, Message: message}
}

// grpcCode returns the status of the poll in the metrics.
func (a *answer) grpcCode() codes.Code {
	switch a.code {
	case 0:
		return codes.Canceled
	case http.StatusOK, http.StatusNotModified:
		return codes.OK
	default:
		return restjson.CodeOf(a.code)
	}
}

// write sends the answer.
func (a *answer) write(w http.ResponseWriter) {
	if a.leave {
		w.Header().Set("Connection", "close") // over HTTP/2 net/http sends a GOAWAY instead
	}
	if a.code == http.StatusServiceUnavailable || a.code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", retryAfter)
	}
	switch {
	case a.code == 0:
	case a.err != nil:
		restjson.WriteError(w, a.err)
	case a.code == http.StatusNotModified:
		w.WriteHeader(a.code)
	default:
		restjson.WriteResponse(w, a.body)
	}
}

// answer returns the present content. If the relay cannot write a resource as JSON, the answer is an
// error with its name. Later polls of the client get the error only after their full time.
func (p *poll) answer() *answer {
	observer, pollers, typeURL := p.shared.observer, p.polling.pollers, p.request.GetTypeUrl()
	encoded, err := p.encode()
	if err != nil {
		observer.Unsendable(typeURL)
		pollers.fails(p.client, p.held.Digest)
		return refused(err)
	}
	if p.failed != "" {
		pollers.fails(p.client, "")
	}
	p.tell(verdict.Word{Kind: verdict.Sent})
	observer.Sent(typeURL, len(p.held.Resources), 0, encoded.Body.Size(), 0)
	if !p.held.Received.IsZero() {
		observer.Propagated(typeURL, time.Since(p.held.Received))
	}
	return answered(&encoded.Body)
}

// encode encodes the response. A resource that cannot be written, or not completely (VAR-8), is
// logged once for each of its contents.
func (p *poll) encode() (*restjson.Encoded, error) {
	o := &restjson.Outgoing{
		VersionInfo: p.version(), TypeURL: p.request.GetTypeUrl(), Nonce: p.nonce(),
		ControlPlane: identifier(p.shared.identifier.Load(), identifiers(nil, p.places)),
		Wrapped:      p.form.Wrapped, Resources: make([]restjson.OutgoingResource, len(p.held.Resources)),
	}
	for _, e := range p.held.Errors {
		o.Errors = append(o.Errors, restjson.OutgoingError{Error: e.Error, Name: e.Name})
	}
	payloads := make([]*payload, len(o.Resources))
	for i, r := range p.held.Resources {
		made := p.polling.payloads.of(r.Resource)
		if made.err != nil {
			if made.log() {
				p.log.Error("a resource cannot be sent to clients that poll", "error", made.err)
			}
			return nil, made.err
		}
		payloads[i] = made
		o.Resources[i] = restjson.OutgoingResource{Resource: r.Resource, Name: r.Name, Transcoded: made.transcoded}
	}
	encoded, err := restjson.EncodeResponse(o)
	if err != nil {
		return nil, err
	}
	if len(encoded.Lossy) == 0 {
		return encoded, nil
	}
	for i, r := range p.held.Resources {
		if slices.Contains(encoded.Lossy, r.Resource.Name) && payloads[i].log() {
			p.log.Warn("a resource has a field that this build does not know: clients that poll do not get it", "name", clip(r.Resource.Name))
		}
	}
	return encoded, nil
}
