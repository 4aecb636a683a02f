package cache

import (
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Peers is a store as relays see it that help each other while its control plane is away. The relay
// asks peers for what clients want and the store lacks (Missing), and takes the answer as restored
// content (Take). To a peer it gives what it has (Known), and asks nobody for it. Any goroutine may
// call the methods.
type Peers struct{ store *Store }

// Peers returns the side of a store for other relays.
func (s *Store) Peers() Peers { return Peers{s} }

// Wants counts what was wanted and not known. A number that grew says that Missing may have more.
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

// Holds reports whether there is any content.
func (p Peers) Holds() bool {
	p.store.mu.RLock()
	defer p.store.mu.RUnlock()
	return p.store.usage.resources > 0
}

// PeerWants is what a relay asks a peer for, of one type and one kind.
type PeerWants struct {
	TypeURL string
	Kind    Kind
	Names   []string // keys of names and globs, or "*"
}

// Missing lists what clients want, or the relay's own readers, and the store does not know. Without
// a control plane nobody else can say it. What the server said is absent is known.
func (p Peers) Missing() []PeerWants {
	s := p.store
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []PeerWants
	for _, t := range slices.SortedFunc(maps.Values(s.tables), inOrder) {
		w := PeerWants{TypeURL: t.typeURL, Kind: t.kind}
		for key, c := range t.colls {
			if c.demand.subscribedTo() && !c.hasWhole() {
				w.Names = append(w.Names, key)
			}
		}
		if t.kind == ByName {
			for key, e := range t.entries {
				if e.wanted() && e.res == nil && e.Open() {
					w.Names = append(w.Names, key)
				}
			}
		}
		if len(w.Names) > 0 {
			slices.Sort(w.Names)
			all = append(all, w)
		}
	}
	return all
}

// Known finds what the store has of names and collections, and lists those of them that it does not
// know. A collection is known if it has all members: from the server, or as restored content. Of one
// that is not known the members are found that there are, also those that are held by their names only. Content that is not to be cached is not known (TTL-5). Known
// changes nothing: no demand begins, and none ends.
func (p Peers) Known(w PeerWants) (found []ResourceImage, unknown []string) {
	s := p.store
	s.mu.RLock()
	defer s.mu.RUnlock()
	k := known{listed: make(map[*wire.Resource]struct{})}
	for _, key := range w.Names {
		if !k.name(s, &w, key) {
			unknown = append(unknown, key)
		}
	}
	return k.found, unknown
}

// known gathers what is known. A resource that several names stand for is there once.
type known struct {
	found  []ResourceImage
	listed map[*wire.Resource]struct{}
}

// name finds one name or collection, and reports whether it is known.
func (k *known) name(s *Store, w *PeerWants, key string) bool {
	if t := s.tables[tableKey{w.TypeURL, w.Kind}]; t != nil {
		if c := t.colls[key]; c != nil {
			return k.members(c)
		}
		for e := range t.unglobbed.entries[key] {
			k.entry(e)
		}
		if k.entry(t.entries[key]) {
			return true
		}
	}
	// Names mean the same whether clients ask for them or for everything.
	whole := s.tables[tableKey{w.TypeURL, WholeType}]
	return whole != nil && k.entry(whole.entries[key])
}

// members finds what there is of a collection, and reports whether these are all members.
func (k *known) members(c *Collection) bool {
	whole := c.hasWhole()
	for e := c.log.live.head; e != nil; e = e.next {
		whole = k.entry(e) && whole
	}
	return whole
}

func (k *known) entry(e *Entry) bool {
	if e == nil || e.res == nil || e.res.DoNotCache {
		return false
	}
	if _, twice := k.listed[e.res]; !twice {
		k.listed[e.res] = struct{}{}
		k.found = append(k.found, e.image())
	}
	return true
}

// PeerAnswer is what a peer knows of PeerWants.
type PeerAnswer struct {
	PeerWants // Names: the collections among them of which Resources has all members
	Resources []*wire.Resource
}

// Take puts what a peer gave into the store, all at once, as restored content (SUR-1). asOf is when
// the peer knew it to be current. Nothing that is known is replaced, and nothing is removed. Nothing
// is taken either where an incremental server was asked meanwhile: nothing was presented of what comes
// now, so the server would not say that it is gone. taken is the number of resources that clients can
// be served now.
func (p Peers) Take(answers []PeerAnswer, asOf time.Time) (taken int) {
	s := p.store
	now := s.cache.Now()
	updates := make([]*update, len(answers))
	for n := range answers {
		i := &TableImage{TypeURL: answers[n].TypeURL}
		for _, r := range answers[n].Resources {
			if r.HasPayload() && !r.DoNotCache {
				i.Resources = append(i.Resources, ResourceImage{Resource: r.AsRestored()})
			}
		}
		updates[n] = s.cache.restoring(i, now)
	}
	s.change(func() {
		s.changes.begin()
		if len(s.restored.tables) == 0 || asOf.Before(s.restored.asOf) {
			s.restored.asOf = asOf
		}
		for n, u := range updates {
			t := s.tables[tableKey{answers[n].TypeURL, answers[n].Kind}]
			if u == nil || t == nil || (t.upstream.spoken && !s.source.State) {
				continue
			}
			taken += u.lend(t, answers[n].Names)
		}
	})
	s.demandSignal.send() // the session asks when to Settle: a ttl may run now
	return taken
}

// lend applies what a peer gave. whole are the collections that it knows all members of. The caller
// holds the locks.
func (u *update) lend(t *Table, whole []string) int {
	before, known := t.upstream.restored, t.store.journal.revision
	for i, r := range u.response.Resources {
		if u.keys[i] != badKey && t.settledBefore(u.keys[i], r) {
			u.keys[i] = badKey
		}
	}
	u.apply(t)
	for _, key := range whole {
		if c := t.colls[key]; c != nil && !c.quiet.synced {
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

// Asked says that all peers were asked for what Missing listed when Wants was a number. Clients that
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
