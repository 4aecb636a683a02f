package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of connections of clients that poll. What a poll may say and how long it is
// held is package downstream's business.
const (
	restHeaderTime  = 10 * time.Second
	restHeaderBytes = 64 << 10
	// restIdleTime is how long a connection may be without a poll: longer than
	// clients pause, so that they need not open one for each.
	restIdleTime = 5 * time.Minute
)

// ServeREST has Run serve clients that poll on rest, too (VAR-5), and close it. It is
// to be called before Run.
func (r *Relay) ServeREST(rest net.Listener) { r.rest = rest }

// restServer makes the server for clients that poll.
func (r *Relay) restServer() *http.Server {
	s := &http.Server{
		Handler:           r.server.REST(),
		ReadHeaderTimeout: restHeaderTime, MaxHeaderBytes: restHeaderBytes, IdleTimeout: restIdleTime,
		// Both with and without TLS, HTTP/2 needs one connection for all types.
		Protocols: new(http.Protocols),
		ErrorLog:  slog.NewLogLogger(r.door.HTTPLog(), slog.LevelDebug),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	if r.tls != nil {
		s.TLSConfig = r.tls.HTTPConfig()
	}
	return s
}

// serveREST serves clients that poll until the server is closed.
func (r *Relay) serveREST(s *http.Server) error {
	var err error
	if s.TLSConfig != nil {
		err = s.ServeTLS(r.rest, "", "")
	} else {
		err = s.Serve(r.rest)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("REST port: %w", err)
}

// drainREST takes no new connections, and closes the present ones when their polls
// are answered; what is left of them when ctx ends is cut off (OPS-4).
func drainREST(ctx context.Context, wg *sync.WaitGroup, s *http.Server) {
	wg.Go(func() {
		if s.Shutdown(ctx) != nil {
			_ = s.Close() // their clients notice
		}
	})
}
