package restjson

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// The defaults of PollerConfig.
const (
	DefaultBackoffBase = 500 * time.Millisecond
	DefaultBackoffMax  = 30 * time.Second
	DefaultBatch       = 5 * time.Millisecond
	DefaultMaxResponse = 64 << 20
)

// PollerConfig describes a poller. Zero values mean the defaults where there are some.
type PollerConfig struct {
	// Client does the polls; required. It brings TLS and bounds the time of a poll: a
	// server may hold one until something changes, so that the bound must lie above
	// what the server waits. With HTTP/1.1 it should be the poller's own, transport
	// included: connections that come and go make polls ask for everything (ACK-4).
	Client *http.Client
	// Base is where the server's paths begin, http or https; required.
	Base *url.URL
	// TypeURL is what is polled; required.
	TypeURL string
	// Node goes out with every poll. It must not change afterwards.
	Node *corev3.Node
	// Names are the first subscription, see [Poller.SetNames].
	Names []string
	// FullState says that the type is one of RES-2: the wildcard is asked for with no
	// name at all then, as every server understands, and with "*" otherwise (SUB-4).
	FullState bool
	// Held says that resources of the type are held from before, see [Poller].
	Held bool

	// Interval is the time between the end of a poll and the next one, give or take a
	// quarter (REST-3); required.
	Interval time.Duration
	// BackoffBase bounds the delay after the first failure, and each further one in a
	// row doubles the bound, up to BackoffMax.
	BackoffBase, BackoffMax time.Duration
	// Batch is how long changes of the subscription are gathered before they go out.
	Batch time.Duration
	// Panics catches a panic in a poll, which fails then (SUR-6); nil: none is caught.
	Panics *logs.Panics
	// MaxResponse bounds a response, in bytes of JSON.
	MaxResponse int64

	// Handler gets what comes of it; required.
	Handler Handler
}

// Handler is the owner's side of a poller. Its methods are called from the
// poller's goroutine, one at a time, with no lock held.
type Handler interface {
	// OnResponse takes a response to a poll that asked for the names given as
	// resource_names had them. They must not be changed. For full-state types a
	// resource that was asked for and is not there does not exist (RES-8), the others
	// that are there were not asked for (SUB-13). An error rejects the response: its
	// text is told to the server, and the version before it stays the accepted one
	// (ACK-2).
	OnResponse(r *Response, names []string) error
	// OnUnchanged says that a poll found nothing new.
	OnUnchanged()
	// OnError says that a poll failed, with the errors of [ReadResponse] and those of
	// the client: what is cached stays (REST-3). An [*UndecodableError] is told to the
	// server, like what OnResponse rejects.
	OnError(err error)
}

func (c PollerConfig) withDefaults() (PollerConfig, error) {
	switch {
	case c.Client == nil:
		return c, errors.New("restjson: a poller needs an HTTP client")
	case c.Handler == nil:
		return c, errors.New("restjson: a poller needs a handler")
	case c.Base == nil || c.Base.Host == "" || (c.Base.Scheme != "http" && c.Base.Scheme != "https"):
		return c, fmt.Errorf("restjson: the server must be an http or https URL, and is %q", redactedURL(c.Base))
	case c.Interval <= 0:
		return c, fmt.Errorf("restjson: the interval must be positive, and is %v", c.Interval)
	case c.BackoffBase < 0 || c.BackoffMax < 0 || c.Batch < 0 || c.MaxResponse < 0:
		return c, errors.New("restjson: back-off, batch and response limit must not be negative")
	}
	if _, ok := Path(c.TypeURL); !ok {
		return c, fmt.Errorf("restjson: type %q cannot be polled", c.TypeURL)
	}
	orDefault(&c.BackoffBase, DefaultBackoffBase)
	orDefault(&c.BackoffMax, DefaultBackoffMax)
	orDefault(&c.Batch, DefaultBatch)
	orDefault(&c.MaxResponse, DefaultMaxResponse)
	c.BackoffMax = max(c.BackoffMax, c.BackoffBase)
	return c, nil
}

func orDefault[T time.Duration | int64](value *T, def T) {
	if *value == 0 {
		*value = def
	}
}

// redactedURL leaves out a password.
func redactedURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Redacted()
}
