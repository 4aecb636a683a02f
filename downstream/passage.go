package downstream

import (
	"cmp"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Passage serves streams of discovery services 1:1: each has a stream of its own to its control plane, and
// nothing of the cache. Its methods may be called from any goroutine.
type Passage interface {
	// On reports whether any stream may be served 1:1 now.
	On() bool
	// Serve is given a stream of which nothing was read. If it is not served 1:1, first is its first request,
	// and somebody else is to serve it. Else the stream has ended, and the error is its status.
	Serve(t *Through) (first wire.Raw, err error)
	// Takes reports whether a stream that the cache serves is to be served 1:1 now, of a client with these
	// routes. typeURL is the first type that it asked for, and service is Through.TypeURL.
	Takes(routes Routes, typeURL, service string) bool
}

// PassBy has p serve streams that it takes. It is to be called before Serve.
func (s *Server) PassBy(p Passage) { s.shared.passage = p }

// errPassed has a client come again, and be served 1:1.
var errPassed = Moved("the client is served 1:1 from now on: connect again")

// Through is a stream for a Passage. It has a place among the streams, and ends without a first request.
type Through struct {
	grpc.ServerStream

	Method  string // as gRPC clients name it
	State   bool   // its messages are those of the state of the world
	TypeURL string // of the stream's service, of v3; "": it is aggregated

	server   *Server
	variant  *variant
	standing standing
	pace     retry.Pace
}

// Belongs returns the type by which a stream is routed whose first request names a type.
func (t *Through) Belongs(named string) string { return cmp.Or(named, t.variant.service.TypeURL) }

// Large reports whether a node is too large to be decoded (LIM-1).
func (t *Through) Large(nodeBytes int) bool {
	return t.server.shared.limits.Load().large(nodeBytes) != nil
}

// Join is Admission.Join for the client.
func (t *Through) Join() (Turn, error) {
	a := t.server.shared.admission
	if a == nil {
		return nothing{}, nil
	}
	peer := peerOf(t.Context())
	return a.Join(t.Context(), quota.ClientOf(&peer))
}

// nothing is a turn of one who need not wait.
type nothing struct{}

// Done implements Turn.
func (nothing) Done() {}

// Await charges a request, and waits until the next one may be read (LIM-1). It reports false if the stream ends
// before.
func (t *Through) Await() bool {
	s := t.server.shared
	wait := t.pace.Next(time.Since(t.standing.since), s.limits.Load().PerClient.RequestsPerSecond, requestBurst)
	if wait == 0 {
		return true
	}
	s.observer.Limited(LimitRequests)
	return retry.Sleep(t.Context(), wait)
}

// Present notes who the client says it is.
func (t *Through) Present(node, cluster string) {
	t.standing.edit(func() { t.standing.node, t.standing.cluster = clip(node), clip(cluster) })
}

// Status returns the stream for the admin port, without where it goes.
func (t *Through) Status() Status {
	t.standing.mu.Lock()
	defer t.standing.mu.Unlock()
	st := t.standing.statusLocked()
	st.Variant, st.Service, st.Types = t.variant.String(), t.variant.service.Name, map[string]TypeView{}
	return st
}

// Ended notes that a stream has ended that was served 1:1.
func (t *Through) Ended(st Status, err error) {
	x := Gone{Status: st, At: time.Now(), Why: WhyClient, Code: status.Code(err).String()}
	if err != nil {
		x.Reason = logs.Head(status.Convert(err).Message(), maxShown)
	}
	switch status.Code(err) { //nolint:exhaustive // the others come from the control plane
	case codes.OK, codes.Canceled:
	case codes.PermissionDenied, codes.ResourceExhausted, codes.InvalidArgument, codes.FailedPrecondition:
		x.Why = WhyRefused
	default:
		x.Why = WhyUnserved
	}
	switch {
	case isMoved(err):
		x.Why = WhyMoved
	case err == ErrRetired: //nolint:errorlint // the very error
		x.Why = WhyAge
	case err == ErrDraining, isClosed(t.server.closing.stopped): //nolint:errorlint // the very error
		x.Why = WhyDrain
	}
	t.server.gone.add(x)
}

// enter lets a stream in. It gives the stream that the cache is to serve; nil: the stream has ended. It has returned when
// that begins: a stream at rest has nothing of it on its stack.
//
//go:noinline
func (s *Server) enter(g grpc.ServerStream, v *variant) (grpc.ServerStream, error) {
	g, may, err := s.pass(g)
	if err != nil {
		return nil, err
	}
	if p := s.shared.passage; p != nil && p.On() {
		return s.through(g, may, v)
	}
	return g, nil
}

// through serves a stream 1:1. If it is not served so, rest is the stream with everything that is to be read of it.
func (s *Server) through(g grpc.ServerStream, may *row, v *variant) (rest grpc.ServerStream, err error) {
	err = s.call(g, may, func(c grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(g)
		id := s.shared.lastID.Add(1)
		first, err := s.shared.passage.Serve(&Through{
			ServerStream: c, Method: method, State: v.form == stateForm,
			TypeURL: v.service.V3Type(), server: s, variant: v,
			standing: standing{id: id, peer: peerOf(g.Context()), since: time.Now()},
		})
		if first != nil {
			rest = &resumed{ServerStream: g, codec: s.shared.codec, first: first}
		}
		return err
	})
	return rest, err
}

// resumed is a stream whose first message was read.
type resumed struct {
	grpc.ServerStream

	codec encoding.CodecV2
	first wire.Raw // nil: it was taken
}

// RecvMsg implements grpc.ServerStream.
func (g *resumed) RecvMsg(m any) error {
	first := g.first
	if first == nil {
		return g.ServerStream.RecvMsg(m)
	}
	g.first = nil
	return decodeMessage(g.codec, mem.BufferSlice{mem.SliceBuffer(first)}, m)
}

// passes reports whether a stream is to be served 1:1 by the routes of a new plan.
func (st *stream) passes(next Routes) bool {
	p := st.shared.passage
	if p == nil || len(st.types.list) == 0 {
		return false
	}
	return p.Takes(next, st.types.list[0].url, st.variant.service.V3Type())
}
