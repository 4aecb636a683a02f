package cache

import (
	"iter"
	"slices"
)

// What a client rejects with several resources in one response it does not use, though most
// of them may be good. They are sent once more in halves, and halved again, until what the
// client rejects stands alone (ACK-3). The rest of this file is what it takes to know, when
// a rejection comes, what the response held: a range of changes of each collection, and a
// mark on each name. Nothing is kept of what was acknowledged.

const (
	// maxSuspects bounds the resources of a table that go to everybody alone because some
	// client rejected them.
	maxSuspects = 64
	// maxRemovedKept bounds the names of removals that are kept of a response.
	maxRemovedKept = 64
)

// item is a resource that was sent, as it was: by a name, or as a member of a collection.
type item struct {
	entry   *entry
	sub     *nameSub // nil for a member
	changed uint64
}

// current reports whether the resource is still what was sent, and subscribed to.
func (i item) current(w *watch) bool {
	switch {
	case i.entry.changed != i.changed || i.entry.res == nil:
		return false
	case i.sub != nil:
		return !i.sub.ended
	}
	return i.entry.member() && w.following(i.entry.coll) != nil
}

// group is what goes once more in one response.
type group struct {
	items   []item
	removed []string // names that are told as removed again
	last    bool     // a rejection of it leads to nothing
}

// span is a range of changes of a collection: everything in it was sent.
type span struct {
	cursor   *cursor
	from, to uint64 // after the one, up to the other
}

// flight is what a response held, for as long as the client may reject it.
type flight struct {
	number  uint32 // of the type's responses in its place: see nameSub.response
	removed bool   // it removed something
	span    span   // the first; nearly always there is one
	extra   *flightExtra
}

// flightExtra is what few responses have.
type flightExtra struct {
	more  []span
	gone  []string // names that it told as removed, the first of them
	group *group   // nil unless it holds just that
}

func (f *flight) extras() *flightExtra {
	if f.extra == nil {
		f.extra = new(flightExtra)
	}
	return f.extra
}

// group is what the response holds alone, nil if it holds something else.
func (f *flight) group() *group {
	if f.extra == nil {
		return nil
	}
	return f.extra.group
}

// gone are names that the response told as removed, the first of them.
func (f *flight) gone() []string {
	if f.extra == nil {
		return nil
	}
	return f.extra.gone
}

// add notes that a member was sent: the one after the position from of its cursor, which
// came to the position to. joined says that the member before it was sent, too.
func (f *flight) add(c *cursor, from, to uint64, joined bool) {
	last := &f.span
	if f.extra != nil && len(f.extra.more) > 0 {
		last = &f.extra.more[len(f.extra.more)-1]
	}
	switch {
	case joined && last.cursor == c:
		last.to = to
	case f.span.cursor == nil:
		f.span = span{c, from, to}
	default:
		f.extras().more = append(f.extras().more, span{c, from, to})
	}
}

// removes notes a name that the response tells as removed.
func (f *flight) removes(name string) {
	f.removed = true
	if x := f.extras(); len(x.gone) < maxRemovedKept {
		x.gone = append(x.gone, name)
	}
}

// spans are all of them.
func (f *flight) spans() iter.Seq[span] {
	return func(yield func(span) bool) {
		if f.span.cursor == nil || !yield(f.span) || f.extra == nil {
			return
		}
		for _, s := range f.extra.more {
			if !yield(s) {
				return
			}
		}
	}
}

// rejections is what a client rejected of a type and is sent in parts.
type rejections struct {
	queue []group
	// pending are the resources in the queue, each with the number of its change.
	pending map[*entry]uint64
	// alone are the resources that the client rejected alone.
	alone map[*entry]*rejected
}

// rejected is a resource that a client rejected alone, and whether it was tried once more.
type rejected struct {
	item
	tried bool
}

