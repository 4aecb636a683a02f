package cache

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// nameSub is one client's subscription to one name.
type nameSub struct {
	watch    *watch
	entry    *entry
	pos      int // in entry.subs
	spelling string
	response uint32 // that the client was sent the content in; see flight

	dirty           bool // in watch.dirty
	pushed          bool // dirty because of a change, not of a subscription
	heartbeat       bool // dirty because of a heartbeat alone (TTL-3)
	missedHeartbeat bool // heartbeat, and the client was not told of the one before either
	askedAgain      bool // the content was not kept for the client, and the server is asked again (TTL-5)
	holds           bool // the client may have the resource
	denied          bool // it went away, or the server said that there is none, and the client was not told
	ended           bool

	retained *wire.Resource // what it was before it was removed, while lists may hold it (ADS-1)
}

// makeDue has the next pass look at the subscription.
func (n *nameSub) makeDue() {
	if !n.dirty {
		n.dirty = true
		n.watch.dirty = append(n.watch.dirty, n)
	}
}

// push makes a change known to the subscription's client.
func (n *nameSub) push() {
	if n.dirty && n.pushed {
		n.watch.merged++
	}
	n.makeDue()
	n.pushed, n.heartbeat, n.askedAgain = true, false, false
	n.watch.client.store.wake(n.watch)
}

// renew makes a heartbeat due for the subscription's client, unless the client is sent the
// content anyway.
func (n *nameSub) renew() {
	if n.dirty || n.askedAgain {
		n.missedHeartbeat = n.heartbeat
		return
	}
	n.makeDue()
	n.heartbeat, n.missedHeartbeat = true, false
	n.watch.client.store.wake(n.watch)
}

// repeat makes the content due again.
func (n *nameSub) repeat() {
	if n.askedAgain {
		return
	}
	n.makeDue()
	n.heartbeat = false
	n.watch.client.store.wake(n.watch)
}

// dropsByItself reports whether the subscription's client removes the expired resource
// without a word, and records that: the client can do TTL, was sent all that the relay
// knew, did not reject it, and waits for no answer. content is the number of the change
// that brought the content.
func (n *nameSub) dropsByItself(content uint64) bool {
	if !n.watch.client.form.TTL || !n.holds || n.dirty || n.askedAgain {
		return false
	}
	if n.watch.refused || n.watch.lacksChange(n.entry, content) {
		return false
	}
	n.holds, n.retained = false, nil
	return true
}

// ofClient tells a client's subscription from the relay's own (Store.Read), which leads
// nobody further.
func (n *nameSub) ofClient() bool { return !n.watch.client.reads() }

// usesSums reports whether the subscription's client is shown sums as versions (ACK-4).
func (n *nameSub) usesSums() bool { return n.watch.client.form.State }

// resum replaces the entry's part of the sum of what the client names.
func (n *nameSub) resum(was, is digest.Sum) { n.watch.sum = n.watch.sum.Minus(was).Plus(is) }

// end takes the subscription off its entry.
func (n *nameSub) end() {
	e := n.entry
	t := n.watch.client.store.tables[tableKey{n.watch.typeURL, byName}]
	t.watchers--
	if w := n.watch; w.client.form.State {
		t.digests.use(-1, t.entries)
		w.sum = w.sum.Minus(e.sum)
	}
	n.ended, n.retained = true, nil
	n.watch.handedOver.drop(n)
	n.watch.errors.drop(n)
	if n.dirty {
		n.watch.clean()
	}
	last := len(e.subs) - 1
	e.subs[n.pos] = e.subs[last]
	e.subs[n.pos].pos = n.pos
	e.subs[last] = nil
	e.own().subs = e.subs[:last]
	t.dropTransient(e)
	t.references.usersChanged(e)
	if last > 0 {
		return
	}
	e.own().subs = nil
	e.tidy()
	if e.pinned {
		return
	}
	if e.interest != nil {
		e.interest.release()
	}
	t.forgetUnused(e)
}

// minClean is the number of ended subscriptions in watch.dirty below which nobody
// takes them out.
const minClean = 32

// clean counts one more ended subscription among the dirty ones, and takes them
// out once they are the most: a client that subscribes and unsubscribes without
// ever reading must not pile them up.
func (w *watch) clean() {
	w.ended++
	if w.ended < minClean || w.ended <= len(w.dirty)/2 {
		return
	}
	w.dirty = slices.DeleteFunc(w.dirty, func(n *nameSub) bool { return n.ended })
	w.ended = 0
}
