package cache

import (
	"maps"
	"slices"

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
// So a name that nobody wants is let go as soon as it is a stray: resources of the store
// referred to it, and none does any more. What nothing here ever referred to stays warm. A
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
	if len(tables) == 0 {
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
	if len(left) == 0 {
		return
	}
	if is != nil {
		refers(is, tables, func(i *interest) bool {
			i.entry.stray = false
			return true
		})
	}
	for _, i := range left {
		i.strays()
	}
}

// strays has a name looked at that nobody wants, if it may be a stray.
func (i *interest) strays() {
	if i.entry == nil || !i.entry.stray || !i.parked {
		return
	}
	s := i.table.store
	if s.strays == nil {
		s.strays = make(map[*interest]struct{})
	}
	s.strays[i] = struct{}{}
	s.signalDemand()
}

// dropStrays lets go of the names that are strays. That is done when the server is told what
// is wanted: the responses before it may have brought what refers to them again, and one walk
// looks for all.
func (s *Store) dropStrays() {
	strays := s.strays
	s.strays = nil
	maps.DeleteFunc(strays, func(i *interest, _ struct{}) bool { return !i.parked || !i.alive() })
	if len(strays) == 0 {
		return
	}
	in := make(map[*table]bool)
	for i := range strays {
		in[i.table] = true
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
					delete(strays, i)
				}
				return len(strays) > 0
			})
		}
	}
	for i := range strays {
		i.evict(ReasonUnreferenced)
	}
}
