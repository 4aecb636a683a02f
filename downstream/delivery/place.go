package delivery

import (
	"cmp"
	"iter"
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// Join gives a client that is told everything each time a place in a store, for TakeSnapshot.
// ring and form are those of NewSubscriber.
func Join(store *cache.Store, ring func(), form Form) *Place {
	return newPlace(store, form, false, ring)
}

// newPlace gives a stream, or the relay itself, a place in a store.
func newPlace(store *cache.Store, form Form, own bool, ring func()) *Place {
	c := &Place{store: store, bell: cache.NewBell(ring), form: form, format: form.format(own), own: own}
	store.Edit(func() { store.Enter(c, own) })
	return c
}

// Bell rings when there may be something to collect.
func (c *Place) Bell() *cache.Bell { return &c.bell }

// Store is where the place is.
func (c *Place) Store() *cache.Store { return c.store }

// Leave ends the place. Names that it subscribed to alone stay cached until they are evicted
// (SUB-11).
func (c *Place) Leave() {
	c.store.Edit(func() {
		defer c.store.Leave(c, c.own) // even if its types cannot be ended
		for _, w := range c.types {
			w.close()
		}
		c.types = nil
	})
}

// Change is what one request changes of a client's subscriptions to one type in one store.
type Change struct {
	TypeURL     string
	Subscribe   []cache.Name
	Unsubscribe []cache.Name
	// Versions are what the client says it holds, by key; only with the first request for the
	// type on its stream (RES-11). Update does not keep them.
	Versions wire.Versions
	// VersionInfo is what a state-of-the-world client showed with its first request for the
	// type. It is to be given with every change until the first response is sent: its holder
	// has a list, which nothing that is incomplete may replace (RES-2), and which is not sent
	// again if it is current (ACK-5).
	VersionInfo string
	// Distrust says that the client may have what it presents from another scope, whose server
	// may use the same versions for other contents (ACK-4). The client is sent everything; what
	// it presents says only which names it holds.
	Distrust bool
	// Relist has the list of a full-state type sent although nothing changed.
	Relist bool
}

// Update carries out a change. The caller collects then: nothing rings for it. Names that never
// were subscribed to are ignored (SUB-7). The subscriptions that remain answer for those that
// end (SUB-8): where "*" begins in one store as names end in others, its change comes first.
func (c *Place) Update(ch *Change) {
	begun := c.find(ch.TypeURL) == nil
	c.subscriber.hasClusters(ch)
	var u update
	c.store.Edit(func() { u = c.change(ch) })
	w := u.typeSub
	p := presentation{typeSub: w, subs: &w.subs, versions: &ch.Versions, begun: begun, distrust: ch.Distrust}
	p.take()
	u.tellStar()
	if w.subs.idle() {
		w.subs.parts.leave(&w.subs)
	}
}

// change carries out a change, but for the versions that the client presents. The caller holds
// the store's lock.
func (c *Place) change(ch *Change) update {
	w := c.subscribeType(ch.TypeURL)
	w.subs.names.reserve(len(ch.Subscribe))
	u := update{typeSub: w, subs: &w.subs}
	for _, n := range ch.Subscribe {
		u.subscribe(n)
	}
	for _, n := range ch.Unsubscribe {
		u.unsubscribe(n)
	}
	u.release()
	if ch.VersionInfo != "" && !w.list.listed {
		w.list.presented, w.progress.led, w.progress.shown = ch.VersionInfo, true, true
		if ch.Distrust {
			w.list.presented = distrusted
		}
	}
	w.list.relist = w.list.relist || (ch.Relist && w.list.full)
	c.endIdle(w)
	return u
}

// LetGo ends the client's subscriptions to names of a type that stand for nothing, as the client was told (RES-16), and
// returns them. It ends all of them, or those of which the server said so longer ago than unused resources are kept. A
// client that needs one of them again subscribes to it again (RES-10).
func (c *Place) LetGo(typeURL string, all bool) (spellings []string) {
	idle, now := c.store.Idle(), c.store.Now()
	c.store.Edit(func() {
		w, t := c.find(typeURL), c.store.FindTable(typeURL, cache.ByName)
		if w == nil || t == nil || !t.HasAnswers() {
			return
		}
		var over []*nameSub
		for sub := range w.subs.names.all() {
			if a := sub.entry.Absence(); !sub.dirty && a.Answer() != nil && (all || idle > 0 && now.Sub(a.Asked()) >= idle) {
				over = append(over, sub)
			}
		}
		u := update{typeSub: w, subs: &w.subs}
		for _, sub := range over {
			spellings = append(spellings, sub.spelling)
			u.endName(sub, cache.Name{Spelling: sub.spelling, Key: sub.entry.Key()})
		}
		if c.endIdle(w); w.subs.idle() {
			w.subs.parts.leave(&w.subs)
		}
	})
	return spellings
}

// endIdle ends the subscription to a type of which nothing is left.
func (c *Place) endIdle(w *typeSub) {
	if w.subs.idle() {
		w.again.forgive()
		c.types = slices.DeleteFunc(c.types, func(o *typeSub) bool { return o == w })
	}
}

// subscribeType finds or begins the subscription to a type.
func (c *Place) subscribeType(typeURL string) *typeSub {
	if w := c.find(typeURL); w != nil {
		return w
	}
	w := &typeSub{
		place: c, typeURL: typeURL, rank: xds.RankOf(typeURL),
		removalsWait: xds.RankOf(typeURL).Waits() || !c.form.State && xds.Enables(typeURL),
		list:         listState{full: c.form.State && c.store.FullState(typeURL), begun: c.store.Now()},
		bell:         cache.NewTypeBell(&c.bell),
	}
	at, _ := slices.BinarySearchFunc(c.types, w, func(a, b *typeSub) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.typeURL, b.typeURL))
	})
	c.types = slices.Insert(c.types, at, w)
	c.subscriber.link(w)
	w.subs.screen = c.screenOf(typeURL, nil)
	return w
}

