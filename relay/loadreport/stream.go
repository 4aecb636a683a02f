package loadreport

import (
	"errors"
	"io"
	"sync"
	"time"

	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/contain"
)

// stream is one client's stream. Its handler reads; a second goroutine writes.
type stream struct {
	// immutable after serve began
	server *Server
	grpc   grpc.ServerStream
	done   chan struct{} // closed when the handler has read everything

	timer *time.Timer // does what Drain and Recheck want; guarded by server.mu

	mu    sync.Mutex
	place Place // guarded by mu; nil before the first request
	ended bool  // guarded by mu
}

// serve takes the client in with its first request, and then its reports. The first request
// may hold reports: of an Envoy that reported elsewhere before.
func (st *stream) serve() error {
	var first loadv3.LoadStatsRequest
	if err := st.grpc.RecvMsg(&first); err != nil {
		return inOrder(err)
	}
	place, err := st.server.finder.Find(st.grpc.Context(), first.GetNode())
	if err != nil {
		return err
	}
	defer place.Close()
	client, err := place.Scope().Join(first.GetNode().GetId())
	if err != nil {
		return err
	}
	defer client.Leave()
	st.mu.Lock()
	st.place = place
	st.mu.Unlock()
	st.check() // the configuration may have changed before

	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		defer st.server.Panics.Catch(contain.LoadReports, func(e *contain.Error) { st.end(failed(e)) })
		st.write(client)
	})
	err = st.readAll(client, &first)
	st.end(err) // first, or the writer might wait for the client for ever
	close(st.done)
	return err
}

// readAll is read. The writer ends also if it panics.
func (st *stream) readAll(client *Client, first *loadv3.LoadStatsRequest) (err error) {
	defer st.server.Panics.Catch(contain.LoadReports, func(e *contain.Error) { err = failed(e) })
	return st.read(client, first)
}

// failed is the status of a stream that a panic ended.
func failed(e *contain.Error) error { return status.Error(codes.Internal, e.Error()) }

// inOrder is nil where the client has ended its stream.
func inOrder(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// read takes reports until the client ends the stream, or the relay does.
func (st *stream) read(client *Client, first *loadv3.LoadStatsRequest) error {
	if len(first.GetClusterStats()) > 0 {
		if err := client.Report(first); err != nil {
			return err
		}
	}
	for {
		var r loadv3.LoadStatsRequest
		if err := st.grpc.RecvMsg(&r); err != nil {
			return inOrder(err)
		}
		if err := client.Report(&r); err != nil {
			return err
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
			st.end(err)
			return
		}
		if a != nil && a != told {
			if err := st.grpc.SendMsg(a.response); err != nil {
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

// end ends the stream. The first reason counts.
func (st *stream) end(err error) {
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
		st.end(err)
	}
}

// ErrMoved has a client come again, and be found where it belongs.
var ErrMoved = status.Error(codes.Unavailable, "a reload moved the client to another scope: connect again")
