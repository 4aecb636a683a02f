package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// streamAsker asks over streams. All fields are immutable.
type streamAsker struct {
	pool     *pool
	api      APIType
	limit    int // of a request, in bytes
	node     *corev3.Node
	nodeSize int
	headers  headers
}

// ask implements asker.
func (a *streamAsker) ask(ctx context.Context, x *replica, q *query, t terms) (*wire.Response, error) {
	ctx, err := a.headers.outgoing(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := a.pool.acquire(x)
	if err != nil {
		return nil, err
	}
	defer a.pool.release(conn)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(time.Until(t.deadline), func() { cancel(errSilent) })
	defer late.Stop()
	stream, err := conn.cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, a.api.method(q.stream))
	if err == nil {
		_ = stream.SendMsg(a.request(q)) // RecvMsg knows why it fails
	}
	var r *wire.Received
	for err == nil {
		r = a.api.response()
		if err = stream.RecvMsg(r); err == nil && cmp.Or(r.TypeURL, q.typeURL) == q.typeURL {
			break
		}
	}
	if err != nil {
		return nil, failedQuery(ctx, err, t)
	}
	t.heard(time.Now())
	if t.stay > 0 && late.Stop() {
		defer time.AfterFunc(t.stay, func() { cancel(errStood) }).Stop()
		for err == nil {
			err = stream.RecvMsg(a.api.response())
		}
		return nil, failedQuery(ctx, err, t)
	}
	if r.Err != nil {
		return nil, nil
	}
	r.TypeURL = q.typeURL
	return &r.Response, nil
}

// request is the first request of a stream.
func (a *streamAsker) request(q *query) request {
	var req request
	if a.api.State() {
		req = &discoveryv3.DiscoveryRequest{TypeUrl: q.typeURL, ResourceNames: q.names}
	} else {
		names, _ := withoutWildcard(q.names)
		req = everything(q.typeURL, nil, nil)
		if split := requests(wire.Subscription{TypeURL: q.typeURL, Subscribe: names}, a.nodeSize, a.limit); len(split) > 0 {
			req = split[0] // a part of the names will do
		}
	}
	withNode(req, a.node)
	return req
}

// failedQuery returns the error for the end of the stream of a query.
func failedQuery(ctx context.Context, err error, t terms) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStood):
		return nil
	case errors.Is(cause, errSilent):
		return errSilent
	case errors.Is(err, io.EOF), refusedBy(err):
		t.heard(time.Now())
		return fmt.Errorf("%w: %w", errUnwilling, err)
	}
	return err
}
