package relay

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/identity"
)

// Limits of connections of clients that poll. What a poll may say and how long it is
// held is package downstream's business.
const (
	restHeaderTime  = 10 * time.Second
	restHeaderBytes = 64 << 10
)

// restServer makes the server for clients that poll through a port.
func (r *Relay) restServer(p *port) *http.Server {
	s := &http.Server{
		Handler:           identity.Requests(r.ages.poll(p.tokens.poll(r.server.REST()))),
		ReadHeaderTimeout: restHeaderTime, MaxHeaderBytes: restHeaderBytes, IdleTimeout: idleTime,
		// Both with and without TLS, HTTP/2 needs one connection for all types.
		Protocols: new(http.Protocols),
		ErrorLog:  slog.NewLogLogger(r.refusals.HTTPLog(), slog.LevelDebug),

		ConnContext: identity.Context,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: r.perConn},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	if p.secure != nil {
		s.TLSConfig = p.secure.HTTPConfig()
	}
	return s
}

// serveREST serves clients that poll through a port until the server is closed.
func serveREST(s *http.Server, p *port) error {
	lis := p.Guard(p.rest)
	if s.TLSConfig != nil {
		lis = p.Secure(lis, s.TLSConfig)
	}
	if err := s.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// drain takes no new connections, and closes the present ones when their polls
// are answered; what is left of them when ctx ends is cut off (OPS-4).
func (s *serving) drain(ctx context.Context, wg *sync.WaitGroup) {
	for _, web := range s.polls {
		wg.Go(func() {
			if web.Shutdown(ctx) != nil {
				_ = web.Close() // their clients notice
			}
		})
	}
}
