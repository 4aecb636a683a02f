package restjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Response is what a server answered a poll with: what a response over gRPC says, and what JSON lost
// on its way.
type Response struct {
	wire.Response // of the state of the world
	// Discarded tells of the first field that this build does not know and that was
	// left out, "" if there was none. It is for a line in the log: JSON does not let
	// it pass through (VAR-8).
	Discarded string
}

// ErrUnchanged is a server's 304: what the poll presented is current.
var ErrUnchanged = errors.New("restjson: unchanged")

// ErrTooLarge is wrapped by the error for a body beyond the limit.
var ErrTooLarge = errors.New("larger than the limit")

// UndecodableError says that an answer is not the DiscoveryResponse that was asked
// for. Its text is fit for the error_detail of a NACK (ACK-6).
type UndecodableError struct {
	// VersionInfo and Nonce are the response's where they could be read.
	VersionInfo, Nonce string
	// Index is that of the resource in the response, -1 if it is not about one.
	Index int
	// Reason says what is wrong.
	Reason string
}

func (e *UndecodableError) Error() string {
	if e.Index < 0 {
		return "cannot decode the response: " + e.Reason
	}
	return fmt.Sprintf("cannot decode resources[%d]: %s", e.Index, e.Reason)
}

// shownMessage is how many bytes are kept of what a server says of a failure.
const shownMessage = 256

// ReadResponse reads a server's answer to a poll for a type, from a body of at
// most limit bytes, and closes it. Errors: ErrUnchanged for 304; a [*StatusError]
// for any other status but 200; an [*UndecodableError], which is to be told to the
// server; one that wraps ErrTooLarge; and others where the answer did not arrive
// or is not JSON by its headers.
func ReadResponse(r *http.Response, typeURL string, limit int64) (*Response, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if closing := r.Body.Close(); err == nil {
		err = closing
	}
	switch {
	case r.StatusCode == http.StatusNotModified:
		return nil, ErrUnchanged
	case r.StatusCode != http.StatusOK:
		return nil, &StatusError{Code: r.StatusCode, Message: message(r.StatusCode, body)}
	case err != nil:
		return nil, fmt.Errorf("restjson: read the response: %w", err)
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("restjson: the response is %w of %d bytes", ErrTooLarge, limit)
	}
	if given := r.Header.Get("Content-Type"); !jsonPerhaps(given) {
		return nil, fmt.Errorf("restjson: the response is not JSON but %q", shorten(given, 100))
	}
	return decodeResponse(body, typeURL)
}

// jsonPerhaps tells whether a server's Content-Type lets its body be JSON. Servers
// that set none are as good: net/http makes "text/plain" of that.
func jsonPerhaps(header string) bool {
	if header == "" {
		return true
	}
	media := mediaType(header)
	return media == contentType || media == "text/plain" || strings.HasSuffix(media, "+json")
}

// message gives what the body of an error says: the message of a Status, or its
// first bytes as they are. With a status that is no error the body may be resources,
// which are not to be quoted (OPS-6).
func message(httpStatus int, body []byte) string {
	if httpStatus < http.StatusBadRequest {
		return ""
	}
	var s status
	if json.Unmarshal(body, &s) == nil && s.Message != "" {
		return shorten(s.Message, shownMessage)
	}
	return shorten(string(body[:min(len(body), 4*shownMessage)]), shownMessage)
}
