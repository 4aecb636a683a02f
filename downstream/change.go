package downstream

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
)

// change has the changes of one request to the subscriptions of a type, by store.
type change struct {
	routes   Routes
	t        *typeState
	stores   []*cache.Store
	wildcard *delivery.Change // that subscribes to "*"; nil if there is none
	changes  map[*cache.Store]*delivery.Change
}

func newChange(routes Routes, t *typeState) *change {
	return &change{routes: routes, t: t, changes: make(map[*cache.Store]*delivery.Change)}
}

// in returns the change in a store.
func (c *change) in(s *cache.Store) *delivery.Change {
	ch := c.changes[s]
	if ch == nil {
		ch = &delivery.Change{TypeURL: c.t.url}
		if c.t.flow.sent == 0 {
			ch.VersionInfo = c.t.listed.presented
			ch.Distrust = c.routes.Distrusts(s, c.t.url)
		}
		c.changes[s] = ch
		c.stores = append(c.stores, s)
	}
	return ch
}

// subscribe adds a name. The request has at most n.
func (c *change) subscribe(s *cache.Store, name cache.Name, n int) {
	ch := c.in(s)
	if len(c.stores) == 1 && ch.Subscribe == nil {
		ch.Subscribe = make([]cache.Name, 0, n) // mostly one store has all names
	}
	ch.Subscribe = append(ch.Subscribe, name)
	if name.Key == cache.Wildcard {
		c.wildcard = ch
	}
}

// relist has a list sent that lacks the names that the relay refuses, by a store that the client
// subscribes in, now or with this change.
func (c *change) relist(places []*delivery.Place) {
	for _, s := range c.stores {
		if len(c.changes[s].Subscribe) > 0 {
			c.changes[s].Relist = true
			return
		}
	}
	for _, place := range places {
		if place.Watches(c.t.url) > 0 {
			c.in(place.Store()).Relist = true
		}
	}
}

// order returns the stores. The store where "*" begins comes first: "*" answers for names that
// end in other stores (SUB-8).
func (c *change) order() []*cache.Store {
	if c.wildcard != nil && len(c.stores) > 1 {
		first := slices.IndexFunc(c.stores, func(s *cache.Store) bool { return c.changes[s] == c.wildcard })
		c.stores[0], c.stores[first] = c.stores[first], c.stores[0]
	}
	return c.stores
}
