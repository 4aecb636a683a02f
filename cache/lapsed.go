package cache

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
			case e.state != transient:
			case l.sub != nil:
				c.store.table(w.typeURL, byName).askFor(l.sub)
			case e.coll == l.cursor.coll:
				w.answer(Name{Spelling: l.cursor.spell(e), Key: e.key})
			}
		}
		w.renewals.lapsed = nil
		c.store.mu.Unlock()
	}
}
