package loadreport

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// stream is one client's stream. Its handler reads; a second goroutine writes.
type stream struct {
	// immutable after serve began
	server *Server
	grpc   grpc.ServerStream
	done   chan struct{} // closed when the handler has read everything

	mu    sync.Mutex
	place Place // guarded by mu; nil before the first request
	ended bool  // guarded by mu
}

// serve takes the client in with its first request, and then its reports. The first request
// may hold reports: of an Envoy that reported elsewhere before.
func (st *stream) serve() error {
	var client *Client
	defer func() { st.leave(client) }()
	if err := st.grpc.RecvMsg(message(func(data []byte) (err error) {
		client, err = st.enter(data)
		return err
	})); err != nil {
		return inOrder(err)
	}
	st.check() // the configuration may have changed before

	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		defer st.server.Panics.Catch(logs.PartLoadReports, func(e *logs.PanicError) { st.End(failed(e)) })
		st.write(client)
	})
	err := st.readAll(client)
	st.End(err) // first, or the writer might wait for the client for ever
	close(st.done)
	return err
}

// enter takes the client in, with its first request. Only the node of it is decoded before the client is known to be
// one that may report (ACC-5).
func (st *stream) enter(first []byte) (*Client, error) {
	encoded, err := nodeIn(first)
	if err != nil {
		return nil, err
	}
	node, err := st.server.nodeOf(st.grpc.Context(), encoded)
	if err != nil {
		return nil, err
	}
	place, err := st.server.finder.Find(st.grpc.Context(), node)
	if err != nil {
		return nil, err
	}
	st.mu.Lock()
	st.place = place
	st.mu.Unlock()
	client, err := place.Scope().Join(node.GetId())
	if err != nil {
		return nil, err
	}
	client.allows = place.Allows
	return client, st.server.report(client, first, true)
}

// leave takes the client out, and gives its place back, as far as it has come.
func (st *stream) leave(client *Client) {
	if client != nil {
		client.Leave()
	}
	st.mu.Lock()
	place := st.place
	st.mu.Unlock()
	if place != nil {
		place.Close()
	}
}

// readAll is read. The writer ends also if it panics.
func (st *stream) readAll(client *Client) (err error) {
	defer st.server.Panics.Catch(logs.PartLoadReports, func(e *logs.PanicError) { err = failed(e) })
	return st.read(client)
}

// failed is the status of a stream that a panic ended.
func failed(e *logs.PanicError) error { return status.Error(codes.Internal, e.Error()) }

// inOrder is nil where the client has ended its stream.
func inOrder(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// read takes reports until the client ends the stream, or the relay does.
func (st *stream) read(client *Client) error {
	for {
		if err := st.grpc.RecvMsg(message(func(data []byte) error {
			return st.server.report(client, data, false)
		})); err != nil {
			return inOrder(err)
		}
	}
}

// write tells the client what the control plane wants, now and when that changes.
func (st *stream) write(client *Client) {
	var told *answer
	for {
		a, changed, err := client.answer()
		if err != nil {
			client.refused()
			st.End(err)
			return
		}
		if a != nil && a != told {
			if err := st.grpc.SendMsg(client.told(a)); err != nil {
				return // the reader knows why
			}
			told = a
		}
		select {
		case <-changed:
		case <-st.done:
			return
		}
	}
}

// Context is that of the client's stream.
func (st *stream) Context() context.Context { return st.grpc.Context() }

// End ends the stream. The first reason counts.
func (st *stream) End(err error) {
	st.mu.Lock()
	first := !st.ended
	st.ended = true
	st.mu.Unlock()
	if first {
		st.server.end(st.grpc, err)
	}
}

// check ends the stream of a client that belongs elsewhere now.
func (st *stream) check() {
	st.mu.Lock()
	place := st.place
	st.mu.Unlock()
	if place == nil {
		return
	}
	if err := place.Check(); err != nil {
		st.End(err)
	}
}

// ErrNarrowed has a client come again whose access rules have changed.
var ErrNarrowed = status.Error(codes.Unavailable, "a reload changed which clusters the client may have: connect again")

// ErrMoved has a client come again, and be found where it belongs.
var ErrMoved = status.Error(codes.Unavailable, "a reload moved the client to another scope: connect again")
