package cache

// lost is a resource that was not kept (TTL-5), and that a client which can do ttl has
// dropped by itself: its heartbeat came, and was not sent before the content had run out
// by what the client was told. A heartbeat does not bring the content back (TTL-3), and
// there is none here: the server is asked again, as for a subscription that comes later.
type lost struct {
	sub    *nameSub // it is subscribed to by name; or
	cursor *cursor  // it is a member
	entry  *entry
}

// hasContent reports whether the content of an entry can be sent to the client: it is
// kept, or lists keep it.
func (w *watch) hasContent(e *entry) bool {
	return e.state == present || (w.full && e.listed() != nil)
}

// loses notes that a heartbeat comes too late, where the content cannot be sent in its
// place, and reports whether that is so. The pass changes nothing but its own client;
// the server is asked when it is over.
func (w *watch) loses(l lost, late bool) bool {
	if !late || w.hasContent(l.entry) {
		return false
	}
	w.losses = append(w.losses, l)
	return true
}

// regain has the server asked for what the pass that ended found lost. The caller holds
// no lock: something else may have come since, and that goes out by itself.
func (c *Client) regain() {
	for _, w := range c.watches {
		if len(w.losses) == 0 {
			continue
		}
		c.store.mu.Lock()
		for _, l := range w.losses {
			switch e := l.entry; {
			case e.state != relayed:
			case l.sub != nil:
				c.store.table(w.typeURL, byName).lack(l.sub)
			case e.coll == l.cursor.coll:
				w.answer(Name{Spelling: l.cursor.spell(e), Key: e.key})
			}
		}
		w.losses = nil
		c.store.mu.Unlock()
	}
}
