package relay

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// adminHeaderTime is how long the headers of a request may take, and adminBodyTime the whole of it.
	adminHeaderTime = 10 * time.Second
	adminBodyTime   = time.Minute
	// adminWriteTime is how long a client may take to read a piece of an answer. How long the relay works on the answer does
	// not matter: profiles and checks take their time.
	adminWriteTime = 30 * time.Second
	adminPiece     = 64 << 10
	// adminIdleTime is how long a connection stays without a request. Prometheus asks every minute or more often.
	adminIdleTime = 2 * time.Minute
	// adminConnections is how many there are at most.
	adminConnections = 64
	// adminStreams is how many requests a connection may have at a time, over HTTP/2.
	adminStreams = 16
)

// newAdminServer gives an HTTP server whose clients take its connections and its memory for a bounded time only.
func newAdminServer(pages http.Handler, log *slog.Logger) *http.Server {
	c := &adminConns{log: log, since: make(map[net.Conn]time.Time)}
	protocols := new(http.Protocols) // gRPC needs HTTP/2: admin.Pages has a service
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: inTime(pages), ReadHeaderTimeout: adminHeaderTime, IdleTimeout: adminIdleTime, ConnState: c.changed,
		Protocols: protocols, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: adminStreams},
	}
}

// inTime bounds how long clients take to send their requests, and to read the answers.
func inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		a := adminAnswer{w, http.NewResponseController(w)}
		if req.ContentLength != 0 { // http.Server.ReadTimeout would end the context of a request without a body, too
			_ = a.conn.SetReadDeadline(time.Now().Add(adminBodyTime)) // a connection that is gone fails later
		}
		a.more()
		next.ServeHTTP(a, req)
	})
}

// adminAnswer gives each piece of an answer the same time.
type adminAnswer struct {
	http.ResponseWriter

	conn *http.ResponseController
}

func (a adminAnswer) more() { _ = a.conn.SetWriteDeadline(time.Now().Add(adminWriteTime)) }

// Write implements http.ResponseWriter.
func (a adminAnswer) Write(b []byte) (n int, err error) {
	for {
		a.more()
		done, err := a.ResponseWriter.Write(b[:min(len(b), adminPiece)])
		n, b = n+done, b[done:]
		if err != nil || len(b) == 0 {
			return n, err
		}
	}
}

// Flush implements http.Flusher, which gRPC needs.
func (a adminAnswer) Flush() { _ = a.conn.Flush() } // a connection that is gone fails later

// Unwrap is for http.ResponseController.
func (a adminAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// adminConns bounds the connections of the admin port. Whoever comes is served, so that nobody keeps probes out by connecting
// only: the connection makes room that has waited longest for a request.
type adminConns struct {
	log *slog.Logger

	mu    sync.Mutex
	since map[net.Conn]time.Time // since when connections wait for a request; zero: they have one
}

// changed is the http.Server's ConnState.
func (a *adminConns) changed(c net.Conn, state http.ConnState) {
	var leaves net.Conn
	a.mu.Lock()
	switch state {
	case http.StateNew:
		a.since[c] = time.Now()
		if len(a.since) > adminConnections {
			leaves = a.longest()
			delete(a.since, leaves)
		}
	case http.StateActive, http.StateIdle:
		if _, ok := a.since[c]; ok {
			a.since[c] = time.Time{}
			if state == http.StateIdle {
				a.since[c] = time.Now()
			}
		}
	case http.StateHijacked, http.StateClosed:
		delete(a.since, c)
	}
	a.mu.Unlock()
	if leaves == nil {
		return
	}
	a.log.Warn("the admin port has as many connections as it may have, and closes one", "peer", leaves.RemoteAddr().String(), "connections", adminConnections)
	if t, ok := leaves.(*tls.Conn); ok { // whose Close writes, and may wait for the client
		leaves = t.NetConn()
	}
	_ = leaves.Close() // an error says that it is closed
}

// longest is the connection that has waited longest: the new one, if all others have requests. The caller holds mu.
func (a *adminConns) longest() (longest net.Conn) {
	for c, since := range a.since {
		if !since.IsZero() && (longest == nil || since.Before(a.since[longest])) {
			longest = c
		}
	}
	return longest
}
