package downstream

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// statusWriter ends a gRPC stream with a status, as returning from its handler does, but
// from any goroutine: reading and sending fail from then on. gRPC's transport streams have
// it, though their public interface does not say so.
type statusWriter interface {
	WriteStatus(*status.Status) error
}

var errEnds = status.Error(codes.Internal, "this version of gRPC cannot end a stream while it is read")

// end ends the stream: the reader returns, and whoever is sending. It may be called from any
// goroutine. Only the first reason counts, which it returns; nil is an end in good order.
func (st *stream) end(err error) error {
	st.mu.Lock()
	first := !st.ended
	if first {
		st.ended, st.failure = true, err
	}
	err = st.failure
	st.mu.Unlock()
	if first {
		// An error would say that the connection is gone, and the stream with it.
		_ = st.transport.WriteStatus(status.Convert(err))
	}
	return err
}

// transportOf gives what ends a stream.
func transportOf(g grpc.ServerStream) statusWriter {
	t, _ := grpc.ServerTransportStreamFromContext(g.Context()).(statusWriter)
	return t
}
