package passthrough

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// stream is one client's stream. Its handler passes requests on; a second goroutine passes responses on.
type stream struct {
	// immutable
	server *Server
	client *downstream.Through

	owed atomic.Int64 // responses that the client has not answered

	mu     sync.Mutex // guards what follows
	place  Place      // nil before the first request
	types  map[string]bool
	reason *error // why the stream ended; nil: it has not
}

// serve takes the client in with its first request, and passes messages on.
func (st *stream) serve() (first wire.Raw, err error) {
	if err := st.client.RecvMsg(&first); err != nil {
		return nil, st.ended(inOrder(err))
	}
	if first == nil {
		first = wire.Raw{} // not nil: it is a request, of no bytes
	}
	place, err := st.find(first)
	switch {
	case err != nil:
		return nil, st.ended(err)
	case place == nil:
		return first, nil
	}
	defer place.Close()
	began := time.Now()
	err = st.pass(place, first)
	v, _ := st.status()
	st.server.log.LogAttrs(context.Background(), slog.LevelInfo, "a stream ended that was served 1:1",
		slog.Uint64("stream", v.ID), slog.String("peer", v.Peer), slog.String("node", v.Node), slog.String("variant", v.Variant),
		slog.String("upstream", v.Passed.Upstream), slog.String("scope", v.Passed.Scope), slog.String("code", status.Code(err).String()),
		slog.String("reason", logs.Head(status.Convert(err).Message(), maxReason)), slog.Duration("open", time.Since(began).Round(time.Millisecond)))
	st.client.Ended(v, err)
	return nil, err
}

// maxReason bounds what the log has of a status.
const maxReason = 1 << 10

// find decodes who the client is. The cache answers what cannot be decoded.
func (st *stream) find(first wire.Raw) (Place, error) {
	r, err := st.decode(first)
	if err != nil || st.client.Large(r.NodeBytes()) {
		return nil, nil
	}
	node, err := r.Node()
	if err != nil {
		return nil, nil
	}
	place, err := st.server.finder.Find(st.client, node, st.client.Belongs(r.TypeURL))
	if place == nil || err != nil {
		return nil, err
	}
	st.client.Present(node.GetId(), node.GetCluster())
	st.mu.Lock()
	defer st.mu.Unlock()
	st.place = place
	return place, nil
}

// pass passes messages on until the stream ends.
func (st *stream) pass(place Place, first wire.Raw) error {
	turn, err := st.client.Join()
	if err != nil {
		return st.ended(err)
	}
	defer turn.Done()
	if err := st.judge(first); err != nil {
		return st.ended(err)
	}
	if err := st.check(); err != nil { // the configuration may have changed before
		return st.ended(err)
	}
	ctx, cancel := context.WithCancel(st.client.Context())
	defer cancel()
	up, err := place.Open(ctx)
	if err != nil {
		return st.ended(err)
	}
	defer up.Close()
	turn.Done()
	var responses sync.WaitGroup
	defer responses.Wait()
	defer up.Cancel() // of an early end
	responses.Go(func() {
		defer st.server.Panics.Catch(logs.PartClient, func(e *logs.PanicError) { st.End(status.Error(codes.Internal, e.Error())) })
		st.End(st.responses(up))
	})
	if err := st.requests(up, first); err != nil {
		st.End(err) // first, or the other goroutine might wait for the client for ever
		return st.ended(nil)
	}
	up.CloseSend()
	responses.Wait()
	return st.ended(nil)
}

// requests passes requests on. nil: the client sends none any more, and may get further responses.
func (st *stream) requests(up Stream, message wire.Raw) (err error) {
	defer st.server.Panics.Catch(logs.PartClient, func(e *logs.PanicError) { err = status.Error(codes.Internal, e.Error()) })
	for {
		switch err := up.Send(message); {
		case errors.Is(err, io.EOF): // the stream has ended, and Receive knows why
			<-st.client.Context().Done()
			return status.FromContextError(st.client.Context().Err()).Err()
		case err != nil:
			return moved(up, err)
		}
		message = nil
		if err := st.client.RecvMsg(&message); err != nil {
			return inOrder(err)
		}
		if err := st.judge(message); err != nil {
			return err
		}
		// A request that answers a response is as frequent as the control plane has it.
		if st.owed.Add(-1) >= 0 {
			continue
		}
		st.owed.Add(1)
		if !st.client.Await() {
			return status.FromContextError(st.client.Context().Err()).Err()
		}
	}
}

// responses passes responses on. The error is the status with which it ends the stream; nil
// for OK.
func (st *stream) responses(up Stream) error {
	for {
		var message wire.Raw
		err := up.Receive(&message)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return moved(up, err)
		}
		if err := st.judgeResponse(message); err != nil {
			return err
		}
		st.owed.Add(1)
		if err := st.client.SendMsg(message); err != nil {
			return err
		}
	}
}

// moved is the status for the error of a stream to the control plane.
func moved(up Stream, err error) error {
	if status.Code(err) == codes.Canceled && up.Closed() {
		return ErrMoved
	}
	return err
}

// inOrder is nil where the client has ended its requests.
func inOrder(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// ended returns why the stream ended: the first reason counts.
func (st *stream) ended(err error) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.reason == nil {
		st.reason = &err
	}
	return *st.reason
}

// Context is that of the client's stream.
func (st *stream) Context() context.Context { return st.client.Context() }

// End ends the stream, unless it has ended.
func (st *stream) End(err error) {
	st.mu.Lock()
	first := st.reason == nil
	if first {
		st.reason = &err
	}
	st.mu.Unlock()
	if first {
		st.server.end(st.client, err)
	}
}

// placed returns the stream's place; nil before the first request.
func (st *stream) placed() Place {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.place
}

// check is the status for a client that is not to be served so any more; nil: it is.
func (st *stream) check() error {
	place, types := st.asked()
	if place == nil {
		return nil
	}
	return place.Check(types)
}

// asked returns the stream's place, which is nil before the first request, and the types that the client asked for.
func (st *stream) asked() (Place, []string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.place, slices.Collect(maps.Keys(st.types))
}

// status returns the stream for the admin port; false if it is not known yet whether it is served 1:1.
func (st *stream) status() (v downstream.Status, ok bool) {
	place := st.placed()
	if place == nil {
		return v, false
	}
	v = st.client.Status()
	v.Passed = new(place.Origin())
	v.Scope = v.Passed.Scope
	return v, true
}
