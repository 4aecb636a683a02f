package downstream

import (
	"cmp"
	"time"
)

// Limits are what of a Config may change while the server runs.
type Limits struct {
	MaxMessageSize   int           // bytes; responses are split below it (RES-9)
	MaxSubscriptions int           // of one stream, over all types (OPS-5); 0: no limit
	AckWait          time.Duration // how long a type's next response waits for the ACK of the last (ADS-2)
	RemovalWait      time.Duration // how long removals of clusters and endpoints wait (ADS-4); 0: they do not
	WarmWait         time.Duration // how long listeners and routes wait for new clusters' endpoints (WARM-4); 0: they do not
	ListHold         time.Duration // how long a list waits for what the relay cannot know at the moment (ABS-3)
	RESTWait         time.Duration // how long a poll is held (REST-1); 0: it is answered at once
}

// SetLimits replaces the limits: for streams from their next request and their next
// response on, for polls from the next one. A stream that has more subscriptions than
// there may be keeps them, and gets no more. It may be called from any goroutine.
func (s *Server) SetLimits(l Limits) {
	l.MaxMessageSize = cmp.Or(l.MaxMessageSize, DefaultMaxMessageSize)
	l.AckWait = cmp.Or(l.AckWait, DefaultAckWait)
	s.limits.Store(&l)
}
