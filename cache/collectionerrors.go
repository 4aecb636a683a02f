package cache

import "github.com/xdsrelay/xdsrelay/internal/wire"

// addError remembers an error of a key (ERR-1). The collection remembers as many as it would
// tombstones: a server may send errors for names without end.
func (c *Collection) addError(key string, err *wire.ResourceError) {
	c.dropError(key)
	c.errors = c.errors.with(c.table.store.journal.nextRevision(), key, err)
	if key == c.key {
		c.table.excuses.collections++
	}
	for {
		oldest, found := c.errors.beyond(max(minTombstones, c.log.live.len))
		if !found {
			return
		}
		c.dropError(oldest)
	}
}

// dropError forgets the error of a key, if there is one.
func (c *Collection) dropError(key string) {
	if c.errors.get(key) == nil {
		return
	}
	if key == c.key {
		c.errors.open = false
		c.table.excuses.collections--
	}
	c.errors = c.errors.without(key)
}
