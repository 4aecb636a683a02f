package delivery

import (
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/smallmap"
)

// ttlPosition is how much a client was told of the TTLs of a collection's members.
type ttlPosition struct {
	heartbeat uint64 // the last one that the client was sent, or that its content came after (TTL-3)
	removed   uint64 // the same of removed TTLs, in the state of the world (TTL-4)

	// expiryChecked is the last removal that was checked for a TTL that ran out.
	expiryChecked uint64
	// untoldExpiry has the keys of members whose TTL ran out unknown to the client. It must be
	// told of the removal.
	untoldExpiry map[string]bool
}

// newTTLPosition returns the position of a client that begins after the change and the
// heartbeat of these numbers.
func newTTLPosition(change, heartbeat uint64) ttlPosition {
	return ttlPosition{heartbeat: heartbeat, removed: heartbeat, expiryChecked: change}
}

// level records that the client has a list, with the TTL of everything in it.
func (p *ttlPosition) level(heartbeat uint64) { p.heartbeat, p.removed = heartbeat, heartbeat }

// owe records that the client has to be told of the removal of a member.
func (p *ttlPosition) owe(key string) {
	if p.untoldExpiry == nil {
		p.untoldExpiry = make(map[string]bool)
	}
	p.untoldExpiry[key] = true
}

// settle records that the client was told.
func (p *ttlPosition) settle(key string) {
	if p.untoldExpiry != nil {
		p.untoldExpiry = smallmap.Without(p.untoldExpiry, key)
	}
}

// inherit takes over what another position in the same collection owes its client.
func (p *ttlPosition) inherit(o *ttlPosition) {
	for key := range o.untoldExpiry {
		p.owe(key)
	}
}

// heartbeatsDue reports whether there are heartbeats that the client was not told of.
func (p *ttlPosition) heartbeatsDue(c *cache.Collection) bool {
	return c.Heartbeats().Last() > p.heartbeat
}

// liftDue reports whether the server removed a TTL that the client may know: the client needs
// the content without it (TTL-4).
func (p *ttlPosition) liftDue(c *cache.Collection) bool {
	return c.Heartbeats().LastLifted() > p.removed
}
