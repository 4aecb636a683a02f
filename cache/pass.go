package cache

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// pass gathers the batches of one Collect.
type pass struct {
	size, left int
	looked     int  // members looked at so far
	forced     bool // what is taken now goes out although an acknowledgement is awaited
	removing   bool
	joined     bool // the member before was sent
	renewing   bool // what is taken now the client has; it is told the ttl, in the state of the world
	full       bool
	out        []*Batch
	now        time.Time // of the pass, once it was asked for
	// The batch that is being filled, for one watch and kind.
	cur   *Batch
	watch *watch
	table *table
	names map[string]bool // in cur, where one could come twice (RES-4)
	// By type URL, the keys that the parts of a list hold; nil if it has one part.
	keys map[string]map[string]bool
	gone []goneVariant // to be removed at the end (DYN-1)

	sub      *Subscriber // nil for a reader
	upTo     uint64      // changes up to this number are taken
	single   *group      // what is taken now goes into a response of its own (ACK-3)
	warms    bool        // the clusters that are sent are noted
	clusters []sentCluster
	afresh   bool // clusters were sent to a client that had none
}

// turn begins another watch or kind, which has its own batches. It reports
// whether the watch has anything of that kind.
func (p *pass) turn(w *watch, k kind) bool {
	switch {
	case p.full:
		return false
	case k == byName && w.names.len()+len(w.globs) == 0:
		return false
	case k == wholeType && w.wildcard == nil:
		return false
	}
	t := p.tableOf(w, k)
	if p.watch != w || p.table != t || (p.cur != nil && p.cur.Removal != p.removing) {
		p.watch, p.table, p.cur, p.names = w, t, nil, nil
	}
	return true
}

// tableOf is the table of a kind that the client subscribes to.
func (p *pass) tableOf(w *watch, k kind) *table {
	if k == wholeType {
		return w.wildcard.coll.table
	}
	if p.watch == w && p.table != nil && p.table.kind == k {
		return p.table
	}
	return w.client.store.tables[tableKey{w.typeURL, k}]
}

