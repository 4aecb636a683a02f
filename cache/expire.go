package cache

import "time"

// expireTTLs removes the resources whose TTL has run out at now, whether the server can be
// reached or not (TTL-2). It returns when the next TTL runs out, zero if none runs.
func (t *table) expireTTLs(now time.Time) time.Time {
	for l := t.lifetimes.first(); l != nil; l = t.lifetimes.first() {
		if now.Before(l.deadline) {
			return l.deadline
		}
		l.expired, l.content = true, l.entry.changed
		t.store.cache.observer.Expired(t.typeURL)
		t.variants.expired(l.entry)
		t.unset(l.entry, absent, nil, now)
	}
	delete(t.store.timed, t)
	return time.Time{}
}

// checkTimed verifies that Settle looks at the table if it has to.
func (t *table) checkTimed(c *checker) {
	_, timed := t.store.timed[t]
	c.that(timed || len(t.lifetimes.deadlines) == 0, "a TTL runs, and nobody will end it")
}
