package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// Outcome is what came of a request.
type Outcome struct {
	At      time.Time
	Took    time.Duration
	Status  int    // 0 if there was no answer
	Body    string // the backend's name, where one answered
	Server  string // the header of this name
	Failure string // why it failed: a status with its text, "reset", "refused", "timeout"; "" if it did not
}

// String implements [fmt.Stringer].
func (o Outcome) String() string {
	if o.Failure != "" {
		return fmt.Sprintf("failed after %v: %s", o.Took.Round(time.Millisecond), o.Failure)
	}
	return fmt.Sprintf("%d %q", o.Status, o.Body)
}

// OK reports whether a backend with this name answered.
func (o Outcome) OK(backend string) bool { return o.Status == http.StatusOK && o.Body == backend }

// requestTimeout bounds a request: one that hangs is a failure.
const requestTimeout = 5 * time.Second

// Client sends requests, each on a connection of its own: a listener that is gone is
// seen at once.
type Client struct{ client *http.Client }

// NewClient makes a client.
func NewClient() *Client {
	return &Client{client: &http.Client{
		Timeout:   requestTimeout,
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
}

// Within sets how long a request may take, for tests that are not about time.
func (c *Client) Within(d time.Duration) *Client {
	c.client.Timeout = d
	return c
}

// Get sends a request to addr for a host and a path. An empty host is the address.
func (c *Client) Get(ctx context.Context, addr, host, path string) Outcome {
	o := Outcome{At: time.Now()}
	defer func() { o.Took = time.Since(o.At) }()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, http.NoBody)
	if err != nil {
		o.Failure = err.Error()
		return o
	}
	if host != "" {
		request.Host = host
	}
	response, err := c.client.Do(request)
	if err != nil {
		o.Failure = reason(err)
		return o
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		o.Failure = reason(err)
		return o
	}
	o.Status, o.Body, o.Server = response.StatusCode, string(body), response.Header.Get("Server")
	if response.StatusCode != http.StatusOK {
		o.Failure = strings.TrimSpace(fmt.Sprintf("%d %s", o.Status, o.Body))
	}
	return o
}

// reason is a short word for what became of a connection.
func reason(err error) string {
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "reset"
	case isNet && timeout.Timeout():
		return "timeout"
	default:
		return err.Error()
	}
}
