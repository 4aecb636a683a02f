package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/xdsrelay/xdsrelay/internal/contain"
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
	panics   *contain.Panics
}

// ask implements asker. Types with services of their own have a stream each.
func (a *streamAsker) ask(ctx context.Context, x *replica, q *question, t terms) (reply, error) {
	ctx, err := a.headers.outgoing(ctx)
	if err != nil {
		return reply{}, err
	}
	conn, err := a.pool.acquire(x)
	if err != nil {
		return reply{}, err
	}
	defer a.pool.release(conn)
	t.heard = onlyFirst(t.heard)
	byMethod := make(map[string][]part)
	for _, p := range q.parts {
		method := a.api.method(p.stream)
		byMethod[method] = append(byMethod[method], p)
	}
	all := reply{resources: make(map[string][]*wire.Resource)}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards all and failed
	var failed error
	for method, parts := range byMethod {
		wg.Go(func() {
			s := &askedStream{asker: a, terms: t, left: make(map[string]bool), resources: make(map[string][]*wire.Resource)}
			err := s.contained(ctx, conn.cc, method, parts)
			mu.Lock()
			defer mu.Unlock()
			all.bytes += s.bytes
			maps.Copy(all.resources, s.resources)
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	return all, failed
}

// onlyFirst calls f once.
func onlyFirst(f func(time.Time)) func(time.Time) {
	var once sync.Once
	return func(at time.Time) { once.Do(func() { f(at) }) }
}

// request asks for one type, with the node in the first request of a stream.
func (a *streamAsker) request(p part, first bool) request {
	var req request
	if a.api.State() {
		req = &discoveryv3.DiscoveryRequest{TypeUrl: p.typeURL, ResourceNames: p.names}
	} else {
		names, _ := withoutWildcard(p.names)
		reserved := 0
		if first {
			reserved = a.nodeSize
		}
		req = everything(p.typeURL, nil, nil)
		if split := requests(wire.Subscription{TypeURL: p.typeURL, Subscribe: names}, reserved, a.limit); len(split) > 0 {
			req = split[0] // a part of the names will do
		}
	}
	if first {
		withNode(req, a.node)
	}
	return req
}

// askedStream is one stream of a question. It belongs to one goroutine.
type askedStream struct {
	asker *streamAsker
	terms terms

	left      map[string]bool // types without an answer
	answered  bool
	bytes     int
	resources map[string][]*wire.Resource
}

// contained is run. A panic in it is an error.
func (s *askedStream) contained(ctx context.Context, cc *grpc.ClientConn, method string, parts []part) (err error) {
	defer s.asker.panics.Catch(contain.Upstream, func(e *contain.Error) { err = e })
	return s.run(ctx, cc, method, parts)
}

// run asks, and receives until everything is answered and the stream has stood for so long.
func (s *askedStream) run(ctx context.Context, cc *grpc.ClientConn, method string, parts []part) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(time.Until(s.terms.deadline), func() { cancel(errSilent) })
	defer late.Stop()
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return s.failure(ctx, err)
	}
	for i, p := range parts {
		s.left[p.typeURL] = true
		if stream.SendMsg(s.asker.request(p, i == 0)) != nil {
			break // RecvMsg knows why
		}
	}
	for {
		r := s.asker.api.response()
		if err := stream.RecvMsg(r); err != nil {
			return s.failure(ctx, err)
		}
		switch s.take(r); {
		case len(s.left) > 0:
		case s.terms.stay == 0:
			return nil
		case late.Stop():
			defer time.AfterFunc(s.terms.stay, func() { cancel(errStood) }).Stop() //nolint:revive,gocritic // the loop comes here once
		}
	}
}

// take takes a response.
func (s *askedStream) take(r *wire.Received) {
	s.answered = true
	s.terms.heard(time.Now())
	if len(s.left) == 1 { // without a type it is that of the stream
		for typeURL := range s.left {
			r.TypeURL = cmp.Or(r.TypeURL, typeURL)
		}
	}
	s.bytes += r.Size
	delete(s.left, r.TypeURL)
	if !r.State && r.Err == nil {
		s.resources[r.TypeURL] = append(s.resources[r.TypeURL], r.Resources...)
	}
}

// failure says what the end of the stream means.
func (s *askedStream) failure(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStood):
		return nil
	case errors.Is(cause, errSilent):
		if s.answered && s.terms.stay == 0 {
			return nil // to a part, at least
		}
		return errSilent
	case errors.Is(err, io.EOF), refusedBy(err):
		s.terms.heard(time.Now())
		return fmt.Errorf("%w: %w", errUnwilling, err)
	}
	return err
}
