package downstream

import (
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	errManyStreams = status.Error(codes.Unavailable, "the relay has as many streams as limits.streams allows: try again later, or another replica")
	errShare       = status.Error(codes.Unavailable, "less than a tenth of limits.streams is free, and this client's address or identity has its share (limits.share): try again later, or another replica")
)

// places are those of streams and held polls.
func (l *ClientLimits) places() quota.Limit { return quota.Limit{Most: l.Streams, Share: l.Share} }

// turnedAway returns the limit for which a stream or poll has no place, and the status that it gets; nil if
// it has one.
func turnedAway(v quota.Result) (Limit, error) {
	switch v {
	case quota.Full:
		return LimitStreams, errManyStreams
	case quota.Shared:
		return LimitShare, errShare
	}
	return "", nil
}
