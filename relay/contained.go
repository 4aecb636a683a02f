package relay

import (
	"net"
	"net/http"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/relay/admin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// contained keeps a panic in a TLS handshake to its connection.
type contained struct {
	credentials.TransportCredentials

	panics *logs.Panics
}

// ServerHandshake implements credentials.TransportCredentials.
func (c contained) ServerHandshake(raw net.Conn) (conn net.Conn, info credentials.AuthInfo, err error) {
	defer c.panics.Catch(logs.PartClient, func(e *logs.PanicError) { conn, info, err = nil, nil, e })
	return c.TransportCredentials.ServerHandshake(raw)
}

// Clone implements credentials.TransportCredentials.
func (c contained) Clone() credentials.TransportCredentials {
	return contained{c.TransportCredentials.Clone(), c.panics}
}

// unknown answers calls of methods that the relay does not have.
func (r *Relay) unknown(server any, g grpc.ServerStream) (err error) {
	defer r.panics.Catch(logs.PartClient, func(e *logs.PanicError) { err = status.Error(codes.Internal, e.Error()) })
	return r.refusals.Unknown(server, g)
}

// contain keeps a panic in a call of the admin port's gRPC service to that.
func (a adminPort) contain(f func() error) (err error) {
	defer a.relay.panics.Catch(logs.PartAdmin, func(e *logs.PanicError) { err = status.Error(codes.Internal, e.Error()) })
	return f()
}

// containing keeps a panic in a page of the admin port to its request.
func (a adminPort) containing(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer a.relay.panics.Catch(logs.PartAdmin, func(e *logs.PanicError) { admin.Text(w, http.StatusInternalServerError, e.Error()+"\n") })
		pages.ServeHTTP(w, req)
	})
}
