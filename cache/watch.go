package cache

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// watch is a client's interest in one type: cursors for what it follows as a
// whole, and its names. Guarded like Client.
type watch struct {
	client  *Client
	typeURL string
	rank    Rank
	woken   bool      // its client was woken for it and has not collected since
	led     bool      // the client was sent something, or said that it holds something
	begun   time.Time // when the client asked first

	directives bool // globs that differ in those only may give members the same names

	// Of state-of-the-world clients.
	full      bool   // a full-state type: sent as whole lists (RES-2)
	listed    bool   // it was sent a list, or has what it showed
	relist    bool   // a list is due although nothing changed
	presented string // version_info that it showed first; until listed
	sent      uint64 // it was sent everything up to this change, but removals that wait
	settled   uint64 // and acknowledged everything up to this one
	later     uint64 // the same of all later types of this store; of the last survey
	gate      *gate  // of removals that wait (ADS-4); nil if there are none
	again     *rejections
	responses uint32     // so far
	before    uint32     // before the present pass
	sum       digest.Sum // of what it names

	names    nameSubs
	located  int           // of those, how many have parameters
	variants *sentVariants // nil: the client was sent nothing with constraints
	wildcard *cursor
	globs    map[string]*cursor // by spelling

	// By key, what is not spelled like its key: a client may spell one in many
	// ways, and none of its requests may cost the square of its length.
	respelledNames map[string][]*nameSub
	respelledGlobs map[string][]*cursor

	dirty      []*nameSub      // in the order in which they became so; may hold ended ones
	ended      int             // number of those
	answers    map[string]Name // by key: to be answered from a collection, once
	errors     dueErrors
	handedOver handedOver[*nameSub]
	held       map[string]string // versions of names the client holds, by key, until the name is answered
	heldAt     time.Time         // when the client said what it holds; zero if it did not
	merged     int               // updates that a later one replaced before they were sent
	renewals   renewals
	// What the survey found: more due than renewed ttls, anything, and removals.
	news, pending, removing bool
	refused                 bool   // the client rejected its last list (TTL-3)
	parts                   *parts // with the watches of the type in the stream's other stores; nil if there are none
}

// subscribe adds a name, a glob or "*", or has it sent again (SUB-5, SUB-6).
func (w *watch) subscribe(n Name) {
	switch {
	case n.Key == Wildcard:
		w.followWildcard(n.Spelling)
	case keyer.IsGlob(n.Key):
		w.followGlob(n)
	default:
		w.subscribeName(n)
	}
}

// followWildcard follows "*", which errors call by the client's name for it: none, if
// it subscribed by naming nothing (SUB-4, ERR-1).
func (w *watch) followWildcard(spelling string) {
	if w.wildcard != nil {
		w.wildcard.name = spelling
		w.wildcard.repeat()
		return
	}
	c := w.client.store.table(w.typeURL, wholeType).collection(Wildcard)
	w.observe(c.synced || c.live.len > 0)
	w.wildcard = c.follow(w, Wildcard)
	w.wildcard.name = spelling
}

func (w *watch) followGlob(n Name) {
	if g := w.globs[n.Spelling]; g != nil {
		g.repeat()
		g.lateAlready()
		return
	}
	c := w.client.store.table(w.typeURL, byName).collection(n.Key)
	w.observe(c.synced || c.live.len > 0)
	f := c.follow(w, n.Spelling)
	f.lateAlready()
	if w.globs == nil {
		w.globs = make(map[string]*cursor)
	}
	w.globs[n.Spelling] = f
	if n.Spelling != n.Key {
		if w.respelledGlobs == nil {
			w.respelledGlobs = make(map[string][]*cursor)
		}
		w.respelledGlobs[n.Key] = append(w.respelledGlobs[n.Key], f)
		w.directives = w.directives || undirected(n.Spelling, n.Key) != n.Spelling
	}
}

func (w *watch) observe(hit bool) {
	if w.client.reads() {
		return // what it wants was looked up where a client asked for it
	}
	w.client.store.cache.observer.Lookup(w.typeURL, hit)
}

func (w *watch) subscribeName(n Name) {
	sub := w.names.get(n.Spelling)
	if sub == nil {
		t := w.client.store.table(w.typeURL, byName)
		e := t.entry(n.Key)
		w.observe(e.state != unknown && e.state != transient)
		sub = &nameSub{watch: w, entry: e, pos: len(e.subs), holds: w.mayHave(e)}
		own := e.own()
		own.subs = append(own.subs, sub)
		t.lend(e)
		sub.spelling = intern(n.Spelling, e.key)
		t.references.usersChanged(e)
		t.watchers++
		if w.client.form.State {
			t.digests.use(1, t.entries)
			w.sum = w.sum.Plus(e.sum)
		}
		t.demand(e)
		t.unreached(e)
		w.names.add(sub)
		w.parts.add(n.Key, 1)
		if sub.located() {
			w.located++
			w.client.usesParameters()
		}
		if n.Key != n.Spelling {
			if w.respelledNames == nil {
				w.respelledNames = make(map[string][]*nameSub)
			}
			w.respelledNames[n.Key] = append(w.respelledNames[n.Key], sub)
		}
	}
	// What the client said it held when the stream began is not asked again: a
	// client that subscribes explicitly later may have forgotten it (RES-15).
	w.held = without(w.held, n.Key)
	w.answered(n.Key)
	sub.heartbeat = false // the content is sent again, and says its ttl
	if sub.entry.err != nil && sub.entry.there() {
		w.errors.add(sub)
	}
	t := w.client.store.table(w.typeURL, byName)
	t.askFor(sub)
	askAgain(sub.entry, w.client.store.cache.now)
	sub.lateAlready()
	known := sub.entry.state != unknown && sub.entry.state != transient
	if known || (w.full && sub.entry.listed() != nil) {
		sub.makeDue()
	}
}

