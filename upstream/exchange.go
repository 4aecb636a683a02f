package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// exchange counts the polls of one poller, and the bytes of their responses.
type exchange struct {
	base http.RoundTripper
	host string // of the endpoint, also where an address of it is polled
	with headers
	sent func(kind RequestKind)

	begun    time.Time    // of the last poll; the poller's goroutine alone looks
	owed     atomic.Value // RequestKind: whether the next poll accepts or rejects the last response
	received atomic.Int64 // bytes of the last response
	relay    bool         // the last response is a relay's; as begun
}

func newExchange(w *web, x *replica, with headers, sent func(RequestKind)) *exchange {
	e := &exchange{base: w.doors[x.endpoint], host: x.endpoint.target, with: with, sent: sent}
	e.owed.Store(KindSubscribe)
	return e
}

// answer sets whether the next poll accepts or rejects the last response. Later polls do neither.
func (e *exchange) answer(kind RequestKind) { e.owed.Store(kind) }

// RoundTrip implements http.RoundTripper.
func (e *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = e.host
	r.Header.Set("User-Agent", UserAgent())
	md, err := e.with.now()
	if err != nil {
		return nil, err
	}
	restjson.SetMetadata(r.Header, md)
	e.received.Store(0)
	e.begun = time.Now()
	kind, _ := e.owed.Swap(KindSubscribe).(RequestKind)
	e.sent(kind)
	resp, err := e.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	e.relay = wire.FromRelay(resp.Header.Get("Server"))
	resp.Body = &countedBody{resp.Body, &e.received}
	return resp, nil
}

// countedBody counts the bytes that are read of a body.
type countedBody struct {
	io.ReadCloser

	n *atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

// notServed says that the server is there and does not serve the type.
func notServed(err error) bool {
	refused, ok := errors.AsType[*restjson.StatusError](err)
	if !ok {
		return false
	}
	switch refused.Code {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return false
}

// pollReason classifies why a poll failed.
func pollReason(err error) Reason {
	if refused, ok := errors.AsType[*restjson.StatusError](err); ok {
		switch refused.Code {
		case http.StatusUnauthorized, http.StatusForbidden:
			return ReasonDenied
		case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
			return ReasonExhausted
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return ReasonUnavailable
		}
		return ReasonError
	}
	_, unreachable := errors.AsType[unreachableError](err)
	failed, network := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errNoToken):
		return ReasonNoToken
	case errors.Is(err, restjson.ErrTooLarge):
		return ReasonExhausted
	case errors.Is(err, errConnectTimeout), errors.Is(err, context.DeadlineExceeded), network && failed.Timeout():
		return ReasonTimeout
	case unreachable:
		return ReasonUnreachable
	case network, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ReasonUnavailable
	}
	return ReasonError
}
