package relay

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// suspects are the stores that a panic may have left inconsistent. Any goroutine may use them.
type suspects struct {
	bell chan struct{} // one slot: there are some

	mu     *sync.Mutex
	stores map[*cache.Store]bool // guarded by mu; true: it is of no use, whatever its check finds
}

func newSuspects() suspects {
	return suspects{bell: notify.New(), mu: new(sync.Mutex), stores: make(map[*cache.Store]bool)}
}

// add has a store checked. It does not block, and may be called under the store's lock.
func (s *suspects) add(store *cache.Store) { s.note(store, false) }

// condemn has a store rebuilt, likewise.
func (s *suspects) condemn(store *cache.Store) { s.note(store, true) }

func (s *suspects) note(store *cache.Store, useless bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stores[store] = s.stores[store] || useless
	notify.Signal(s.bell)
}

// take returns the stores that were added since.
func (s *suspects) take() map[*cache.Store]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	stores := s.stores
	s.stores = make(map[*cache.Store]bool)
	return stores
}

// repairs has stores checked, and rebuilt.
type repairs struct {
	relay    *Relay
	suspects suspects // to be checked because a panic may have left them inconsistent
}

// run checks the stores that panics may have left inconsistent, until ctx ends, and rebuilds
// those that are (SUR-6).
func (p *repairs) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.suspects.bell:
		}
		for store, useless := range p.suspects.take() {
			err := errUseless
			if !useless {
				err = p.check(store)
			}
			if err != nil {
				p.rebuild(store, err)
			}
		}
	}
}

// errUseless is why a store is rebuilt that the relay's own resolver filled before it panicked: the
// next resolver cannot know what the store was told.
var errUseless = errors.New("what filled it panicked")

// check is the store's consistency check. A check that panics finds the store inconsistent.
func (p *repairs) check(store *cache.Store) (err error) {
	if e := p.relay.panics.Do(logs.PartStore, func() { err = store.Check() }); e != nil {
		return e
	}
	return err
}

// maxFault bounds what the log has of a failed check, in bytes.
const maxFault = 2 << 10

// rebuild has another session take the place of one whose store is inconsistent. Nothing is fed to
// the store any more. Its clients keep what they have: their streams end within server.drain, they
// come back with their versions, and the new store asks the control plane for everything: it does not
// begin with the snapshot either.
func (p *repairs) rebuild(store *cache.Store, fault error) {
	r := p.relay
	its := func(s *session) bool { return s.store == store }
	all := r.hub.list()
	if i := slices.IndexFunc(all, its); i >= 0 {
		r.hub.snapshots.drop(all[i])
	}
	r.reloading.Lock()
	defer r.reloading.Unlock()
	s := r.hub.discard(its)
	if s == nil || r.ended {
		return
	}
	r.metrics.Rebuilt()
	r.log.Error("a store is inconsistent after a panic: it is rebuilt, and its clients connect again",
		"upstream", s.key.plane, "scope", s.key.scope, "error", logs.Head(fault.Error(), maxFault))
	if s.ofRelay() { // the resolver may read it
		r.hub.discard(func(s *session) bool { return s.key.resolved })
	}
	again := *r.router.now.Load() // the same plan, but another one to streams, which compare where their names live
	r.router.adopt(&again)
	spread := r.now.Load().config.Server.Drain.Std()
	r.server.Reroute(spread)
	r.reports.Recheck(spread)
	r.ahead.renewAll()
}