// first reports whether a name is not in the batch yet, where that is in
// question, and notes that it is now.
func (p *pass) first(name string) bool {
	if !p.table.aliases.used() && !p.table.absences.any() && !p.watch.directives && p.watch.located == 0 && !p.watch.sameBare() {
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
	if p.cur != nil {
		if taken := p.cur.Body.Size() + int(p.cur.owed); taken == 0 || taken+n <= p.size {
			return true
		}
	}
	if p.left == 0 {
		p.full = true
		return false
	}
	p.left--
	p.names = nil
	p.cur = &Batch{
		TypeURL: p.watch.typeURL, Rank: p.watch.rank, Removal: p.removing,
		SystemVersion: p.table.systemVersion, Store: p.table.store, last: p.removing,
	}
	p.watch.responses++
	p.cur.flight.number = p.watch.responses
	if p.single != nil {
		p.cur.flight.extras().group = p.single
	}
	if p.watch.client.form.State {
		p.cur.SystemVersion, p.cur.Renewal = p.watch.version(digest.Sum{}), p.renewing
	}
	p.out = append(p.out, p.cur)
	p.merged(p.watch, 0)
	return true
}

// maxLooked is how many members a pass looks at. It holds the store's lock for reading,
// and changes wait for it: a million small members take many passes.
const maxLooked = 1 << 15

// look counts a member, or reports that the pass has looked at enough of them.
func (p *pass) look() bool {
	p.looked++
	p.full = p.full || p.looked > maxLooked
	return !p.full
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

const (
	// nameOverhead is what a name takes in a response beyond its own bytes.
	nameOverhead = 8
	// wrapOverhead is what wrapping takes (RES-13).
	wrapOverhead = 72
)

// add puts r, the content of e, into the batch.
func (p *pass) add(e *entry, r *wire.Resource, name string, pushed bool) bool {
	form := p.watch.client.form
	if form.State && !form.Wrapped {
		name = r.Name // a bare payload carries the server's spelling (NAME-4)
	}
	size, ttl := r.Size()+len(name)+nameOverhead, p.remaining(e)
	if ttl > 0 {
		size += ttlOverhead
	}
	if form.Wrapped {
		size += wrapOverhead
	}
	if !p.room(size) {
		return false
	}
	if !p.first(variantName(name, r)) {
		return true
	}
	switch {
	case form.Wrapped:
		p.cur.Body.AddWrappedTTL(r, name, ttl)
	case form.State:
		p.cur.Body.AddAny(r)
	case ttl > 0:
		p.cur.Body.AddTTL(r, name, ttl)
	case name == r.Name:
		p.cur.Body.Add(r)
	default:
		p.cur.Body.AddAs(r, name)
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
		p.cur.flight.removes(name)
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
	if e.there() {
		p.cur.content.Add(e.changed)
	}
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
		p.dirtyNames(w, false, p.upTo)
		p.removeSurplus(w)
		p.errorsBeside(w)
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

// dirtyNames takes the dirty names: those that took something away up to a number, or
// the others.
func (p *pass) dirtyNames(w *watch, away bool, upTo uint64) {
	kept := w.dirty[:0]
	for _, sub := range w.dirty {
		switch {
		case sub.ended:
		case p.full, sub.takesAway() != away, sub.entry.changed > upTo, sub.heartbeat && (p.forced || w.client.form.State), !p.name(w, sub):
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
	case present, transient:
		name := sub.told()
		v, held := w.held[e.key]
		if !held {
			v, held = w.claimedByAlias(e)
		}
		switch {
		case sub.heartbeat:
			if !p.nameHeartbeat(sub, name) {
				return false
			}
			sub.holds = true
		case held && e.holdsVersion(v) && !p.outlived(e, sub.pushed): // RES-11: the client has it
			if !p.known(e, name) {
				return false
			}
			sub.holds = true
			if e.res != nil {
				p.variantSent(sub, e.res, name)
			}
		case e.suspect && p.sub != nil:
			w.sendOnceMore(group{items: []item{{e, sub, e.changed}}})
			sub.holds = true
		default:
			r := e.contentOr(w.handedOver[sub])
			if r != nil && !p.addVariant(sub, e, r, name, sub.pushed) {
				return false
			}
			if r != nil {
				sub.response = p.cur.flight.number
				p.cluster(r, !sub.holds)
			}
			sub.holds = sub.holds || r != nil
		}
		w.comparedByAlias(e)
	case absent:
		if !p.absent(sub) {
			return false
		}
	case failed:
		if !p.failed(e, sub) {
			return false
		}
		if sub.stays() {
			sub.dirty, sub.pushed = false, false
			return true
		}
	case unknown:
		if sub.tellsLost() && !p.removeVariant(sub, sub.located(), sub.shown()) {
			return false
		}
	}
	w.held = without(w.held, e.key)
	w.handedOver.drop(sub)
	sub.holds = sub.holds && e.there()
	sub.dirty, sub.pushed, sub.heartbeat, sub.denied = false, false, false, false
	return true
}

// absent tells that what a name stood for does not exist: the state of the world has an
// error for it (ABS-1).
func (p *pass) absent(sub *nameSub) bool {
	e := sub.entry
	if p.watch.client.form.State {
		if !p.tellError(noSuchResource, sub.shown()) {
			return false
		}
		p.taken(e, sub.pushed)
		return true
	}
	if e.answer() != nil && sub.watch.passesAnswers() {
		return p.unresolved(e, sub.pushed)
	}
	if !p.removeVariant(sub, sub.located(), sub.shown()) {
		return false
	}
	if sub.holds && e.served() != "" && sub.watch.passesAnswers() && !p.removeServed(sub.watch, e.served()) {
		return false
	}
	p.taken(e, sub.pushed)
	return true
}

// removeServed tells the removal of what served an alias: the client knows it by its own
// name (RES-10).
func (p *pass) removeServed(w *watch, name string) bool {
	if !p.remove(name) {
		return false
	}
	if w.wildcard != nil {
		w.wildcard.compared(name)
	}
	return true
}

// follow takes the members of a collection that changed since the cursor.
func (p *pass) follow(w *watch, f *cursor) {
	c := f.coll
	if w.client.form.TTL && !p.ttls(f) {
		return
	}
	p.joined = false
	for e := p.runs(f, c.live.after(f.sent, f.at, c)); e != nil && e.changed <= p.upTo; e = p.runs(f, e.next) {
		if p.full || !p.look() || !p.member(w, f, e) {
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
	v, held := f.versions.get(e.key)
	if !held {
		v, held = w.held[e.key] // by a name that is not answered
	}
	r := e.contentOr(f.handedOver[e])
	joined := p.joined
	p.joined = false
	switch {
	case f.byName(e.key):
	case held && e.holdsVersion(v) && !p.outlived(e, pushed): // RES-11
		if !p.known(e, f.spell(e)) {
			return false
		}
		if e.res != nil {
			p.variantSent(e, e.res, f.spell(e))
		}
	case r == nil: // it was sent it, or the server is asked again for it (TTL-5)
	case e.suspect && p.sub != nil:
		w.sendOnceMore(group{items: []item{{e, nil, e.changed}}})
	default:
		if !p.addVariant(e, e, r, f.spell(e), pushed) {
			return false
		}
		p.cur.flight.add(f, f.sent, e.changed, joined)
		p.joined = true
		p.cluster(r, !held && f.isNew(e))
		w.answered(e.key)
		f.stoodIn(e)
	}
	w.returned(e.key)
	f.compared(e.key)
	f.handedOver.drop(e)
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
