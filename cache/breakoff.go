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
// of the answer, and remove the rest from its own clients (RES-2). In the state of the world, too, a server may
// answer in parts, but for "*" of a full-state type: that is synced by its first answer. The caller has the
// stream's quiet times still.
func (c *Collection) breakOff() {
	if c.quiet.synced || c.quiet.answered.IsZero() {
		return
	}
	c.haveParts()
}

// haveParts records that relays are sent a part of a collection, after which the server does not go on, and
// rings them.
func (c *Collection) haveParts() {
	if c.quiet.breaks++; c.quiet.breaks == 0 {
		c.quiet.breaks = 1
	}
	c.ringRelays()
}

func (c *Collection) ringRelays() {
	for _, f := range c.followers {
		if f.needs.Has(NeedsBreaks) {
			c.table.store.journal.ringType(f.bell)
		}
	}
}

// holdsPart records that a collection has restored members, and maybe not all: to relays that is like an answer that
// broke off.
func (c *Collection) holdsPart() {
	if !c.hasWhole() && c.log.live.len > 0 && c.quiet.breaks == 0 {
		c.quiet.breaks = 1
		c.ringRelays()
	}
}

// BrokenOff returns how often the server's answer for a collection broke off, once more if it began with members
// that have names of their own, or with a part from a disk, and each time that a peer gave a part, and the error that
// relays are told of it. Once the collection is complete it is 0, and nil.
func (c *Collection) BrokenOff() (times uint16, err *wire.ResourceError) {
	if c.quiet.breaks == 0 {
		return 0, nil
	}
	return c.quiet.breaks, brokenOff
}
