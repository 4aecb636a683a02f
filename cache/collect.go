package cache

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// ErrBehind says that removals were forgotten that the client was not told of: it
// must open a new stream and present what it holds (RES-11).
var ErrBehind = errors.New("the client is too far behind: removals that it was not told of are forgotten")

// Batch is what one response holds.
type Batch struct {
	TypeURL       string
	Rank          Rank
	Removal       bool // removals that wait for later types (ADS-1)
	SystemVersion string
	Body          wire.Builder
	// Received is when the oldest of the changes in it came from upstream; zero if
	// it only answers a subscription.
	Received time.Time
	Merged   int // changes that later ones replaced before they were sent
	// Store is where it comes from, and Last the number of the youngest change in
	// it (Store.Sequence).
	Store *Store
	Last  uint64
}

// Collect takes what the client lacks, in the order in which it is to be sent.
//
// All types are seen at one point of the upstream's sequence. busy tells for which
// types an acknowledgement is outstanding: they wait, unless a later type has
// something to send that must not overtake their additions (ADS-2). It is called
// under the store's lock. Batches hold up to size bytes, or one resource if that
// is larger; at most parts batches are taken, and more reports that some are
// left. The error is ErrBehind.
func (c *Client) Collect(busy func(typeURL string) bool, size, parts int) (batches []*Batch, more bool, err error) {
	return c.collect(busy, busy, size, parts, false)
}

// CollectAdditions is Collect without the removals that wait for later types
// (ADS-1): for a stream with places in several stores, whose later types may be
// due in another one.
func (c *Client) CollectAdditions(busy func(typeURL string) bool, size, parts int) (batches []*Batch, more bool, err error) {
	return c.collect(busy, busy, size, parts, true)
}

// CollectOvertaken is CollectAdditions of some types only, though their ACKs are
// outstanding: for a stream that is about to send a later type out of another
// store (ADS-2). types tells which; busy is as in Collect.
func (c *Client) CollectOvertaken(types, busy func(typeURL string) bool, size, parts int) (batches []*Batch, more bool, err error) {
	return c.collect(func(typeURL string) bool { return !types(typeURL) }, busy, size, parts, true)
}

// Due reports whether anything is left to be sent but removals that wait for
// later types.
func (c *Client) Due() bool {
	c.store.mu.RLock()
	defer c.store.mu.RUnlock()
	return slices.ContainsFunc(c.watches, func(w *watch) bool {
		return w.additionsDue() || (!w.rank.waits() && w.removalsDue())
	})
}

// collect takes what is due, save types that are to wait. busy tells for which ones
// an acknowledgement is outstanding, and so will bring the stream here again.
func (c *Client) collect(waits, busy func(typeURL string) bool, size, parts int, additions bool) ([]*Batch, bool, error) {
	c.store.mu.RLock()
	defer c.store.mu.RUnlock()
	defer c.rest(busy)
	if c.behind() {
		return nil, false, ErrBehind
	}
	p := &pass{size: size, left: parts}
	last := Rank(-1) // the last one that has something to send, not only to hold back
	for i, w := range c.watches {
		if !waits(w.typeURL) && (w.additionsDue() || (w.removalsDue() && !w.heldBack(c.watches[i+1:]))) {
			last = w.rank
		}
	}
	for i, w := range c.watches {
		forced := waits(w.typeURL)
		if forced && w.rank >= last {
			continue
		}
		p.additions(w)
		if !p.full && !forced && (!w.rank.waits() || (!additions && !anyDue(c.watches[i+1:]))) {
			p.removals(w)
		}
		if p.full {
			return p.out, true, nil // a later type must not overtake what is left
		}
	}
	p.removing = true
	for i, w := range c.watches {
		if additions {
			break
		}
		if w.rank.waits() && !waits(w.typeURL) && !w.heldBack(c.watches[i+1:]) {
			p.removals(w)
		}
	}
	return p.out, p.full, nil
}

// rest notes that the client has collected: the next change wakes it, save for
// types with something left that wait for an acknowledgement (Store.wake).
func (c *Client) rest(busy func(typeURL string) bool) {
	c.woken = false
	for _, w := range c.watches {
		w.woken = busy(w.typeURL) && w.due()
	}
}

