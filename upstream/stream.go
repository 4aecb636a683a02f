package upstream

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// maxQueued bounds the requests that wait behind those that the sender has in
// hand, for a server that sends but does not read: what waits are answers, and no
// working server is so far behind.
const maxQueued = 1 << 14

// stream is one xDS stream from the attempt to open it to its end. Its context
// belongs to the session's owner, who ends it; what it does is told to the
// owner by functions posted to be run there.
type stream struct {
	// Immutable after newStream.
	ctx    context.Context // the owner's; ends when the owner ends the stream
	cancel context.CancelFunc
	call   context.Context         // of the gRPC call, under ctx
	abort  context.CancelCauseFunc // ends the call for a reason of our own
	conn   *conn
	panics *logs.Panics
	api    APIType
	method string
	post   func(ctx context.Context, f func())    // Session.post
	sent   func(typeURL string, kind RequestKind) // called after each request written
	wake   chan struct{}                          // one slot: the queue has something
	wg     sync.WaitGroup

	mu     sync.Mutex
	queue  []outgoing
	busy   bool          // the sender has something to write
	onIdle func()        // to be posted once when it has not
	paused chan struct{} // nothing is read until it is closed; nil: all is
}

// outgoing is one request; without one it says that there will be no more.
type outgoing struct {
	req  request
	kind RequestKind
}

func newStream(ctx context.Context, c *conn, api APIType, method string, s *Session, sent func(string, RequestKind)) *stream {
	st := &stream{conn: c, api: api, panics: s.safety.panics, method: method, post: s.post, sent: sent, wake: notify.New()}
	st.ctx, st.cancel = context.WithCancel(ctx)
	st.call, st.abort = context.WithCancelCause(st.ctx)
	return st
}

// handler has the owner's reactions to a stream's events.
type handler struct {
	opened   func()
	response func(r *wire.Received, at time.Time)
	lost     func(err error) // the last one
}

// start opens the stream and receives from it until it ends.
func (st *stream) start(timeout time.Duration, h handler) {
	st.wg.Go(func() {
		defer st.panics.Catch(logs.PartUpstream, func(e *logs.PanicError) { st.lost(h, e) })
		cs, err := st.open(timeout)
		if err != nil {
			st.lost(h, err)
			return
		}
		st.tell(h.opened)
		st.wg.Go(func() { st.send(cs) })
		for {
			r := st.api.response()
			if err := cs.RecvMsg(r); err != nil {
				st.lost(h, err)
				return
			}
			at := time.Now()
			st.await()
			st.tell(func() { h.response(r, at) })
		}
	})
}

// tell has the owner run f, unless the owner has ended the stream. It waits:
// the next response is not read before this one was taken.
func (st *stream) tell(f func()) { st.post(st.ctx, f) }

// pause has no more than one further response handed to the owner until resume.
func (st *stream) pause() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.paused == nil {
		st.paused = make(chan struct{})
	}
}

func (st *stream) resume() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.paused != nil {
		close(st.paused)
		st.paused = nil
	}
}

// await waits while the owner has paused the stream.
func (st *stream) await() {
	st.mu.Lock()
	paused := st.paused
	st.mu.Unlock()
	if paused == nil {
		return
	}
	select {
	case <-paused:
	case <-st.ctx.Done():
	}
}

// stop ends the stream, also one that is blocked, and waits for its
// goroutines. Nothing is told afterwards.
func (st *stream) stop() {
	st.cancel()
	st.wg.Wait()
}

// open creates the stream on its connection. The timeout covers the connecting
// and the waiting for a free stream, not the life of the stream.
func (st *stream) open(timeout time.Duration) (grpc.ClientStream, error) {
	timer := time.AfterFunc(timeout, func() { st.abort(errConnectTimeout) })
	defer timer.Stop()
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	cs, err := st.conn.cc.NewStream(st.call, desc, st.method)
	if err != nil {
		return nil, err
	}
	// Asking for the context commits the call to this connection. Otherwise grpc
	// may move a call that the server has not processed to a new one: Send ends
	// then with EOF while Recv goes on, and the stream stays without a sender.
	// Retrying is the session's business.
	_ = cs.Context()
	return cs, nil
}

// lost tells the owner why the call ended: our own reason before grpc's, which
// would only be that the call was cancelled.
func (st *stream) lost(h handler, err error) {
	if cause := context.Cause(st.call); cause != nil {
		err = cause
	}
	st.tell(func() { h.lost(err) })
}

// enqueue has a request written after those before it. It never blocks.
func (st *stream) enqueue(o outgoing) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.queue) >= maxQueued {
		st.abort(errNotReading)
		return
	}
	st.queue = append(st.queue, o)
	st.busy = true
	notify.Signal(st.wake)
}

// idle says whether everything was written. If not, f is run by the owner as
// soon as it is; a later call replaces f.
func (st *stream) idle(f func()) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.busy {
		st.onIdle = f
	}
	return !st.busy
}

// take gives the sender what to write next, or what to tell the owner now that
// there is nothing.
func (st *stream) take() (out []outgoing, onIdle func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	out, st.queue = st.queue, nil
	if len(out) == 0 {
		st.busy = false
		onIdle, st.onIdle = st.onIdle, nil
	}
	return out, onIdle
}

// send writes queued requests until the stream ends.
func (st *stream) send(cs grpc.ClientStream) {
	defer st.panics.Catch(logs.PartUpstream, func(e *logs.PanicError) { st.abort(e) })
	for {
		out, onIdle := st.take()
		if onIdle != nil {
			st.tell(onIdle)
		}
		for _, o := range out {
			if o.req == nil {
				// A half-close fails only where the stream is over, of which Recv tells.
				_ = cs.CloseSend()
				return
			}
			if err := cs.SendMsg(o.req); err != nil {
				// EOF only says that the stream is over, and Recv knows why. Anything
				// else is known here only: have Recv say it.
				if !errors.Is(err, io.EOF) {
					st.abort(err)
				}
				return
			}
			st.sent(o.req.GetTypeUrl(), o.kind)
		}
		if len(out) > 0 {
			continue
		}
		select {
		case <-st.wake:
		case <-st.ctx.Done():
			return
		}
	}
}
