package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// SetOutage says that the store's control plane cannot be reached, and has not been for so
// long that nobody should go on waiting for it (ABS-2); cause says so to clients. "" says
// that it can be reached. While it cannot, the subscribers of each name of which nothing is
// known are told the resource error UNAVAILABLE; what is known is served as ever. It is called
// by one goroutine at a time. Mostly it has nothing to say, and waits for nothing then: a
// large response that is being applied must not keep others from being told.
func (s *Store) SetOutage(cause string) {
	if before := s.outage.Load(); (before != nil) == (cause != "") {
		return
	}
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	s.mu.Lock()
	if now := s.cache.now(); cause != "" {
		s.beginOutage(&wire.ResourceError{Code: codes.Unavailable, Message: cause}, now)
	} else {
		s.endOutage()
	}
	s.mu.Unlock()
	s.flushWakes()
}

// beginOutage wakes all clients: those that cannot be served anything end.
func (s *Store) beginOutage(err *wire.ResourceError, now time.Time) {
	s.outage.Store(err)
	for _, t := range s.tables {
		for _, e := range t.entries {
			if e.state == unknown && len(e.subs) > 0 {
				t.unset(e, failed, err, now)
			}
		}
	}
	for c := range s.clients {
		if !c.woken {
			c.woken = true
			s.wakes = append(s.wakes, c)
		}
	}
}

// endOutage forgets the errors: who subscribes from now on waits for the server's word.
func (s *Store) endOutage() {
	err := s.outage.Swap(nil)
	for _, t := range s.tables {
		for _, e := range t.entries {
			if e.err == err {
				e.state = unknown
				e.setErr(nil)
				t.digests.contentChanged(e)
				t.forgetUnused(e)
			}
		}
	}
}

// unreached gives a name of which nothing is known the error of the outage, if there is one,
// when somebody subscribes to it.
func (t *table) unreached(e *entry) {
	if err := t.store.outage.Load(); err != nil && e.state == unknown {
		e.state, e.changed, e.received = failed, t.store.next(), t.store.cache.now().UnixNano()
		e.setErr(err)
	}
}

// Outage reports whether there is nothing that a client can be served, and why: it subscribes
// to something, nothing of all that is known, and none of the control planes can be reached
// (ABS-2). places are the client's, in all stores.
func Outage(places []*Client) (cause string, ok bool) {
	for _, c := range places {
		if c.store.outage.Load() == nil {
			return "", false
		}
	}
	for _, c := range places {
		if why, waits := c.outage(); why != "" {
			cause, ok = why, true
		} else if waits {
			return "", false
		}
	}
	return cause, ok
}

// outage says why the client can be served nothing here, "" if it can, or wants nothing,
// which waits tells apart.
func (c *Client) outage() (cause string, waits bool) {
	c.store.mu.RLock()
	defer c.store.mu.RUnlock()
	err := c.store.outage.Load()
	if err == nil {
		return "", true
	}
	for _, w := range c.watches {
		switch {
		case w.names.len() == 0 && w.wildcard == nil && len(w.globs) == 0:
		case w.anyKnown():
			return "", true
		default:
			cause = err.Message
		}
	}
	return cause, false
}
