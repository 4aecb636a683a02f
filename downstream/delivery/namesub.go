package delivery

import (
	"github.com/xdsrelay/xdsrelay/cache"
)

// makeDue has the next Collect look at the subscription.
func (n *nameSub) makeDue() {
	if !n.dirty {
		n.dirty = true
		n.typeSub.changed.add(n)
	}
}

// delivered records that nothing is due any more.
func (n *nameSub) delivered() {
	n.dirty, n.pushed, n.heartbeat, n.absenceDue, n.withheld = false, false, false, false, false
}

// push makes a change known to the subscription's client.
func (n *nameSub) push() {
	if n.dirty && n.pushed {
		n.typeSub.changed.merged++
	}
	n.makeDue()
	n.pushed, n.heartbeat = true, false
	n.typeSub.ring()
}

// renew makes a heartbeat due for the subscription's client, unless the client is sent the
// content anyway.
func (n *nameSub) renew() {
	if n.dirty {
		n.missedHeartbeat = n.heartbeat
		return
	}
	n.makeDue()
	n.heartbeat, n.missedHeartbeat = true, false
	n.typeSub.ring()
}

// repeat makes the content due again.
func (n *nameSub) repeat() {
	n.makeDue()
	n.heartbeat = false
	n.typeSub.ring()
}

// takesAway reports whether a removal is due of something that the client may hold, rather than
// the first word that there is nothing (RES-6).
func (n *nameSub) takesAway() bool { return n.holds && !n.exists() && !n.stays() }

// goesAtOnce reports whether a removal waits for nothing: access was withdrawn, or a ttl ran out. Clusters and
// endpoints wait all the same (ADS-5).
func (n *nameSub) goesAtOnce() bool {
	return !n.typeSub.rank.Waits() && (n.expired || n.denied())
}

// stays reports whether the client keeps what it may hold, from the stream before or by "*":
// the server only sent an error for the name, and the error leaves open what became of it
// (ERR-1).
func (n *nameSub) stays() bool { return n.entry.Open() && !n.absenceDue }

// known reports whether the server answered the name.
func (n *nameSub) known() bool { return n.entry.State() != cache.Unknown }

// sentName returns the name under which the client is sent the content: that of another resource
// for an alias (RES-10).
func (n *nameSub) sentName() string {
	if n.entry.Marks().Alias && !n.typeSub.place.reads() {
		return n.entry.ServedName()
	}
	return n.spelling
}

// staysListed reports whether a list goes on holding the name although it was removed: the
// removal came after a number.
func (n *nameSub) staysListed(after uint64) bool {
	return n.takesAway() && n.retained != nil && n.entry.Changed() > after
}

// denied reports whether a name leads to a resource that the client may not have. To the client
// the name does not exist.
func (n *nameSub) denied() bool {
	g := n.typeSub.subs.screen
	return g != nil && n.entry.Exists() && !g.allows(Content, n.spelling, n.entry.ServedName())
}

// exists reports whether the name stands for a resource that the client may have.
func (n *nameSub) exists() bool { return n.entry.Exists() && !n.denied() }

// knowsAbsent reports whether a client was told that there is no such resource, and something
// changed since that it may not know of: it is not told again.
func (n *nameSub) knowsAbsent() bool {
	return n.typeSub.subs.screen != nil && n.pushed && n.toldAbsent
}
