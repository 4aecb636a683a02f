package downstream

import (
	"errors"
	"iter"

	"github.com/xdsrelay/xdsrelay/internal/crowd"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	errManyStreams = status.Error(codes.Unavailable, "the relay has as many streams as limits.streams allows: try again later, or another replica")
	errShare       = status.Error(codes.Unavailable, "the relay is more than half full, and this client's address or identity has its share (limits.share): try again later, or another replica")
)

// Places are what all clients may have of something, and what part of it one address and one identity
// may have, once half of it is taken.
type Places = crowd.Limit

// ErrFull says that there is no place, and ErrShared that this client has its share of them.
var (
	ErrFull   = errors.New("all places are taken")
	ErrShared = errors.New("more than half of the places are taken, and this client's address or identity has its share")
)

// Origin is where a client comes from and who it is, as far as its share goes. The zero Origin is a client
// of which neither is known.
type Origin = crowd.Who

// OriginOf returns the origin of a client.
func OriginOf(p *keyer.Peer) Origin {
	return Origin{Address: crowd.AddressOf(p.Addr), Identity: p.Identity()}
}

// Crowd bounds what all clients have of something, one place each, and the share of one address and of one
// identity (LIM-1), as package crowd does. Its user has a lock for it. The zero Crowd is empty.
type Crowd struct{ crowd crowd.Crowd }

// Admit counts one place more, beside n that others have. The error is ErrFull or ErrShared.
func (c *Crowd) Admit(n int, others iter.Seq[Origin], who Origin, p Places) error {
	switch c.crowd.Admit(p, n, 1, who, func(yield func(Origin, int) bool) {
		others(func(other Origin) bool { return yield(other, 1) })
	}) {
	case crowd.Full:
		return ErrFull
	case crowd.Shared:
		return ErrShared
	}
	return nil
}

// Add counts one place more that is taken whatever the client's share is.
func (c *Crowd) Add(who Origin) { c.crowd.Add(who, 1) }

// Left counts one less: n are still taken. It forgets the counts when there is much room again.
func (c *Crowd) Left(n int, who Origin, p Places) { c.crowd.Release(p, n, 1, who) }

// places are those of streams and held polls.
func (l *ClientLimits) places() Places { return Places{Most: l.Streams, Share: l.Share} }

// turnedAway returns the limit for which a stream or poll has no place, and the status that it gets.
func turnedAway(err error) (Limit, error) {
	if errors.Is(err, ErrShared) {
		return LimitShare, errShare
	}
	return LimitStreams, errManyStreams
}