func (c *Client) behind() bool {
	for _, w := range c.watches {
		if w.wildcard != nil && w.wildcard.behind() {
			return true
		}
		for _, g := range w.globs {
			if g.behind() {
				return true
			}
		}
	}
	return false
}

func anyDue(later []*watch) bool {
	return slices.ContainsFunc(later, (*watch).due)
}

// heldBack reports whether the removals of a watch must wait for something of a
// later rank that is not sent yet (ADS-1).
func (w *watch) heldBack(later []*watch) bool {
	return w.rank.waits() && slices.ContainsFunc(later, func(l *watch) bool {
		return l.rank > w.rank && (l.additionsDue() || (!l.rank.waits() && l.removalsDue()))
	})
}

func (w *watch) due() bool { return w.additionsDue() || w.removalsDue() }

func (w *watch) additionsDue() bool {
	for _, sub := range w.dirty {
		if !sub.ended && !sub.takesAway() {
			return true
		}
	}
	for _, g := range w.globs {
		if g.addsDue() {
			return true
		}
	}
	if w.wildcard != nil && w.wildcard.addsDue() {
		return true
	}
	for _, n := range w.answers {
		if e, known := w.lookup(n); known && e != nil {
			return true
		}
	}
	return false
}

func (w *watch) removalsDue() bool {
	for _, n := range w.answers {
		if e, known := w.lookup(n); known && e == nil {
			return true
		}
	}
	for _, sub := range w.dirty {
		if !sub.ended && sub.takesAway() {
			return true
		}
	}
	for _, g := range w.globs {
		if g.removalsDue() {
			return true
		}
	}
	return w.wildcard != nil && w.wildcard.removalsDue()
}

// takesAway reports whether what is due removes something that the client may
// hold, rather than telling it for the first time that there is nothing (RES-6).
func (n *nameSub) takesAway() bool { return n.holds && n.entry.state != present }

// pass gathers the batches of one Collect.
type pass struct {
	size, left int
	removing   bool
	full       bool
	out        []*Batch
	// The batch that is being filled, for one watch and kind.
	cur   *Batch
	watch *watch
	table *table
	names map[string]bool // in cur, where one could come twice (RES-4)
}

// turn begins another watch or kind, which has its own batches. It reports
// whether the watch has anything of that kind.
func (p *pass) turn(w *watch, k kind) bool {
	switch {
	case p.full:
		return false
	case k == byName && len(w.names)+len(w.globs) == 0:
		return false
	case k == wholeType && w.wildcard == nil:
		return false
	}
	t := w.client.store.tables[tableKey{w.typeURL, k}]
	if p.watch != w || p.table != t || (p.cur != nil && p.cur.Removal != p.removing) {
		p.watch, p.table, p.cur, p.names = w, t, nil, nil
	}
	return true
}

// first reports whether a name is not in the batch yet, where that is in
// question, and notes that it is now.
func (p *pass) first(name string) bool {
	if p.table.aliased == nil && !p.watch.directives {
		return true
	}
	if p.names[name] {
		return false
	}
	if p.names == nil {
		p.names = make(map[string]bool)
	}
	p.names[name] = true
	return true
}

// room makes sure that n more bytes fit into the batch, or reports that this
// pass's parts are used up.
func (p *pass) room(n int) bool {
	if p.cur != nil && (p.cur.Body.Size() == 0 || p.cur.Body.Size()+n <= p.size) {
		return true
	}
	if p.left == 0 {
		p.full = true
		return false
	}
	p.left--
	p.names = nil
	p.cur = &Batch{
		TypeURL: p.watch.typeURL, Rank: p.watch.rank, Removal: p.removing,
		SystemVersion: p.table.systemVersion, Store: p.table.store,
	}
	p.out = append(p.out, p.cur)
	p.merged(p.watch, 0)
	return true
}

// merged counts changes that were merged away in the type's last batch, or in its
// next one if there was nothing to tell of them.
func (p *pass) merged(w *watch, n int) {
	w.merged += n
	for _, b := range slices.Backward(p.out) {
		if w.merged > 0 && b.TypeURL == w.typeURL {
			b.Merged += w.merged
			w.merged = 0
		}
	}
}

