package downstream

import (
	"context"
	"log/slog"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// turnAway logs that the relay refuses a client, or does not serve it any longer. The log bounds the lines (LIM-4).
func (s *shared) turnAway(ctx context.Context, what string, peer *keyer.Peer, node string, err error) {
	s.log.LogAttrs(ctx, slog.LevelInfo, what, slog.String("peer", peer.Addr), slog.String("identity", peer.Identity()), //nolint:sloglint // because callers pass constants
		slog.String("node", node), slog.String("code", status.Code(err).String()),
		slog.String("reason", logs.Head(status.Convert(err).Message(), maxShown)))
}

// refuses reports whether a status says that the client asks for what it is not served. That its own deadline passed does not
// say so.
func refuses(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.ResourceExhausted, codes.FailedPrecondition, codes.Unimplemented, codes.PermissionDenied:
		return true
	case codes.DeadlineExceeded:
		return err == errNoRequest //nolint:errorlint // the very error
	default:
		return false
	}
}

// farewell logs the end of a stream that the client did not choose.
func (st *stream) farewell(c *closing, err error) {
	ctx := st.link.grpc.Context()
	switch {
	case st.subscriber == nil && status.Code(err) == codes.PermissionDenied: // access.verify has a line of its own
	case refuses(err) || st.link.refused && err != nil:
		st.shared.turnAway(ctx, "the relay refuses a client", &st.standing.peer, st.standing.node, err)
	case st.cutOff(err) && !isClosed(c.drained) && !isClosed(c.stopped):
		st.shared.turnAway(ctx, "keepalive ended a client's connection: the client answers no pings, or sends too many", &st.standing.peer, st.standing.node, err)
	}
}

// farewellPoll logs that a poll is refused. Tokens and access.verify have lines of their own.
func farewellPoll(s *shared, c *closing, r *http.Request, a *answer) {
	switch a.code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusServiceUnavailable:
	default:
		return
	}
	if a.leave || isClosed(c.drained) {
		return
	}
	peer := identify(r.RemoteAddr, r.TLS, identity.CallerOf(r.Context()))
	s.turnAway(r.Context(), "the relay refuses a client", &peer, a.node, status.Error(a.grpcCode(), a.err.Error()))
}
