package cache

import (
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// brokenOff is what a relay is told of a collection of which the server sent a part.
var brokenOff = &wire.ResourceError{
	Code: codes.Unavailable, Message: "the control plane has not sent the whole collection yet",
}

// breakOff records that a stream broke in the middle of the first answer for a collection, and
// rings the relays that were sent a part. A relay would take the silence that follows for the end
// of the answer, and remove the rest from its own clients (RES-2). The caller has the stream's
// quiet times still.
func breakOff(c *Collection) {
	if c.table.store.source.State || c.quiet.synced || c.quiet.answered.IsZero() {
		return
	}
	if c.quiet.breaks++; c.quiet.breaks == 0 {
		c.quiet.breaks = 1
	}
	for _, f := range c.followers {
		if f.needs.Has(NeedsBreaks) {
			c.table.store.journal.ringType(f.bell)
		}
	}
}

// BrokenOff returns how often the server's answer for a collection broke off, and the error that
// relays are told of it. Once the collection is complete it is 0, and nil.
func BrokenOff(c *Collection) (times uint16, err *wire.ResourceError) {
	if c.quiet.breaks == 0 {
		return 0, nil
	}
	return c.quiet.breaks, brokenOff
}
