package upstream

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// maxRejected is how many times in a row a server may end the second stream at once before
// nobody asks it for one any more.
const maxRejected = 2

// A type that is wanted both as a whole and by name needs two streams (SUB-12). A server
// that takes one stream only from a node ends the other with a status, while one stands.
// Then the first carries everything, as long as the session stays with the endpoint
// (SUB-14).

// rejectsSecond reports whether the end of a stream shows that the server takes no second
// one. It does not if the server may mind a type: that has to be found out first.
func (s *Session) rejectsSecond(l *line, cause error) bool {
	if !l.open || l.established || !mayConcernTypes(cause) || !s.good(beside(l.id)) {
		return false
	}
	for typeURL := range l.asked {
		if _, proven := s.quarantine.proven[typeURL]; !proven && !s.up.cfg.APIType.PerType() {
			return false
		}
	}
	l.rejected++
	return l.rejected >= maxRejected
}

// beside is the other stream of the two.
func beside(id wire.StreamID) wire.StreamID {
	return wire.StreamID{TypeURL: id.TypeURL, Second: !id.Second}
}

// good reports whether a stream is open, and the server has answered on it or let it stand.
func (s *Session) good(id wire.StreamID) bool {
	l := s.line(id)
	return l != nil && l.open && l.established && !l.draining
}

// mergeStreams has the first stream carry what the second would.
func (s *Session) mergeStreams(l *line, err *ConnectionError) {
	s.end(l, err.Reason)
	if l.refused { // the other stream serves the type
		l.refused = false
		s.noteQuarantined(l.id.TypeURL, -1)
	}
	s.log.Warn("server refuses a second stream: asking for everything and for names on one",
		"stream", l.id, "endpoint", err.Endpoint, "error", detail(err.Err))
	s.single[l.id.TypeURL] = s.failback.endpoint
	if !l.id.Second { // the server took the second one before it
		s.end(s.line(beside(l.id)), ReasonResubscribe)
		l.rejected = 0
		l.at = time.Now().Add(l.backoff.Next())
	}
	s.store.OneStream(wire.StreamID{TypeURL: l.id.TypeURL}, true)
}

// allowSecond forgets that a server refuses a second stream where the first one is about to
// go to another endpoint.
func (s *Session) allowSecond(l *line) {
	if at, one := s.single[l.id.TypeURL]; one && !l.id.Second && at != s.failback.endpoint {
		delete(s.single, l.id.TypeURL)
		s.store.OneStream(l.id, false)
	}
}
