package upstream

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// maxRejected is how many times in a row a server may end the second stream at once before
// the relay opens none any more.
const maxRejected = 2

// A type that is wanted both as a whole and by name needs two streams (SUB-12). A server
// that takes one stream only from a node ends the other with a status, while one stands.
// Then the first carries everything, as long as the session stays with the endpoint
// (SUB-14).

// rejectsSecond reports whether the end of a stream shows that the server takes no second
// one. It does not if the server may refuse a type: that has to be found out first.
func (c *grpcClient) rejectsSecond(k *streamLink, cause error) bool {
	l := k.line
	if !l.open || l.established || !refusedBy(cause) || !c.good(beside(l.id)) {
		return false
	}
	for typeURL := range k.asked {
		if !c.besides.answered.Contains(typeURL) && !c.cfg.APIType.PerType() {
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
func (c *grpcClient) good(id wire.StreamID) bool {
	l := c.remote.line(id)
	return l != nil && l.serving() && l.established
}

// mergeStreams has the first stream carry the subscriptions of the second.
func (c *grpcClient) mergeStreams(l *line, err *ConnectionError) {
	l.end(err.Reason)
	l.welcome() // the other stream serves the type
	c.report.log.Warn("server refuses a second stream: asking for everything and for names on one",
		"stream", l.id, "endpoint", err.Endpoint, "error", detail(err.Err))
	c.single[l.id.TypeURL] = c.remote.failback.replica
	if !l.id.Second { // the server took the second one before it
		c.remote.line(beside(l.id)).end(ReasonResubscribe)
		l.rejected = 0
		l.at = time.Now().Add(l.backoff.Next())
	}
	c.store.OneStream(wire.StreamID{TypeURL: l.id.TypeURL}, true)
}

// allowSecond forgets that a server refuses a second stream where the first one is about to
// go to another endpoint.
func (c *grpcClient) allowSecond(l *line) {
	if at, one := c.single[l.id.TypeURL]; one && !l.id.Second && at != l.replica {
		delete(c.single, l.id.TypeURL)
		c.store.OneStream(l.id, false)
	}
}
