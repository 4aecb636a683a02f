package stateclient

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xdsrelay/xdsrelay/internal/apiservices"
	"github.com/xdsrelay/xdsrelay/internal/wake"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// NewREST makes a client that polls a server with POST requests of proto3 JSON
// (VAR-5). base is the server's URL without a path: "http://127.0.0.1:18101".
//
// Each type is polled by itself. A poll presents the version that is held, so
// that the server may hold it until there is another one (REST-1); one that was
// answered sooner, by 304 or with what is held already, is followed by the next
// after the options' PollInterval and some jitter (REST-3). Names that are
// subscribed or taken back interrupt the poll: the next one presents no version,
// since a server may know no other sign that something is missing. An error, or a
// status that is neither 200 nor 304, ends the client's stream, as which it counts
// from the first poll on; its gRPC status code is the one that means the same.
//
// Payloads are decoded from JSON, so that only types which are part of this
// program can be received, and fields unknown to it are lost.
func NewREST(client *http.Client, base string, options xdsclient.Options) *xdsclient.Client {
	options.PerType = true
	return xdsclient.New(rest{
		requests: requests{options.PresentVersion}, client: client, base: base, interval: cmp.Or(options.PollInterval, xdsclient.DefaultPollInterval),
	}, announced(options))
}

// rest is the variant over HTTP.
type rest struct {
	requests

	client   *http.Client
	base     string
	interval time.Duration
}

// Serves implements xdsclient.Protocol.
func (p rest) Serves(typeURL string) error {
	if apiservices.Of(typeURL).Path == "" {
		return &xdsclient.UnservedError{TypeURL: typeURL, Variant: "REST"}
	}
	return nil
}

// Open implements xdsclient.Protocol. There is no connection before the first poll.
func (p rest) Open(ctx context.Context, typeURL string, opened func()) (xdsclient.Stream, error) {
	if err := p.Serves(typeURL); err != nil {
		return nil, err
	}
	base, err := url.Parse(p.base)
	if err != nil {
		return nil, failed(codes.InvalidArgument, err)
	}
	return &poller{
		rest: p, ctx: ctx, typeURL: typeURL, url: base, opened: sync.OnceFunc(opened), wake: wake.New(),
	}, nil
}

// idle is a request that asks for nothing. Sent as it is it would ask for
// everything: there is no stream on which something was named before (SUB-2).
func idle(t *xdsclient.Type) bool {
	wildcard, _ := t.Wildcard()
	return !wildcard && len(t.Names()) == 0
}

// Change implements xdsclient.Protocol; nil is no request at all.
func (p rest) Change(t *xdsclient.Type, subscribe, unsubscribe []string, limit int) []proto.Message {
	if idle(t) {
		return []proto.Message{(*discoveryv3.DiscoveryRequest)(nil)}
	}
	return p.requests.Change(t, subscribe, unsubscribe, limit)
}

// Answer implements xdsclient.Protocol.
func (p rest) Answer(a xdsclient.Answer) proto.Message {
	if idle(a.Type) { // there is one: what a poll brings is of its type
		return (*discoveryv3.DiscoveryRequest)(nil)
	}
	return p.requests.Answer(a)
}