// nameOverhead is what a name takes in a response beyond its own bytes.
const nameOverhead = 8

// add puts a resource into the batch.
func (p *pass) add(e *entry, name string, pushed bool) bool {
	if !p.room(e.res.Size() + len(name) + nameOverhead) {
		return false
	}
	if !p.first(name) {
		return true
	}
	if name == e.res.Name {
		p.cur.Body.Add(e.res)
	} else {
		p.cur.Body.AddAs(e.res, name)
	}
	p.taken(e, pushed)
	return true
}

func (p *pass) remove(name string) bool {
	if !p.room(len(name) + nameOverhead) {
		return false
	}
	if p.first(name) {
		p.cur.Body.Remove(name)
	}
	return true
}

// taken notes that the last change of e is in the batch, and its age if it is on
// its way to somebody who waited for it.
func (p *pass) taken(e *entry, pushed bool) {
	if p.cur == nil {
		return
	}
	p.cur.Last = max(p.cur.Last, e.changed)
	if !pushed {
		return
	}
	if at := time.Unix(0, e.received); p.cur.Received.IsZero() || at.Before(p.cur.Received) {
		p.cur.Received = at
	}
}

// additions takes what a watch is to be told, save removals from its collections
// and, where these wait for later types, of its names.
func (p *pass) additions(w *watch) {
	if p.turn(w, byName) {
		p.dirtyNames(w, false)
		for _, g := range w.globs {
			if p.full {
				return
			}
			p.follow(w, g)
		}
		p.answers(w, byName, false)
	}
	if p.turn(w, wholeType) {
		p.follow(w, w.wildcard)
		p.answers(w, wholeType, false)
	}
}

// removals takes the rest.
func (p *pass) removals(w *watch) {
	if p.turn(w, byName) {
		p.dirtyNames(w, true)
		for _, g := range w.globs {
			if p.full {
				return
			}
			p.bury(w, g)
		}
	}
	if p.turn(w, wholeType) {
		p.bury(w, w.wildcard)
		p.answers(w, wholeType, true)
	}
}

// dirtyNames takes the dirty names: those that take something away, or the others.
func (p *pass) dirtyNames(w *watch, away bool) {
	kept := w.dirty[:0]
	for _, sub := range w.dirty {
		switch {
		case sub.ended:
		case p.full, sub.takesAway() != away, !p.name(w, sub):
			kept = append(kept, sub)
		}
	}
	clear(w.dirty[len(kept):])
	w.dirty, w.ended = kept, 0
	if len(kept) == 0 {
		w.dirty = nil
	}
}

// name takes one dirty name; false if there is no room.
func (p *pass) name(w *watch, sub *nameSub) bool {
	e := sub.entry
	switch e.state {
	case present:
		if v, ok := w.held[e.key]; ok && e.holdsVersion(v) {
			break // RES-11: the client has it
		}
		name := sub.spelling
		if e.alias {
			name = e.res.Name
		}
		if !p.add(e, name, sub.pushed) {
			return false
		}
	case absent:
		if !p.remove(sub.spelling) {
			return false
		}
		p.taken(e, sub.pushed)
	case failed:
		if !p.fail(e, sub) {
			return false
		}
	case unknown:
	}
	w.held = without(w.held, e.key)
	sub.holds = e.state == present
	sub.dirty, sub.pushed = false, false
	return true
}

// fail tells a resource error; where it means that there is no such resource, it
// is said in removed_resources too, for clients that do not know errors (ERR-1).
func (p *pass) fail(e *entry, sub *nameSub) bool {
	if !p.room(len(sub.spelling)*2 + len(e.err.Message) + 4*nameOverhead) {
		return false
	}
	p.cur.Body.AddError(*e.err, sub.spelling)
	if e.err.Code == codes.NotFound || e.err.Code == codes.PermissionDenied {
		p.cur.Body.Remove(sub.spelling)
	}
	p.taken(e, sub.pushed)
	return true
}