// Rejected tells that the client rejected a response that came from a place. What is still
// current of the response is due again, in halves: the next Collect sends it. A resource
// that stood alone is not sent again until its content changes. It reports whether resources
// go once more.
func (s *Subscriber) Rejected(place *Client, b *Batch) (parts bool) {
	w, f := place.find(b.TypeURL), &b.flight
	s.refuses(b.TypeURL, true)
	if w == nil || w.full || (f.group() != nil && f.group().last) {
		return false
	}
	place.store.mu.RLock()
	items, removed := w.inFlight(f)
	place.store.mu.RUnlock()
	if len(removed) > 0 {
		w.sendOnceMore(group{removed: removed, last: true})
	}
	switch half := len(items) / 2; len(items) {
	case 0:
	case 1:
		w.rejectAlone(items[0])
	default:
		w.sendOnceMore(group{items: items[:half:half]})
		w.sendOnceMore(group{items: items[half:]})
	}
	return len(items) > 1
}

// Accepted tells that the client accepted a response that came from a place. If that removed
// something, what the client rejected is tried once more: what is gone may have stood in its
// way. It reports whether something is due for that.
func (s *Subscriber) Accepted(place *Client, b *Batch) bool {
	w := place.find(b.TypeURL)
	if s.refuses(b.TypeURL, false) {
		return true // ttls may have been renewed since (TTL-3)
	}
	if w == nil || w.again == nil || !b.flight.removed {
		return false
	}
	place.store.mu.RLock()
	defer place.store.mu.RUnlock()
	for e, r := range w.again.alone {
		switch {
		case !r.current(w):
			delete(w.again.alone, e)
		case !r.tried:
			r.tried = true
			w.sendOnceMore(group{items: []item{r.item}})
		}
	}
	return w.againDue()
}

// refuses notes whether the client rejected its last list, of all stores that it is of, and
// reports whether that is news.
func (s *Subscriber) refuses(typeURL string, refused bool) (news bool) {
	for _, c := range s.places {
		if w := c.find(typeURL); w != nil && w.full && w.refused != refused {
			w.refused, news = refused, true
		}
	}
	return news
}

// Rejects reports whether something of a type is left that the client rejected: something that
// goes once more, or that it rejected alone and that is still current.
func (s *Subscriber) Rejects(typeURL string) bool {
	return slices.ContainsFunc(s.places, func(c *Client) bool {
		w := c.find(typeURL)
		if w == nil || w.again == nil {
			return false
		}
		c.store.mu.RLock()
		defer c.store.mu.RUnlock()
		if w.againDue() {
			return true
		}
		for _, r := range w.again.alone {
			if r.current(w) {
				return true
			}
		}
		return false
	})
}

// inFlight gives what a response held and is still current, and what it removed.
func (w *watch) inFlight(f *flight) (items []item, removed []string) {
	if g := f.group(); g != nil {
		for _, i := range g.items {
			if i.current(w) {
				items = append(items, i)
			}
		}
		return items, g.removed
	}
	for s := range f.spans() {
		if w.following(s.cursor.coll) != s.cursor {
			continue
		}
		for e := s.cursor.coll.live.after(s.from, nil, s.cursor.coll); e != nil && e.changed <= s.to; e = e.next {
			switch sub := s.cursor.followedBy(e, f.number); {
			case e.res == nil:
			case sub != nil:
				items = append(items, item{entry: sub.entry, sub: sub, changed: sub.entry.changed})
			case !s.cursor.byName(e.key):
				items = append(items, item{entry: e, changed: e.changed})
			}
		}
	}
	for sub := range w.names.all() {
		if e := sub.entry; sub.response == f.number && (!sub.dirty || sub.heartbeat) && e.res != nil {
			items = append(items, item{entry: e, sub: sub, changed: e.changed})
		}
	}
	return items, f.gone()
}

// followedBy is the name that a member stood in for in a response, if the client was sent
// nothing by that name since: the member was counted as its answer, and that goes once more.
func (f *cursor) followedBy(e *entry, response uint32) *nameSub {
	w := f.watch
	sub := w.names.get(f.spell(e))
	if sub == nil || sub.entry.open() || sub.response >= response || !sub.entry.holdsVersion(e.version()) {
		return nil
	}
	if sub.dirty && !sub.heartbeat {
		w.held = without(w.held, sub.entry.key) // it is sent anyway
		return nil
	}
	return sub
}

// following is the cursor that follows a collection, nil if there is none.
func (w *watch) following(c *collection) *cursor {
	for f := range w.cursors() {
		if f.coll == c {
			return f
		}
	}
	return nil
}