// named reports whether the client subscribed to a key by name; then that is what
// it is served from, also where a collection holds the key.
func (w *watch) named(key string) bool {
	if w.names.get(key) != nil {
		return true
	}
	return len(w.respelledNames[key]) > 0
}

// subsOf are the client's subscriptions to a key, in all spellings.
func (w *watch) subsOf(key string) iter.Seq[*nameSub] {
	return func(yield func(*nameSub) bool) {
		if sub := w.names.get(key); sub != nil && !yield(sub) {
			return
		}
		for _, sub := range w.respelledNames[key] {
			if !yield(sub) {
				return
			}
		}
	}
}

// byName reports whether the client is served a member by its name, here or in another
// store, and so not by the cursor (GLOB-5). As long as nobody knows what the name stands
// for, the collection goes on serving it: what a client has must not vanish because it
// names it too, nor may it wait for a server that does not answer (SUB-1).
func (f *cursor) byName(key string) bool {
	w := f.watch
	sub := w.names.get(key)
	if sub == nil && len(w.respelledNames[key]) > 0 {
		sub = w.respelledNames[key][0]
	}
	if sub != nil {
		return !sub.entry.open()
	}
	return f.coll.wildcard() && w.namedElsewhere(key)
}

// stoodIn notes that the client was sent a member that it also names, while nobody knows
// what the name stands for. It holds that version then, as if it had said so: what the
// name brings is not sent again if it is the same (RES-11), and as long as the name is
// not answered no removal takes it away. Under another spelling it is something else.
func (f *cursor) stoodIn(e *entry) {
	w := f.watch
	if !w.named(e.key) {
		return
	}
	w.markHeld(e.key)
	sub := w.names.get(f.spell(e))
	if sub == nil || e.tainted || (e.life != nil && w.client.form.TTL) {
		w.held = without(w.held, e.key)
		return
	}
	if w.held == nil {
		w.held = make(map[string]string)
	}
	w.held[sub.entry.key] = strings.Clone(e.version()) // of which neither lies in bytes that may go
}

// mayHave reports whether the client may hold a resource because of a glob. A name that
// begins takes that over, since the glob may end before anything is sent. Then nothing
// else can tell of a removal, or knows that it is one (ADS-1, GLOB-5). Of a glob's
// spellings the oldest stands for all but the canonical one: a client may have many.
func (w *watch) mayHave(e *entry) bool {
	if len(w.globs) == 0 {
		return false
	}
	key := keyer.GlobOf(e.key)
	g, respelled := w.globs[key], w.respelledGlobs[key]
	return (g != nil && g.gave(e)) || (len(respelled) > 0 && respelled[0].gave(e))
}

// passOn has another spelling of a name know what the one that ended held: as long as
// there are some, one of them knows.
func (w *watch) passOn(key string) {
	if sub := w.names.get(key); sub != nil {
		sub.holds = true
	} else if subs := w.respelledNames[key]; len(subs) > 0 {
		subs[0].holds = true
	}
}

// sameBare reports whether resources that differ in their spelling may be the same
// ones to the client.
func (w *watch) sameBare() bool {
	form := w.client.form
	return form.State && !form.Wrapped && len(w.respelledNames)+len(w.respelledGlobs) > 0
}

// globFor is the cursor of a followed glob that key is a member of.
func (w *watch) globFor(key string) *cursor {
	if len(w.globs) == 0 {
		return nil
	}
	return w.followed(keyer.GlobOf(key))
}

// followed is the cursor of a glob, under one of its spellings.
func (w *watch) followed(glob string) *cursor {
	if g := w.globs[glob]; g != nil {
		return g
	}
	if gs := w.respelledGlobs[glob]; len(gs) > 0 {
		return gs[0]
	}
	return nil
}

// withoutOne takes v off the list under a key.
func withoutOne[V comparable](m map[string][]V, key string, v V) map[string][]V {
	list := m[key]
	if i := slices.Index(list, v); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		return without(m, key)
	}
	m[key] = list
	return m
}

func (w *watch) markHeld(key string) {
	for sub := range w.subsOf(key) {
		sub.holds = true
	}
}

// each gives all cursors of the watch, in no order.
func (w *watch) each() iter.Seq[*cursor] {
	return func(yield func(*cursor) bool) {
		if len(w.globs) > 0 { // to begin an iteration over no map costs as much as looking at a cursor
			for _, g := range w.globs {
				if !yield(g) {
					return
				}
			}
		}
		if w.wildcard != nil {
			yield(w.wildcard)
		}
	}
}

// cursors gives all cursors of the watch, in one order for all clients.
func (w *watch) cursors() iter.Seq[*cursor] {
	return func(yield func(*cursor) bool) {
		if len(w.globs) > 0 {
			for _, spelling := range slices.Sorted(maps.Keys(w.globs)) {
				if !yield(w.globs[spelling]) {
					return
				}
			}
		}
		if w.wildcard != nil {
			yield(w.wildcard)
		}
	}
}

// idle reports whether nothing is left of the watch.
func (w *watch) idle() bool {
	return w.names.len() == 0 && w.wildcard == nil && len(w.globs) == 0
}

// close ends all of it.
func (w *watch) close() {
	w.unlink()
	for f := range w.each() {
		f.unfollow()
	}
	for sub := range w.names.all() {
		sub.end()
	}
}
