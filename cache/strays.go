package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// leadsTo are the tables with names that the server is asked for, and that resources of this
// one may refer to.
func (t *Table) leadsTo(room []*Table) []*Table {
	tables := room[:0]
	known := xds.Find(t.typeURL)
	if known == nil || known.URL != t.typeURL { // of v2, which nothing is known to refer to
		return tables
	}
	for _, typeURL := range known.RefersTo {
		if to := t.store.tables[tableKey{typeURL, ByName}]; to != nil && to.demands.count > 0 {
			tables = append(tables, to)
		}
	}
	return tables
}

// refers calls found for each name in some tables (leadsTo) that a resource refers to, or seems
// to refer to, until found returns false.
func refers(r *wire.Resource, tables []*Table, found func(*demand) bool) {
	look := func(to *Table, name string) bool {
		if keyer.IsXDSTP(name) {
			key, err := keyer.Key(name)
			if err != nil {
				return true
			}
			name = key
		}
		e := to.entries[name]
		return e == nil || e.extra.demand == nil || found(e.extra.demand)
	}
	if tables[0].typeURL == xds.EndpointType {
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

// noteStrays finds the names that the former content of an entry referred to and that the new
// content, nil for none, does not refer to.
func (t *Table) noteStrays(e *Entry, was, is *wire.Resource) {
	if was == nil || !t.store.source.State {
		return
	}
	var room [3]*Table
	tables := t.leadsTo(room[:])
	if len(tables) == 0 || (len(tables) == 1 && tables[0].typeURL == xds.EndpointType && sameEndpoints(was, is)) {
		return
	}
	var left []*demand
	refers(was, tables, func(i *demand) bool {
		if i.entry != e {
			i.entry.marks.stray = true
			left = append(left, i)
		}
		return true
	})
	if is != nil && len(left) > 0 {
		refers(is, tables, func(i *demand) bool {
			if i.entry != e {
				i.entry.marks.stray = false
			}
			return true
		})
	}
	for _, i := range left {
		i.strays()
	}
}

// sameEndpoints reports whether both are clusters with the same endpoints. They refer to the same
// names if only endpoints are asked for by name, as by Envoys.
func sameEndpoints(was, is *wire.Resource) bool {
	if is == nil {
		return false
	}
	before, ok := was.ClusterEndpoints()
	now, still := is.ClusterEndpoints()
	return ok && still && before == now
}

// strays lists an idle name that may be a stray.
func (d *demand) strays() {
	if d.entry == nil || !d.entry.marks.stray || !d.idle {
		return
	}
	s := d.table.store
	if s.due.strays == nil {
		s.due.strays = make(map[*demand]time.Time)
	}
	s.due.strays[d] = s.cache.Now()
	s.demandSignal.send() // the session asks anew when to Settle
}
