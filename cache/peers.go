package cache

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Peers is a store as relays see it that help each other while its control plane is away. If clients
// want something that the store lacks (Lacks), the relay asks peers for an image, and takes it as restored
// content (Take). To a peer it gives its own (Snapshots.Image), and asks nobody for it. Any goroutine may
// call the methods.
type Peers struct{ store *Store }

// Peers returns the side of a store for other relays.
func (s *Store) Peers() Peers { return Peers{s} }

// Wants counts what was wanted and not known. A number that grew says that more may be lacking.
func (p Peers) Wants() uint64 {
	p.store.mu.RLock()
	defer p.store.mu.RUnlock()
	return p.store.outage.wants
}

// Awaited reports whether clients wait for peers to be asked before they are told of an outage.
func (p Peers) Awaited() bool { return p.store.outage.awaited.Load() }

// Await reports whether clients that want a name or a collection are not told of an outage yet. The caller
// holds the store's lock.
func (p Peers) Await(wanted any) bool { return p.store.outage.waits(wanted) }

// Holds is the number of resources.
func (p Peers) Holds() int64 {
	p.store.mu.RLock()
	defer p.store.mu.RUnlock()
	return p.store.usage.resources
}

// Lacks reports whether clients want something, or the relay's own readers, that the store does not know. Without
// a control plane nobody else can say it. What the server said is absent is known.
func (p Peers) Lacks() bool {
	s := p.store
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, t := range s.tables {
		for _, c := range t.colls {
			if c.demand.subscribedTo() && !c.hasWhole() {
				return true
			}
		}
		if t.kind != ByName {
			continue
		}
		for _, e := range t.entries {
			if e.wanted() && e.res == nil && e.Open() {
				return true
			}
		}
	}
	return false
}

// Take puts a peer's image into the store, all at once, as restored content (SUR-1): the server will be asked for it
// as if clients had left it. asOf is when the peer knew it to be current. Nothing that is known is replaced, and
// nothing is removed. Nothing is taken either where an incremental server was asked meanwhile: nothing was presented
// of what comes now, so the server would not say that it is gone. taken is the number of resources that clients can
// be served now, and whole says that no type was left out for that.
func (p Peers) Take(i *Image, asOf time.Time) (taken int, whole bool) {
	s := p.store
	now := s.cache.Now()
	updates := make([]*update, len(i.Tables))
	for n := range i.Tables {
		x := &i.Tables[n]
		x.SystemVersion = "" // it is for a stream of the peer
		x.Resources = slices.DeleteFunc(x.Resources, func(r ResourceImage) bool { return !r.Resource.HasPayload() || r.Resource.DoNotCache })
		updates[n] = s.cache.restoring(x, now)
	}
	whole = true
	s.change(func() {
		s.changes.begin()
		if len(s.restored.tables) == 0 || asOf.Before(s.restored.asOf) {
			s.restored.asOf = asOf
		}
		for n, u := range updates {
			if u == nil {
				continue
			}
			x := &i.Tables[n]
			lend := func(u update, t *Table, i *TableImage) {
				if t.upstream.spoken && !s.source.State {
					whole = false
					return
				}
				u.keys = slices.Clone(u.keys)
				taken += u.lend(t, i)
			}
			lend(*u, s.Table(x.TypeURL, x.Kind), x)
			// Names mean the same whether clients ask for them or for everything.
			if named := s.tables[tableKey{x.TypeURL, ByName}]; x.Kind == WholeType && named != nil {
				lend(*u, named, &TableImage{Kind: ByName, Resources: x.Resources})
			}
		}
	})
	s.demandSignal.send() // the session asks when to Settle: a ttl may run now
	return taken, whole
}

// lend applies what a peer gave. The caller holds the locks.
func (u *update) lend(t *Table, i *TableImage) int {
	before, known := t.upstream.restored, t.store.journal.revision
	begun := t.begin(i)
	for n, r := range u.response.Resources {
		if u.keys[n] != badKey && t.settledBefore(u.keys[n], r) {
			u.keys[n] = badKey
		}
	}
	u.apply(t)
	for n := range i.Resources {
		t.date(u.keys[n], &i.Resources[n])
	}
	for _, key := range i.Collections {
		if c := t.colls[key]; c != nil && !c.quiet.synced && !slices.Contains(i.Lacking, key) {
			c.restored.is, c.restored.whole = true, true
			t.store.changes.add(c)
			c.ringFollowers()
		}
	}
	for _, c := range t.colls {
		// A relay would take it for the answer, and remove the rest from its own clients (RES-2, RES-11).
		if last := c.log.live.tail; last != nil && last.changed > known && !c.hasWhole() {
			c.haveParts()
		}
	}
	releaseIdle(begun)
	return t.upstream.restored - before
}

// settledBefore reports whether the store knows something under a resource's name that the resource
// would replace: content, the server's word that there is none, or, of an alias, another resource.
func (t *Table) settledBefore(key string, r *wire.Resource) bool {
	settled := func(e *Entry) bool { return e != nil && (e.res != nil || !e.Open()) }
	if settled(t.entries[key]) || len(t.aliases.of(key)) > 0 {
		return true
	}
	return slices.ContainsFunc(r.Aliases(), func(alias string) bool {
		k, err := keyer.Key(alias)
		e := t.entries[k]
		return err == nil && settled(e) && (e.marks.Alias || e.res == nil)
	})
}

// Helped says whether peers are asked for what is wanted: the control plane is away.
func (p Peers) Helped(are bool) { p.store.outage.helped.Store(are) }

// Due reports whether peers are to be asked yet for what was wanted when Wants was a number. Then Asked rings
// for all clients.
func (p Peers) Due(wants uint64) bool {
	o := &p.store.outage
	if !o.helped.Load() {
		return false
	}
	o.polls.Store(true)
	return o.asked.Load() < wants
}

// Asked says that all peers were asked for what was wanted when Wants was a number. Clients that
// still wait for that are told of the outage, if there is one (ABS-2). What was wanted meanwhile is to be
// asked for first, and keeps nobody else waiting.
func (p Peers) Asked(wants uint64) {
	s := p.store
	s.outage.asked.Store(wants)
	if s.outage.polls.Swap(false) {
		s.change(func() { s.ringPlaces() })
	}
	if s.outage.awaited.Load() {
		s.change(func() { s.tellAsked(wants) })
	}
}
