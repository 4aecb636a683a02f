package relay

import (
	"context"
	"crypto/tls"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// secure is the TLS side of the server towards clients: its files, and how long clients are who
// their certificates say.
type secure struct {
	*credentials.TLSServer

	relay *Relay
	watch *identity.Watch
}

// newSecure has the identities of clients looked at again.
func newSecure(r *Relay, files *credentials.TLSServer, recheck config.Duration) *secure {
	s := &secure{TLSServer: files, relay: r}
	s.watch = identity.NewWatch(files.Clients, recheck.Std(), s.endedAll)
	return s
}

// endedAll ends the streams of connections.
func (s *secure) endedAll(ended map[*identity.Conn]*identity.Error) {
	for c, err := range ended {
		s.ended(c.RemoteAddr(), &c.State, err)
	}
	why := func(ctx context.Context) error {
		if err, ok := ended[identity.Of(ctx)]; ok {
			return unauthenticated(err)
		}
		return nil
	}
	s.relay.server.End(why)
	s.relay.reports.End(why)
	s.relay.passage.End(why)
}

// judge judges the certificate of a client that polls. The error is a status.
func (s *secure) judge(from string, state *tls.ConnectionState) error {
	err := s.watch.Judge(state)
	if ended, ok := errors.AsType[*identity.Error](err); ok {
		s.ended(from, state, ended)
		return unauthenticated(ended)
	}
	return nil
}

// ended counts and logs a client whose certificate does not count any more.
func (s *secure) ended(from string, state *tls.ConnectionState, err *identity.Error) {
	var who keyer.Peer
	if len(state.VerifiedChains) > 0 {
		who = keyer.PeerFromCertificate(state.PeerCertificates[0])
	}
	s.relay.refusals.IdentityEnded(from, who.Identity(), string(err.Reason))
}

func unauthenticated(err error) error { return status.Error(codes.Unauthenticated, err.Error()) }