// follow takes the members of a collection that changed since the cursor.
func (p *pass) follow(w *watch, f *cursor) {
	c := f.coll
	f.reached = max(f.reached, f.sent)
	for e := c.live.after(f.sent, f.at, c); e != nil; e = e.next {
		if !p.member(w, f, e) {
			return
		}
		f.sent, f.at = e.changed, e
		f.told = true
	}
	if !f.told && c.knownEmpty() {
		if c.wildcard() {
			// There is no word for an empty type but a response without resources; a
			// client that starts waits for it.
			if !p.room(0) {
				return
			}
		} else if !p.remove(f.name) { // GLOB-4
			return
		}
		f.told = true
	}
	p.level(w, f)
}

// member takes one member; false if there is no room.
func (p *pass) member(w *watch, f *cursor, e *entry) bool {
	pushed := e.changed > f.born
	v, held := f.versions[e.key]
	switch {
	case w.named(e.key): // served by name
	case held && e.holdsVersion(v): // RES-11
	default:
		if !p.add(e, f.spell(e), pushed) {
			return false
		}
		w.answered(e.key)
	}
	f.compared(e.key)
	if pushed {
		f.since++
	}
	return true
}

// level counts what merging saved, once the cursor is level with its collection.
func (p *pass) level(w *watch, f *cursor) {
	if f.addsDue() || f.removalsDue() {
		return
	}
	if merged := int(f.coll.changes-f.seen) - f.since; merged > 0 {
		p.merged(w, merged)
	}
	f.seen, f.since = f.coll.changes, 0
}

// bury takes the members that were removed since the cursor, and what the client
// said it holds and the collection has not (RES-11).
func (p *pass) bury(w *watch, f *cursor) {
	c := f.coll
	for e := c.tombs.after(f.removed, f.tomb, c); e != nil; e = e.next {
		_, held := f.versions[e.key]
		_, owed := w.answers[e.key]
		switch {
		case w.named(e.key):
			f.since++
		case held || owed || e.added <= f.reached:
			if !p.remove(f.spell(e)) {
				return
			}
			p.taken(e, true)
			f.since++
		default: // what came and went between two passes needs no word
		}
		f.compared(e.key)
		w.answered(e.key)
		f.removed, f.tomb = e.changed, e
	}
	if f.leftoverDue() {
		for _, key := range slices.Sorted(maps.Keys(f.versions)) {
			if !w.named(key) && !p.remove(f.spellKey(key)) {
				return
			}
			f.compared(key)
		}
	}
	p.level(w, f)
}

// answers tells what the collections of a kind hold under names whose own
// subscription ended (SUB-8), or what "*" does not.
func (p *pass) answers(w *watch, k kind, away bool) {
	for key, n := range w.answers {
		e, known := w.lookup(n)
		switch {
		case p.full:
			return
		case !known || away != (e == nil):
			continue
		case e == nil:
			if !p.remove(n.Spelling) {
				return
			}
		case e.coll.table.kind != k:
			continue
		case !p.add(e, w.cursorOf(e).spell(e), false):
			return
		}
		if w.wildcard != nil {
			w.wildcard.compared(key)
		}
		w.answered(key)
	}
}

// answered notes that nothing is owed for a key any more.
func (w *watch) answered(key string) {
	if w.answers != nil {
		w.answers = without(w.answers, key)
	}
}

// cursorOf is the one that follows the collection of a member.
func (w *watch) cursorOf(e *entry) *cursor {
	if e.coll.wildcard() {
		return w.wildcard
	}
	return w.globFor(e.key)
}

// lookup finds a name in the collections that the client follows. known is false
// as long as the wildcard's members may still be on their way, and where the
// removal is told by the cursor.
func (w *watch) lookup(n Name) (e *entry, known bool) {
	g := w.globFor(n.Key)
	if g != nil {
		if e, told := g.lookup(n.Key); e != nil || told {
			return e, e != nil
		}
	}
	if w.wildcard == nil {
		return nil, false
	}
	e, told := w.wildcard.lookup(n.Key)
	return e, e != nil || (!told && w.wildcard.coll.synced)
}

// lookup finds a member; willTell reports that it was one, and that the cursor is
// still to tell of its removal.
func (f *cursor) lookup(key string) (e *entry, willTell bool) {
	e = f.coll.table.entries[key]
	switch {
	case e == nil || e.coll != f.coll:
		return nil, false
	case e.dead:
		return nil, e.changed > f.removed
	}
	return e, false
}
