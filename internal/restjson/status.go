package restjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
)

// StatusError is an answer that is neither a DiscoveryResponse nor 304: what a
// server refuses a poll with, and what a client makes of it.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// Message says what is wrong, "" if the server did not.
	Message string
}

func (e *StatusError) Error() string {
	status := fmt.Sprintf("HTTP status %d", e.Code)
	if text := http.StatusText(e.Code); text != "" {
		status += " (" + text + ")"
	}
	if e.Message == "" {
		return status
	}
	return status + ": " + e.Message
}

func refuse(code int, format string, args ...any) *StatusError {
	return &StatusError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// status is google.rpc.Status in JSON. Its messages go to the client that polls.
type status struct {
	Code    codes.Code `json:"code"`
	Message string     `json:"message"`
}

// CodeOf gives the gRPC code that comes nearest to an HTTP status.
func CodeOf(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusBadRequest, http.StatusUnsupportedMediaType:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return codes.Unimplemented
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	default:
		return codes.Internal
	}
}

// WriteError answers a poll with err (REST-2): a [*StatusError] in err's chain
// as it is, anything else as 500. The body is a google.rpc.Status; err's text goes
// into it and must be fit for the client.
func WriteError(w http.ResponseWriter, err error) {
	refused, ok := errors.AsType[*StatusError](err)
	if !ok {
		refused = &StatusError{Code: http.StatusInternalServerError, Message: err.Error()}
	}
	body, err := json.Marshal(status{Code: CodeOf(refused.Code), Message: refused.Message})
	if err != nil {
		body = []byte("{}") // a number and a string can always be encoded
	}
	if refused.Code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	text := new(Body)
	text.add(body, []byte("\n"))
	write(w, refused.Code, text)
}

// WriteResponse answers a poll with what [EncodeResponse] gave. 304 needs nothing
// but its status.
func WriteResponse(w http.ResponseWriter, body *Body) { write(w, http.StatusOK, body) }

// write sends a whole answer. An error of the connection ends with it; net/http
// looks after that.
func write(w http.ResponseWriter, code int, body *Body) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(body.Size()))
	// Configuration is nothing for a cache on the way, and some of it is secret.
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = body.WriteTo(w)
}
