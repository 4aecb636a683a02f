package delivery

import (
	"cmp"

	"github.com/xdsrelay/xdsrelay/cache"
)

// Verdict is what becomes of a client that was sent nothing yet (ABS-2).
type Verdict int

// The verdicts.
const (
	Served   Verdict = iota // something can be served, or may come
	Unserved                // it asks for something, nothing of that is known, and no control plane can be reached
	Open                    // the same, but a store does not tell the client yet (cache.Store.Outage)
)

// Outage judges a client, and says why it cannot be served. places are the client's, in all stores.
//
// While the verdict is open the client is to be sent nothing. One store may have errors for it
// already, and after a response its stream could not end any more when the other store tells.
func Outage(places []*Place) (cause string, v Verdict) {
	for _, c := range places { // without a lock: mostly there is no outage
		if err, _ := c.store.Outage(); err == nil {
			return "", Served
		}
	}
	v = Unserved
	for _, c := range places {
		why, its := c.outage()
		switch its {
		case Served:
			return "", Served
		case Open:
			v = Open
		case Unserved:
		}
		cause = cmp.Or(why, cause)
	}
	switch {
	case cause == "":
		return "", Served
	case v == Open:
		return "", Open
	}
	return cause, v
}

// outage returns why nothing can be served here; "" if the client asks for nothing.
func (c *Place) outage() (cause string, v Verdict) {
	c.store.View(func() { cause, v = c.findOutage() })
	return cause, v
}

// findOutage does so. The next change rings again: a client for which the verdict is open collects
// nothing. The caller holds the store's lock for reading.
func (c *Place) findOutage() (cause string, v Verdict) {
	c.bell.Arm()
	err, told := c.store.Outage()
	if err == nil {
		return "", Served
	}
	v = Unserved
	for _, w := range c.types {
		w.bell.Arm(false)
		switch {
		case w.subs.idle():
			continue
		case w.subs.anyKnown():
			return "", Served
		case !told && w.subs.untold(c.store.Peers()):
			v = Open
		}
		cause = err.Message
	}
	return cause, v
}

// untold reports whether the client is not told of an outage yet for something that it subscribes to.
func (s *subscribed) untold(peers cache.Peers) bool {
	return s.names.has(func(n *nameSub) bool { return peers.Await(n.entry) }) ||
		s.hasFollower(func(f *follower) bool { return peers.Await(f.Collection()) })
}
