package cache

import (
	"fmt"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// The state of the world has no word for the removal of endpoints, routes and secrets: they
// go with the cluster or the listener that refers to them, and who is served directly names
// them no longer then. A name that the relay goes on asking for, since it is kept warm
// (SUB-11), can be one that is gone. java-control-plane answers no request over ADS that names
// what it has not, and sends no update of the type either: who wants the other names would be
// worse off than without a relay.
//
// So a name that nobody wants is let go when it is a stray: resources of the store referred
// to it, and none does any more. What nothing here ever referred to stays warm. A
// resource of another control plane may refer to it, or none, as to a cluster that a client
// asks for on demand. Content is searched only when it changes or goes, of the types below,
// and only beside names that are asked for of the types that it leads to.

// leads are the types that resources of a type refer to by name.
var leads = map[string][]string{
	"type.googleapis.com/envoy.config.listener.v3.Listener":              {routesType, clustersType, secretsType},
	"type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration": {routesType},
	routesType:   {clustersType},
	clustersType: {endpointType, clustersType, secretsType},
}

const (
	routesType   = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	clustersType = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	secretsType  = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
)

// leadsTo are the tables with names that the server is asked for, and that resources of this
// one may refer to.
func (t *table) leadsTo(room []*table) []*table {
	tables := room[:0]
	for _, typeURL := range leads[t.typeURL] {
		if to := t.store.tables[tableKey{typeURL, byName}]; to != nil && to.interests > 0 {
			tables = append(tables, to)
		}
	}
	return tables
}

// refers calls found for each name in some tables, those of leadsTo, that a resource refers
// to, or seems to, until that returns false.
func refers(r *wire.Resource, tables []*table, found func(*interest) bool) {
	look := func(to *table, name string) bool {
		if keyer.IsXDSTP(name) {
			key, err := keyer.Key(name)
			if err != nil {
				return true
			}
			name = key
		}
		e := to.entries[name]
		return e == nil || e.interest == nil || found(e.interest)
	}
	if tables[0].typeURL == endpointType {
		name, ok := r.ClusterEndpoints()
		if ok && !look(tables[0], name) {
			return
		}
		tables = tables[1:]
	}
	if len(tables) == 0 {
		return
	}
	r.Mentions(func(name string) bool {
		for _, to := range tables {
			if !look(to, name) {
				return false
			}
		}
		return true
	})
}

// replaced notes which names the content of an entry referred to that gave way to other
// content, or to none (nil), and that does not refer to them.
func (t *table) replaced(e *entry, was, is *wire.Resource) {
	if was == nil || !t.store.source.State {
		return
	}
	var room [3]*table
	tables := t.leadsTo(room[:])
	if len(tables) == 0 || (len(tables) == 1 && tables[0].typeURL == endpointType && sameEndpoints(was, is)) {
		return
	}
	var left []*interest
	refers(was, tables, func(i *interest) bool {
		if i.entry != e {
			i.entry.stray = true
			left = append(left, i)
		}
		return true
	})
	if is != nil && len(left) > 0 {
		refers(is, tables, func(i *interest) bool {
			if i.entry != e {
				i.entry.stray = false
			}
			return true
		})
	}
	for _, i := range left {
		i.strays()
	}
}

// sameEndpoints reports whether both are clusters with the same endpoints: then they refer to
// the same where only endpoints are asked for by name, as by Envoys.
func sameEndpoints(was, is *wire.Resource) bool {
	if is == nil {
		return false
	}
	before, ok := was.ClusterEndpoints()
	now, still := is.ClusterEndpoints()
	return ok && still && before == now
}

// strays has a name looked at that nobody wants, if it may be a stray.
func (i *interest) strays() {
	if i.entry == nil || !i.entry.stray || !i.parked {
		return
	}
	s := i.table.store
	if s.strays == nil {
		s.strays = make(map[*interest]time.Time)
	}
	s.strays[i] = s.cache.now()
	s.signalDemand() // the session asks anew when to Settle
}

// expireStrays lets go of the strays that have waited for their time, and returns when the
// next one's comes, zero if none waits for that. Clients let go of the old and ask for the
// new in any order, and some servers (go-control-plane's snapshots over ADS) answer only who
// names all that there is, the old included, until the client has the new and the old is
// removed: so strays also wait for the answer to what their type is asked for. If that does
// not come it may be because of them, and they go all the same (makeRoom).
func (s *Store) expireStrays(now time.Time) (next time.Time) {
	if len(s.strays) == 0 {
		return time.Time{}
	}
	asking := make(map[*table]bool)
	for i := range s.strays {
		if _, known := asking[i.table]; !known {
			asking[i.table] = i.table.asking()
		}
	}
	s.dropStrays(func(i *interest, since time.Time) bool {
		at := since.Add(roomAfter)
		if now.Before(at) {
			next = sooner(next, at)
			return false
		}
		return !asking[i.table]
	})
	return next
}

// asking reports whether the server has not answered something yet, or is about to be asked.
func (t *table) asking() bool {
	return slices.ContainsFunc(t.clocks, clock.runs) ||
		slices.ContainsFunc(t.pending, func(i *interest) bool { return !i.leaving })
}

// dropStrays lets go of the strays that are due. All of them are looked for in one walk.
func (s *Store) dropStrays(due func(i *interest, since time.Time) bool) {
	left := make(map[*interest]struct{})
	in := make(map[*table]bool)
	for i, since := range s.strays {
		switch {
		case !i.parked || !i.alive():
			delete(s.strays, i)
		case due(i, since):
			delete(s.strays, i)
			left[i], in[i.table] = struct{}{}, true
		}
	}
	if len(left) == 0 {
		return
	}
	var room [3]*table
	for _, t := range s.tables {
		tables := slices.DeleteFunc(t.leadsTo(room[:]), func(to *table) bool { return !in[to] })
		if len(tables) == 0 {
			continue
		}
		for _, e := range t.entries {
			if e.res == nil {
				continue
			}
			refers(e.res, tables, func(i *interest) bool {
				if i.entry != e {
					i.entry.stray = false
					delete(left, i)
				}
				return len(left) > 0
			})
		}
	}
	for i := range left {
		i.evict(ReasonUnreferenced)
	}
}

// checkStrays verifies that what is a stray, or may be one, is looked at.
func (s *Store) checkStrays() error {
	for _, t := range s.tables {
		for _, e := range t.entries {
			if i := e.interest; e.stray && i != nil && i.parked {
				if _, listed := s.strays[i]; !listed {
					return fmt.Errorf("%q may be a stray, and nobody looks", e.key)
				}
			}
		}
	}
	return nil
}
