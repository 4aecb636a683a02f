package delivery

// Outage reports whether nothing can be served to a client, and why: it subscribes to
// something, nothing of that is known, and no control plane can be reached (ABS-2). places are
// the client's, in all stores.
func Outage(places []*Place) (cause string, ok bool) {
	for _, c := range places {
		if c.store.OutageError() == nil {
			return "", false
		}
	}
	for _, c := range places {
		if why, waits := c.outage(); why != "" {
			cause, ok = why, true
		} else if waits {
			return "", false
		}
	}
	return cause, ok
}

// outage returns why nothing can be served here, or "". waits is true if something can be
// served or may come.
func (c *Place) outage() (cause string, waits bool) {
	c.store.View(func() { cause, waits = c.findOutage() })
	return cause, waits
}

// findOutage does so. The caller holds the store's lock for reading.
func (c *Place) findOutage() (cause string, waits bool) {
	err := c.store.OutageError()
	if err == nil {
		return "", true
	}
	for _, w := range c.types {
		switch {
		case w.subs.idle():
		case w.subs.anyKnown():
			return "", true
		default:
			cause = err.Message
		}
	}
	return cause, false
}
