package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
)

const (
	// maxCauses is how many endpoints have their cause kept: those that failed last.
	maxCauses = 16
	// maxCauseText bounds a cause, in bytes.
	maxCauseText = 200
)

// Cause is why an endpoint did not answer when it was last tried.
type Cause struct {
	Endpoint string `json:"endpoint"`
	Text     string `json:"cause"` // short: "connection refused", "TLS: …", "UNAUTHENTICATED: …", "timeout"

	refusal string // the status of a server that is there and lets a scope not in, maybe for the scope's sake; "" for everything else
}

// Public is the cause as clients of other scopes may know it: the reason for which a server refuses
// one scope is not told to others (ACC-6), and where servers are is for operators alone.
func (c Cause) Public() Cause {
	if c.refusal != "" {
		c.Text = c.refusal
	}
	return c.Unplaced()
}

// Unplaced is the cause without addresses and names of servers.
func (c Cause) Unplaced() Cause {
	c.Endpoint, c.Text = "", places.ReplaceAllString(c.Text, "…")
	return c
}

// places are addresses, host names with a port, names that are looked up, and those that a certificate is for.
var places = regexp.MustCompile(`\[[0-9a-fA-F]*:[^\]\s]*\](:\d+)?|[\w.-]+:\d{1,5}\b|\b\d{1,3}(\.\d{1,3}){3}\b|\b[0-9a-fA-F]{0,4}(:[0-9a-fA-F]{0,4}){2,}\b|\blookup \S+|\b(valid for|not valid for any names, but wanted to match) .*`)

func (c Cause) String() string {
	if c.Endpoint == "" {
		return c.Text
	}
	return c.Endpoint + ": " + c.Text
}

// UnansweredError says that no endpoint of a control plane answered, and of each why.
type UnansweredError struct {
	Upstream string
	Causes   []Cause
}

func (e *UnansweredError) Error() string {
	return fmt.Sprintf("upstream %q: no endpoint answers: %s", e.Upstream, JoinCauses(e.Causes))
}

// JoinCauses writes causes in one line, each once.
func JoinCauses(causes []Cause) string {
	texts := make([]string, 0, len(causes))
	for _, c := range causes {
		if text := c.String(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

// causes has the last cause of each endpoint that does not answer.
type causes struct {
	mu   sync.Mutex
	last []Cause // in the order in which endpoints began to fail
}

// failed notes why an endpoint does not answer.
func (c *causes) failed(cause Cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.at(cause.Endpoint); i >= 0 {
		c.last[i] = cause
		return
	}
	if len(c.last) == maxCauses {
		c.last = slices.Delete(c.last, 0, 1)
	}
	c.last = append(c.last, cause)
}

// answered forgets the cause of an endpoint.
func (c *causes) answered(endpoint string) { c.forget(endpoint, true) }

// connected forgets the cause of an endpoint, unless that was a refusal: a server that
// refuses can be connected to.
func (c *causes) connected(endpoint string) { c.forget(endpoint, false) }

func (c *causes) forget(endpoint string, refusals bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.at(endpoint); i >= 0 && (refusals || c.last[i].refusal == "") {
		c.last = slices.Delete(c.last, i, i+1)
	}
}

// at gives the place of an endpoint, negative if it has none. The caller holds mu.
func (c *causes) at(endpoint string) int {
	return slices.IndexFunc(c.last, func(x Cause) bool { return x.Endpoint == endpoint })
}

// of returns the causes of the endpoints that there are, and forgets those of others: the
// addresses of a name come and go.
func (c *causes) of(endpoints []string) []Cause {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = slices.DeleteFunc(c.last, func(x Cause) bool { return !slices.Contains(endpoints, x.Endpoint) })
	return slices.Clone(c.last)
}

// causeAt is the cause for an error of an endpoint. It is a refusal if the server is there.
func causeAt(endpoint string, err error, refusal bool) Cause {
	c := Cause{Endpoint: endpoint, Text: briefly(err)}
	if refusal {
		c.refusal = refusalText(err)
	}
	return c
}

// briefly says in few words why a connection could not be made, or why a stream ended.
func briefly(err error) string {
	return logs.Head(strings.Map(printable, briefText(err)), maxCauseText)
}

// refusalText is the status of a server that refuses, without its words.
func refusalText(err error) string {
	if refused, ok := errors.AsType[*restjson.StatusError](err); ok {
		return (&restjson.StatusError{Code: refused.Code}).Error()
	}
	return codeName(status.Code(err))
}

func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

func briefText(err error) string {
	if refused, ok := errors.AsType[*restjson.StatusError](err); ok {
		return refused.Error()
	}
	if unreachable, ok := errors.AsType[unreachableError](err); ok { // inside what net/http says of the request
		err = unreachable.error
	}
	switch {
	case errors.Is(err, errSilent):
		return "no answer"
	case errors.Is(err, errConnectTimeout), errors.Is(err, context.DeadlineExceeded), status.Code(err) == codes.DeadlineExceeded:
		return "timeout"
	case errors.Is(err, io.EOF):
		return "the server ended the stream"
	}
	st, ok := status.FromError(err)
	if !ok {
		return connectionText(err.Error())
	}
	if _, quoted, found := strings.Cut(st.Message(), "connection error: desc = "); found { // gRPC's own words
		if text, err := strconv.Unquote(quoted); err == nil {
			quoted = text
		}
		return connectionText(quoted)
	}
	return codeName(st.Code()) + ": " + st.Message()
}

// connectionText takes off the words that say only that a connection was to be made, and where to.
func connectionText(text string) string {
	text = strings.TrimPrefix(text, "transport: ")
	text = strings.TrimPrefix(text, "Error while dialing: ")
	if strings.HasPrefix(text, "dial ") {
		if _, after, found := strings.Cut(text, ": "); found {
			text = strings.TrimPrefix(after, "connect: ")
		}
	}
	text, handshake := strings.CutPrefix(text, "authentication handshake failed: ")
	if _, alert, found := strings.Cut(text, "remote error: tls: "); found {
		text, handshake = "the server refuses: "+alert, true
	}
	for _, prefix := range []string{"tls: failed to verify certificate: x509: ", "tls: "} {
		if rest, is := strings.CutPrefix(text, prefix); is {
			text, handshake = rest, true
		}
	}
	if text == "i/o timeout" || text == "context deadline exceeded" {
		text = "timeout"
	}
	if handshake {
		return "TLS: " + text
	}
	return text
}

// codeName is a gRPC status as the protocol's documents write it.
func codeName(c codes.Code) string { return rpccode.Code(c).String() }
