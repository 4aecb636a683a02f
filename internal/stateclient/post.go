package stateclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// jsonTrouble is what may be told of protojson's errors: the rest of their text
// quotes the value that was not understood, which may be a secret (OPS-6).
var jsonTrouble = regexp.MustCompile(`unexpected EOF|line \d+:\d+|unable to resolve "[^"]*"|(invalid value for|duplicate) \w+ field \w+`)

// undecodable says why JSON could not be decoded, and where.
func undecodable(err error) error {
	parts := jsonTrouble.FindAllString(err.Error(), -1)
	return errors.New(strings.Join(append([]string{"cannot decode the response"}, parts...), ": "))
}

// post gives the body of a response, nil if it says that nothing changed.
func (p *poller) post(ctx context.Context, req *discoveryv3.DiscoveryRequest) ([]byte, error) {
	// Under the names that Envoy writes: some servers know no others.
	body, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(req)
	if err != nil {
		return nil, failedf(codes.InvalidArgument, "encoding the request: %v", err)
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { p.opened() }})
	h, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return nil, failedf(codes.InvalidArgument, "%v", err)
	}
	h.Header.Set("Content-Type", "application/json")
	h.Header.Set("Accept", "application/json")
	resp, err := p.client.Do(h)
	if err != nil {
		return nil, failedf(codes.Unavailable, "%v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusNotModified:
		return nil, nil
	case http.StatusOK:
		return read(resp.Body)
	default:
		return nil, refusal(resp)
	}
}

// pollError is why a poll failed, with the gRPC status code that means the same:
// who judges the end of a stream need not tell the variants apart.
type pollError struct {
	code codes.Code
	text string
}

func failedf(code codes.Code, format string, args ...any) error {
	return &pollError{code, fmt.Sprintf(format, args...)}
}

func (e *pollError) Error() string { return e.text }

// GRPCStatus is what status.Code looks for.
func (e *pollError) GRPCStatus() *status.Status { return status.New(e.code, e.text) }

// read reads a body.
func read(body io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, xdsclient.MaxReceiveSize+1))
	switch {
	case err != nil:
		return nil, failedf(codes.Unavailable, "reading the response: %v", err)
	case len(data) > xdsclient.MaxReceiveSize:
		return nil, failedf(codes.ResourceExhausted, "the response has more than %d bytes", xdsclient.MaxReceiveSize)
	case len(data) == 0:
		return nil, failedf(codes.Unavailable, "the response has no body")
	}
	return data, nil
}

// refusal is the error of a status other than 200 and 304.
func refusal(resp *http.Response) error {
	const enough = 300
	text, _ := io.ReadAll(io.LimitReader(resp.Body, enough)) // what could be read of it
	code := codes.Unavailable
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusUnsupportedMediaType:
		code = codes.InvalidArgument
	case http.StatusUnauthorized:
		code = codes.Unauthenticated
	case http.StatusForbidden:
		code = codes.PermissionDenied
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		code = codes.Unimplemented
	}
	if text = bytes.TrimSpace(text); len(text) > 0 {
		return failedf(code, "HTTP status %s: %s", resp.Status, text)
	}
	return failedf(code, "HTTP status %s", resp.Status)
}
