package cache

import (
	"sync"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// minRun is the number of members from which on a collection's runs are worth being kept.
const minRun = 32

// run is some members of a collection that follow each other, gathered once for all
// clients that begin to follow it.
type run struct {
	body *wire.Body
	last *entry
}

// runs are those of a collection, by their first members. They are built under the
// store's read lock, and so guarded by a lock of their own, the last one to be taken;
// whoever changes the collection holds the store's lock for writing, needs no other, and
// drops them: they always hold what the members hold now.
type runs struct {
	mu      sync.Mutex
	by      map[*entry]run
	members int // in all of them
}

func (r *runs) drop() { r.by, r.members = nil, 0 }

// keep keeps a run that begins with e. Streams that came to e in responses with different
// room may have different ones; there are never many times the collection's members.
func (r *runs) keep(e *entry, made run, limit int) {
	if r.members > limit {
		r.drop()
	}
	if r.by == nil {
		r.by = make(map[*entry]run)
	}
	if old, ok := r.by[e]; ok {
		r.members -= old.body.Resources()
	}
	r.by[e] = made
	r.members += made.body.Resources()
}

// run gives the one that begins with e, of members up to the number born and in the
// bounds that a pass has left.
func (c *collection) run(e *entry, born uint64, size, members int) (run, bool) {
	c.runs.mu.Lock()
	defer c.runs.mu.Unlock()
	r, ok := c.runs.by[e]
	if ok && r.last.changed <= born && r.body.Size() <= size && r.body.Resources() <= members {
		return r, true
	}
	if r = c.gather(e, born, size, members); r.last == nil {
		return run{}, false // it fills a response by itself
	}
	c.runs.keep(e, r, 2*c.live.len)
	return r, true
}

// gather makes a run that begins with e. It ends before what some clients are not sent
// just as it is stored.
func (c *collection) gather(e *entry, born uint64, size, members int) run {
	var resources []*wire.Resource
	r := run{}
	for ; e != nil && e.changed <= born && len(resources) < members && c.plain(e); e = e.next {
		if size -= e.res.Size(); size < 0 {
			break
		}
		resources = append(resources, e.res)
		r.last = e
	}
	r.body = wire.Gather(resources)
	return r
}

// plain reports whether a member is sent as it is stored to whoever is to have it.
func (c *collection) plain(e *entry) bool {
	name := e.key
	if c.wildcard() {
		name = e.name()
	}
	return e.state == present && !e.suspect && !e.alias && e.life == nil && name == e.res.Name && !e.res.Constrained()
}

// beginner reports whether a cursor has nothing to do with members that were there before
// it but to have all of them sent.
func (f *cursor) beginner() bool {
	w := f.watch
	switch {
	case w.client.form.State, w.client.reads(), f.renamed, w.directives:
	case f.versions != nil, f.handedOver != nil:
	case w.names.len() > 0, w.again != nil, w.held != nil, w.answers != nil, w.variants != nil:
	case f.coll.wildcard() && w.namesElsewhere():
	default:
		return f.coll.live.len >= w.client.store.cache.minRun && !f.coll.table.aliases.used()
	}
	return false
}

// runs takes members from e on, as many at a time as are sent alike to whoever begins to
// follow the collection. It gives the first one that it did not take. It opens a batch
// only for what goes into it, be it that member.
func (p *pass) runs(f *cursor, e *entry) *entry {
	c := f.coll
	if e == nil || e.changed > f.born || !f.beginner() {
		return e
	}
	born := min(f.born, p.upTo)
	for e != nil && e.changed <= born && p.looked < maxLooked && c.plain(e) && p.room(int(e.size())) {
		left := p.size - p.cur.Body.Size() - int(p.cur.owed)
		r, ok := c.run(e, born, left, maxLooked-p.looked)
		if !ok {
			break
		}
		p.cur.Body.AddBody(r.body)
		p.cur.flight.add(f, f.sent, r.last.changed, p.joined)
		p.joined, p.afresh = true, p.afresh || p.watch.rank == RankCluster
		p.watch.led = true
		p.looked += r.body.Resources()
		p.taken(e, false)
		p.taken(r.last, false)
		f.sent, f.at, f.told = r.last.changed, r.last, true
		e = r.last.next
	}
	return e
}
