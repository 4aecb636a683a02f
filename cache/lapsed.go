package cache

// lapsed is a resource that was not kept (TTL-5), and that a client which can do TTL has
// dropped by itself: its heartbeat was not sent before the TTL that the client was told ran
// out. A heartbeat does not bring the content back (TTL-3), and the relay has no content to
// send. It asks the server again, as for a subscription that comes later.
type lapsed struct {
	sub    *nameSub // the client subscribes to it by name; or
	cursor *cursor  // it is a member
	entry  *entry
}

// hasContent reports whether the relay has content of an entry to send to the client: kept
// content, or what lists keep.
func (w *watch) hasContent(e *entry) bool {
	return e.state == present || (w.full && e.listed() != nil)
}

// lapses reports whether a heartbeat comes too late and there is no content to send in its
// place. It records that: a pass changes nothing but its own client, and the server is
// asked after the pass.
func (w *watch) lapses(l lapsed, late bool) bool {
	if !late || w.hasContent(l.entry) {
		return false
	}
	w.renewals.lapsed = append(w.renewals.lapsed, l)
	return true
}

// askForLapsed has the server asked for what the pass that ended found lapsed. The caller
// holds no lock: newer content may have come since, and that goes out by itself.
func (c *Client) askForLapsed() {
	for _, w := range c.watches {
		if len(w.renewals.lapsed) == 0 {
			continue
		}
		c.store.mu.Lock()
		for _, l := range w.renewals.lapsed {
			switch e := l.entry; {
			case e.state != relayed:
			case l.sub != nil:
				c.store.table(w.typeURL, byName).lack(l.sub)
			case e.coll == l.cursor.coll:
				w.answer(Name{Spelling: l.cursor.spell(e), Key: e.key})
			}
		}
		w.renewals.lapsed = nil
		c.store.mu.Unlock()
	}
}
