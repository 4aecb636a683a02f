package downstream

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// retryAfter is after how many seconds a refused client may poll again: what the status that a stream would
// end with says, or one.
func retryAfter(err error) string {
	after := time.Second
	for _, d := range status.Convert(err).Details() {
		if hint, ok := d.(*errdetails.RetryInfo); ok {
			after = hint.GetRetryDelay().AsDuration()
		}
	}
	return strconv.Itoa(max(1, int(after.Round(time.Second)/time.Second)))
}

// answer is the answer to a poll.
type answer struct {
	code  int
	body  *restjson.Body // with 200
	err   error          // with every code but 200 and 304; the client sees it
	after string         // when the client may come again, if it is refused for now
	leave bool           // the client shall open its next connection to another replica (OPS-4)
	text  *text          // of body; nil with other codes
	node  string         // the id of the client's node, for the log; "" if nobody knows
}

func answered(t *text) *answer { return &answer{code: http.StatusOK, body: &t.encoded.Body, text: t} }

// done is called when the answer is written, or will not be. a may be nil.
func (a *answer) done() {
	if a != nil && a.text != nil {
		a.text.done()
	}
}

func unchanged() *answer { return &answer{code: http.StatusNotModified} }

// gone is the answer to a client that has gone away. It is not written.
func gone() *answer { return &answer{} }

func refused(err error) *answer {
	e := pollError(err)
	return &answer{code: e.Code, err: e, after: retryAfter(err)}
}

// expelled is the answer to a client whose identity has ended: its next connection begins with
// another handshake.
func expelled(err error) *answer {
	a := refused(err)
	a.leave = true
	return a
}

func draining() *answer {
	a := refused(ErrDraining)
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
	w.Header().Set("Server", wire.RelayIdentifier) // a relay that polls reads 304 in its light
	if a.leave {
		w.Header().Set("Connection", "close") // over HTTP/2 net/http sends a GOAWAY instead
	}
	if a.code == http.StatusServiceUnavailable || a.code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", a.after)
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
	text, err := p.write()
	if errors.Is(err, errRESTBytes) {
		observer.Limited(LimitREST)
		return refused(err)
	}
	if err != nil {
		observer.Unsendable(typeURL)
		pollers.fails(p.client, p.held.Digest)
		return refused(err)
	}
	if p.failed != "" {
		pollers.fails(p.client, "")
	}
	p.tell(ack.Outcome{Kind: ack.Sent})
	observer.Sent(typeURL, len(p.held.Resources), 0, text.encoded.Body.Size(), 0)
	if !p.held.Received.IsZero() {
		observer.Propagated(typeURL, time.Since(p.held.Received))
	}
	return answered(text)
}

// write encodes the response, or takes what another poll is being sent that is the same. A resource that cannot
// be written, or not completely (VAR-8), is logged once for each of its contents.
func (p *poll) write() (*text, error) {
	o := &restjson.Outgoing{
		VersionInfo: p.version(), TypeURL: p.request.GetTypeUrl(), Nonce: p.nonce(),
		ControlPlane: identifier(p.shared.identifier.Load(), identifiers(nil, p.places)),
		Wrapped:      p.form.Wrapped,
	}
	t := p.polling.writing.of(o, p.held, p.shared.limits.Load().PerClient.RESTBytes)
	defer func() {
		if t.err != nil { // also after a panic
			t.done()
		}
	}()
	t.once.Do(func() { p.encode(t, o) })
	return t, t.err
}

// encode makes the text of a response.
func (p *poll) encode(t *text, o *restjson.Outgoing) {
	t.err = errEncoding // unless it goes well
	if !t.holdErrors(t.of.Errors) {
		t.err = errRESTBytes
		return
	}
	for _, e := range t.of.Errors {
		o.Errors = append(o.Errors, restjson.OutgoingError{Error: e.Error, Name: e.Name})
	}
	o.Resources = make([]restjson.OutgoingResource, len(t.of.Resources))
	for i, r := range t.of.Resources {
		made := p.polling.payloads.of(r.Resource)
		if made.err != nil {
			if made.log() {
				p.log.Error("a resource cannot be sent to clients that poll", "error", made.err)
			}
			t.err = made.err
			return
		}
		if !t.hold(made) {
			t.err = errRESTBytes
			return
		}
		o.Resources[i] = restjson.OutgoingResource{Resource: r.Resource, Name: r.Name, Without: t.of.Without[r.Resource], Transcoded: made.transcoded}
	}
	if t.encoded, t.err = restjson.EncodeResponse(o); t.err != nil || len(t.encoded.Lossy) == 0 {
		return
	}
	for i, made := range t.payloads {
		if name := t.of.Resources[i].Resource.Name; slices.Contains(t.encoded.Lossy, name) && made.log() {
			p.log.Warn("a resource has a field that this build does not know: clients that poll do not get it", "name", clip(name))
		}
	}
}