func (w *watch) rejections() *rejections {
	if w.again == nil {
		w.again = &rejections{alone: make(map[*entry]*rejected), pending: make(map[*entry]uint64)}
	}
	return w.again
}

// sendOnceMore has a group sent with the next pass.
func (w *watch) sendOnceMore(g group) {
	a := w.rejections()
	a.queue = append(a.queue, g)
	for _, i := range g.items {
		a.pending[i.entry] = i.changed
	}
}

// lacksChange reports whether the client rejected what an entry held since the change with a
// number, and does not have it: it stood alone, or goes once more. No heartbeat is for that
// client, nor does it drop the resource by itself when the ttl runs out (TTL-3).
func (w *watch) lacksChange(e *entry, number uint64) bool {
	if w.again == nil {
		return false
	}
	if n, pending := w.again.pending[e]; pending && n == number {
		return true
	}
	r := w.again.alone[e]
	return r != nil && r.changed == number
}

// rejectAlone notes that the client rejected a resource that stood alone. To other clients
// it goes last and alone then.
func (w *watch) rejectAlone(i item) {
	a := w.rejections()
	if r := a.alone[i.entry]; r == nil || r.changed != i.changed {
		a.alone[i.entry] = &rejected{item: i}
	}
	s := w.client.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := w.tableOf(i.entry); t != nil && i.current(w) {
		t.suspectOne(i.entry)
	}
}

// suspectOne notes that a client rejected the content of e alone.
func (t *table) suspectOne(e *entry) {
	if e.suspect || t.suspects >= maxSuspects {
		return
	}
	e.suspect = true
	t.suspects++
	if e.member() {
		e.coll.runs.drop()
	}
}

// clear forgets that a client rejected what e held.
func (t *table) clear(e *entry) {
	if e.suspect {
		e.suspect = false
		t.suspects--
	}
}

// tableOf is the table of an entry that the client subscribes to.
func (w *watch) tableOf(e *entry) *table {
	if e.coll != nil {
		return e.coll.table
	}
	return w.client.store.tables[tableKey{w.typeURL, byName}]
}

// againDue reports whether something is to be sent once more.
func (w *watch) againDue() bool { return w.again != nil && len(w.again.queue) > 0 }

// again sends what goes once more, each group in a response of its own.
func (p *pass) again(w *watch) {
	a := w.again
	if a == nil {
		return
	}
	for len(a.queue) > 0 {
		g := a.queue[0]
		g.items = slices.DeleteFunc(slices.Clone(g.items), func(i item) bool { return !i.current(w) })
		if !p.group(w, &g) {
			return
		}
		for _, i := range a.queue[0].items {
			delete(a.pending, i.entry)
		}
		a.queue[0] = group{}
		a.queue = a.queue[1:]
	}
	a.queue = nil
	if len(a.alone) == 0 {
		w.again = nil
	}
}

// group sends one group; false if there is no room for a response.
func (p *pass) group(w *watch, g *group) bool {
	p.single = g
	defer func() { p.single, p.watch, p.cur = nil, nil, nil }()
	for _, i := range g.items {
		p.begin(w, w.tableOf(i.entry))
		var who any
		var name string
		if i.sub != nil {
			who, name = i.sub, i.sub.told()
		} else {
			who, name = i.entry, w.following(i.entry.coll).spell(i.entry)
		}
		if !p.addVariant(who, i.entry, i.entry.res, name, false) {
			return false
		}
		p.cluster(i.entry.res, false)
	}
	for _, name := range g.removed {
		p.begin(w, w.client.store.tables[tableKey{w.typeURL, w.anyKind()}])
		if !p.remove(name) {
			return false
		}
	}
	return true
}

// anyKind is one of the kinds of tables that the client subscribes to.
func (w *watch) anyKind() kind {
	if w.names.len()+len(w.globs) > 0 {
		return byName
	}
	return wholeType
}

// begin has what follows go into a response of its group, if it is not in one already.
func (p *pass) begin(w *watch, t *table) {
	if p.cur == nil || p.cur.flight.group() != p.single {
		p.cur, p.names = nil, nil
	}
	p.watch, p.table = w, t
}
