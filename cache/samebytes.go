package cache

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// sharesFrom is the number of stores from which on they keep equal resources in the same bytes
// (LIM-3): without rules each client has a store, and control planes send most of them the same. A few
// stores have little to share, and the look-up would be for nothing.
const sharesFrom = 8

// share gives the resources of a response, those that another store has already in its bytes; nil if there
// is none of these. It takes no lock of a store.
func (c *Cache) share(resources []*wire.Resource) (shared []*wire.Resource) {
	if !c.sharing() {
		return nil
	}
	for i, r := range resources {
		used := c.shared.Use(r)
		if used == r {
			continue
		}
		if shared == nil {
			shared = slices.Clone(resources)
		}
		shared[i] = used
	}
	return shared
}

// shares is share for one resource. It never gives nil.
func (c *Cache) shares(r *wire.Resource) *wire.Resource {
	if !c.sharing() {
		return r
	}
	return c.shared.Use(r)
}

func (c *Cache) sharing() bool { return c.stores.Load() >= sharesFrom }
