package downstream

import (
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// link is a stream's gRPC stream, and its end.
type link struct {
	grpc grpc.ServerStream
	end  atomic.Pointer[error] // why the stream ended; nil: it has not

	refused bool // of the owner: the client is turned away, with a status that others get too
}

// statusWriter ends a gRPC stream with a status. A handler does the same when it returns, but
// WriteStatus may be called from any goroutine. RecvMsg and SendMsg fail from then on. gRPC's
// transport streams have this method, although their public interface does not show it.
type statusWriter interface {
	WriteStatus(*status.Status) error
}

var errEnds = status.Error(codes.Internal, "this version of gRPC cannot end a stream while it is read")

// transport returns the transport stream, which can end the stream; nil if gRPC has changed.
func (l *link) transport() statusWriter { return transportOf(l.grpc) }

// transportOf returns the transport stream of a gRPC stream, nil if gRPC has changed.
func transportOf(g grpc.ServerStream) statusWriter {
	t, _ := grpc.ServerTransportStreamFromContext(g.Context()).(statusWriter)
	return t
}

// close ends the stream: the handler returns, and so does a sender that sends. It may be called
// from any goroutine. The first call decides the reason, which every call returns; nil is an
// end in good order.
func (l *link) close(reason error) error {
	if l.end.CompareAndSwap(nil, &reason) {
		// An error means that the connection has ended, and the stream with it.
		_ = l.transport().WriteStatus(status.Convert(reason))
	}
	return *l.end.Load()
}
