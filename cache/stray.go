package cache

import (
	"fmt"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// The state of the world cannot express the removal of endpoints, routes and secrets. They go
// with the cluster or the listener that refers to them, and a client does not name them any
// more. The relay still asks for such a name while it is idle (SUB-11). java-control-plane
// answers no ADS request with an unknown name, and sends no update of the type either. So the
// clients of other names would be worse off than without a relay.
//
// The relay therefore evicts an idle name that is a stray: resources of the store referred to
// it, and none does any more. A name that no resource here ever referred to stays: a resource
// of another control plane may refer to it, or a client may ask for it on demand. Content is
// searched only when it changes or goes, and only if its type (leads) refers to a type with
// demand for names.

// expireStrays evicts the strays that have waited for their time. It returns when the next one's
// time comes, zero if none waits for that. Clients unsubscribe from old names and subscribe to
// new ones in any order. And go-control-plane's snapshots over ADS answer only requests that list
// every name that they have. The old name is among them until the client has the new one. So
// strays also wait for the answers to other names of their type. If these do not come, strays may
// be the reason, and makeRoom evicts them.
func (s *Store) expireStrays(now time.Time) (next time.Time) {
	if len(s.due.strays) == 0 {
		return time.Time{}
	}
	asking := make(map[*Table]bool)
	for i := range s.due.strays {
		if _, known := asking[i.table]; !known {
			asking[i.table] = i.table.demands.clocks.run() || i.table.demands.asks()
		}
	}
	s.dropStrays(func(i *demand, since time.Time) bool {
		at := since.Add(roomAfter)
		if now.Before(at) {
			next = notify.Earlier(next, at)
			return false
		}
		return !asking[i.table]
	})
	return next
}

// dropStrays evicts the strays that are due. One walk looks for references to all of them.
func (s *Store) dropStrays(due func(i *demand, since time.Time) bool) {
	left := make(map[*demand]struct{})
	in := make(map[*Table]bool)
	for i, since := range s.due.strays {
		switch {
		case !i.idle || !i.alive():
			delete(s.due.strays, i)
		case due(i, since):
			delete(s.due.strays, i)
			left[i], in[i.table] = struct{}{}, true
		}
	}
	if len(left) == 0 {
		return
	}
	var room [3]*Table
	for _, t := range s.tables {
		tables := slices.DeleteFunc(t.leadsTo(room[:]), func(to *Table) bool { return !in[to] })
		if len(tables) == 0 {
			continue
		}
		for _, e := range t.entries {
			if e.res == nil {
				continue
			}
			refers(e.res, tables, func(i *demand) bool {
				if i.entry != e {
					i.entry.marks.stray = false
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

// checkStrays verifies that every possible stray is on the list.
func (s *Store) checkStrays() error {
	for _, t := range s.tables {
		for _, e := range t.entries {
			if i := e.extra.demand; e.marks.stray && i != nil && i.idle {
				if _, listed := s.due.strays[i]; !listed {
					return fmt.Errorf("%q may be a stray, and nobody looks", e.key)
				}
			}
		}
	}
	return nil
}

// roomAfter is how long a server of the state of the world may leave a name unanswered before
// idle names are evicted. It is at most half of Source.Absent.
const roomAfter = time.Second
