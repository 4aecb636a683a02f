package delivery

// Verdict is what becomes of a client that was sent nothing yet (ABS-2).
type Verdict int

// The verdicts.
const (
	Served   Verdict = iota // something can be served, or may come
	Unserved                // it asks for something, nothing of that is known, and no control plane can be reached
	Open                    // the same, but a store does not tell its clients yet (cache.Store.Outage)
)

// Outage judges a client, and says why it cannot be served. places are the client's, in all stores.
//
// While the verdict is open the client is to be sent nothing. One store may have errors for it
// already, and after a response its stream could not end any more when the other store tells.
func Outage(places []*Place) (cause string, v Verdict) {
	v = Unserved
	for _, c := range places { // without a lock: mostly there is no outage
		switch err, told := c.store.Outage(); {
		case err == nil:
			return "", Served
		case !told:
			v = Open
		}
	}
	for _, c := range places {
		if why, waits := c.outage(); why != "" {
			cause = why
		} else if waits {
			return "", Served
		}
	}
	switch {
	case cause == "":
		return "", Served
	case v == Open:
		return "", Open
	}
	return cause, v
}

// outage returns why nothing can be served here, or "". waits is true if something can be
// served or may come.
func (c *Place) outage() (cause string, waits bool) {
	c.store.View(func() { cause, waits = c.findOutage() })
	return cause, waits
}

// findOutage does so. The caller holds the store's lock for reading.
func (c *Place) findOutage() (cause string, waits bool) {
	err, _ := c.store.Outage()
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
