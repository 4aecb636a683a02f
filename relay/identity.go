package relay

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/tlsfiles"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// secure is the TLS side of the server towards clients: its files, and how long clients are who
// their certificates say.
type secure struct {
	*tlsfiles.Server

	relay *Relay
	watch *identity.Watch
}

var _ downstream.Judge = (*secure)(nil)

// identify has the identities of clients looked at again.
func (r *Relay) identify(files *tlsfiles.Server, recheck config.Duration) *secure {
	return &secure{files, r, identity.NewWatch(files.ClientCAs, recheck.Std(), r.identitiesEnded)}
}

// identitiesEnded ends the streams of connections.
func (r *Relay) identitiesEnded(ended map[*identity.Conn]*identity.Error) {
	for c, err := range ended {
		r.identityEnded(c.RemoteAddr(), &c.State, err)
	}
	why := func(ctx context.Context) error {
		if err, ok := ended[identity.Of(ctx)]; ok {
			return unauthenticated(err)
		}
		return nil
	}
	r.server.End(why)
	r.reports.End(why)
}

// Judge implements downstream.Judge.
func (s *secure) Judge(from string, state *tls.ConnectionState) error {
	err := s.watch.Judge(state)
	if ended, ok := errors.AsType[*identity.Error](err); ok {
		s.relay.identityEnded(from, state, ended)
		return unauthenticated(ended)
	}
	return nil
}

// Recheck implements downstream.Judge.
func (s *secure) Recheck() time.Duration { return s.watch.Recheck() }

// identityEnded counts and logs a client whose certificate does not count any more.
func (r *Relay) identityEnded(from string, state *tls.ConnectionState, err *identity.Error) {
	var who keyer.Peer
	if len(state.VerifiedChains) > 0 {
		who = keyer.PeerFromCertificate(state.PeerCertificates[0])
	}
	r.door.IdentityEnded(from, cmp.Or(who.SPIFFE, who.Subject), string(err.Reason))
}

func unauthenticated(err error) error { return status.Error(codes.Unauthenticated, err.Error()) }