// Watches returns the number of the client's subscriptions to a type: names, globs and "*".
func (c *Place) Watches(typeURL string) int {
	w := c.find(typeURL)
	if w == nil {
		return 0
	}
	n := w.subs.names.len() + len(w.subs.globs.all)
	if w.subs.wildcard != nil {
		n++
	}
	return n
}

// NamesBytes returns how many bytes the names and globs have that the client subscribes to, over all
// types (LIM-1).
func (c *Place) NamesBytes() (n int) {
	for _, w := range c.types {
		n += w.subs.names.bytes + w.subs.globs.bytes
	}
	return n
}

// Subscribed reports whether the client subscribes to a name, a glob or "*", as it is spelled.
func (c *Place) Subscribed(typeURL, spelling string) bool {
	w := c.find(typeURL)
	switch {
	case w == nil:
		return false
	case spelling == cache.Wildcard:
		return w.subs.wildcard != nil
	}
	return w.subs.names.get(spelling) != nil || w.subs.globs.all[spelling] != nil
}

// Subscriptions are all that the client subscribes to of a type, as it spells them. They must
// not be changed meanwhile.
func (c *Place) Subscriptions(typeURL string) iter.Seq[string] {
	return func(yield func(string) bool) {
		w := c.find(typeURL)
		if w == nil || (w.subs.wildcard != nil && !yield(cache.Wildcard)) {
			return
		}
		for sub := range w.subs.names.all() {
			if !yield(sub.spelling) {
				return
			}
		}
		for spelling := range w.subs.globs.all {
			if !yield(spelling) {
				return
			}
		}
	}
}

// behind reports whether removals were discarded that an incremental client was not told.
func (c *Place) behind() bool {
	return !c.form.State && slices.ContainsFunc(c.types, func(w *typeSub) bool { return w.subs.hasFollower((*follower).Behind) })
}

// JudgedBy is Subscriber.JudgedBy for one place.
func (c *Place) JudgedBy(j Judge, narrower bool) {
	c.judge = j
	c.store.Edit(func() {
		for _, w := range c.types {
			w.subs.screen = c.screenOf(w.typeURL, w.subs.screen)
			w.list.relist = w.list.relist || (narrower && w.list.full && w.list.listed && w.subs.screen != nil)
		}
	})
}

// screenOf returns the screen of a type, with what another one knows; nil: the client may be sent
// everything.
func (c *Place) screenOf(typeURL string, was *screen) *screen {
	switch {
	case c.judge == nil || !c.judge.ByName(typeURL):
		return nil
	case was == nil:
		was = &screen{typeURL: typeURL}
	}
	was.judge = c.judge
	return was
}
