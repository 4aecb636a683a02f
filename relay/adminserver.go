package relay

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/relay/admin"
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
	// adminConnections is how many there are at most, and adminOfAddress how many of them one address has.
	adminConnections = 64
	adminOfAddress   = 16
	// adminHeaderBytes is what the headers of a request have at most. A token may have half of it.
	adminHeaderBytes = 32 << 10
	// adminStreams is how many requests a connection may have at a time, over HTTP/2.
	adminStreams = 16
)

// newAdminServer gives an HTTP server of the admin port, or of that for peers, whose clients take its connections and its memory for a bounded time only.
func newAdminServer(port string, pages http.Handler, log *slog.Logger) *http.Server {
	c := &adminConns{log: log.With("port", port), since: make(map[net.Conn]time.Time)}
	protocols := new(http.Protocols) // gRPC needs HTTP/2: admin.Pages has a service
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: inTime(pages), ReadHeaderTimeout: adminHeaderTime, MaxHeaderBytes: adminHeaderBytes, IdleTimeout: adminIdleTime, ConnState: c.changed,
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

// inTurn has half of the processors work on pages at a time: the rest is for clients. It is for requests of operators that may ask:
// an answer to anybody else may take a pause.
func inTurn(next http.Handler) http.Handler {
	turns := make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if isProbe(req) || waits(req) {
			next.ServeHTTP(w, req)
			return
		}
		turns <- struct{}{}
		defer func() { <-turns }()
		next.ServeHTTP(adminTurn{w, turns}, req)
	})
}

// adminTurn is an answer that gives up its turn while it waits for the client to read.
type adminTurn struct {
	http.ResponseWriter

	turns chan struct{}
}

// Write implements http.ResponseWriter.
func (a adminTurn) Write(b []byte) (int, error) {
	<-a.turns
	defer func() { a.turns <- struct{}{} }()
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a adminTurn) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// adminAnswer gives each piece of an answer the same time.
type adminAnswer struct {
	http.ResponseWriter

	conn *http.ResponseController
}

// waits reports whether a request is answered over time: a profile, events, a check, of which there is one, or a stream of gRPC.
func waits(req *http.Request) bool {
	return req.URL.Path == "/check" || req.URL.Path == "/events" || strings.HasPrefix(req.URL.Path, "/debug/pprof/") || admin.IsStatus(req)
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

// adminConns bounds the connections of such a port. Every client is served, so that nobody keeps probes out by connecting
// only: the connection makes room that has waited longest for a request. Of an address that has too many it is one of its own.
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
		leaves = a.add(c)
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
	a.log.Warn("a port, or one address there, has as many connections as it may have, and the relay closes one",
		"peer", leaves.RemoteAddr().String(), "connections", adminConnections, "of_address", adminOfAddress)
	if t, ok := leaves.(*tls.Conn); ok { // whose Close writes, and may wait for the client
		leaves = t.NetConn()
	}
	_ = leaves.Close() // an error says that it is closed
}

// add adds a connection, and gives the one that makes room for it: the one that has waited longest; the new one, if all others have
// requests. The caller holds mu.
func (a *adminConns) add(c net.Conn) (leaves net.Conn) {
	a.since[c] = time.Now()
	all, address := 0, addressOfConn(c)
	for other, since := range a.since {
		if address == "" || addressOfConn(other) != address {
			continue
		}
		all++
		if !since.IsZero() && (leaves == nil || since.Before(a.since[leaves])) {
			leaves = other
		}
	}
	switch {
	case all > adminOfAddress:
	case len(a.since) > adminConnections:
		leaves = nil
		for other, since := range a.since {
			if !since.IsZero() && (leaves == nil || since.Before(a.since[leaves])) {
				leaves = other
			}
		}
	default:
		return nil
	}
	delete(a.since, leaves)
	return leaves
}

// addressOfConn is where a connection comes from. All addresses of the loopback interface are one, and "" is that of a socket that has none.
func addressOfConn(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip.IsLoopback() {
		return "loopback"
	}
	return host
}
