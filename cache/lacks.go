package cache

import "github.com/xdsrelay/xdsrelay/internal/wire"

// Lacks returns the names of resources that a response of the state of the world would remove by leaving them out,
// though the server is asked for them by name. repeats says that the response has a resource just as it is
// held, and so not only what changed. Nothing changes.
func (s Session) Lacks(stream wire.StreamID, r *wire.Response) (names []string, repeats bool) {
	u, err := newUpdate(r, s.store.cache.Now())
	if err != nil || len(u.bad)+len(r.Unnamed) > 0 || u.heartbeats {
		return nil, false // it removes nothing
	}
	s.store.mu.RLock()
	defer s.store.mu.RUnlock()
	tables := s.carried(stream, r.TypeURL, nil)
	if len(tables) != 1 || tables[0].kind != ByName || !u.lists(tables[0]) {
		return nil, false
	}
	t := tables[0]
	listed := make(map[string]bool, len(u.keys))
	for i, key := range u.keys {
		listed[key] = true
		e := t.entries[key]
		repeats = repeats || e != nil && e.res != nil && u.same(e.res, r.Resources[i])
	}
	for key, e := range t.entries {
		i := e.extra.demand
		if i != nil && i.subscribed && e.Exists() && !listed[key] && !u.failing[key] && !u.isExcused(t, e) && !t.upstream.held.has(e) {
			names = append(names, e.Name())
		}
	}
	return names, repeats
}
