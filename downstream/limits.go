package downstream

import (
	"cmp"
	"time"
)

// Limits are what of a Config may change while the server runs.
type Limits struct {
	MaxMessageSize   int           // bytes; responses are split below it (RES-9)
	MaxSubscriptions int           // of one stream, over all types (OPS-5); 0: no limit
	AckTimeout       time.Duration // how long an outstanding ACK holds a type back
	RESTWait         time.Duration // how long a poll is held (REST-1); 0: it is answered at once
}

// SetLimits replaces the limits: for streams from their next request and their next
// response on, for polls from the next one. A stream that has more subscriptions than
// there may be keeps them, and gets no more. It may be called from any goroutine.
func (s *Server) SetLimits(l Limits) {
	l.MaxMessageSize = cmp.Or(l.MaxMessageSize, DefaultMaxMessageSize)
	l.AckTimeout = cmp.Or(l.AckTimeout, DefaultAckTimeout)
	s.limits.Store(&l)
}
