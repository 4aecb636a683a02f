package delivery

import (
	"github.com/xdsrelay/xdsrelay/cache"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// beginner reports whether the follower only needs all members that were there when it began.
func (f *follower) beginner() bool {
	w := f.typeSub
	switch {
	case !w.place.incremental(), f.name.renamed, w.subs.globs.directives, w.subs.screen != nil:
	case f.held != nil:
	case w.subs.names.len() > 0, w.again != nil, w.held.versions != nil, w.answers != nil:
	case f.Collection().Wildcard() && w.subs.parts.anyNamed(&w.subs):
	default:
		return f.Collection().Chunked()
	}
	return false
}

// chunks takes members from e on, as many at a time as are sent alike to all clients that begin to
// follow the collection. It gives the first member that it did not take. It opens a batch only if
// something goes into it, maybe that member.
func (p *delivery) chunks(f *follower, e *cache.Entry) *cache.Entry {
	c := f.Collection()
	if e == nil || e.Changed() > f.Begun() || !f.beginner() {
		return e
	}
	upTo := min(f.Begun(), p.upTo)
	for e != nil && e.Changed() <= upTo && p.looked < cache.MaxLooked && c.Plain(e) && p.writer.room(int(e.Size())) {
		left := p.writer.size - p.writer.cur.Body.Size()
		r, ok := c.Chunk(e, upTo, left, cache.MaxLooked-p.looked)
		if !ok {
			break
		}
		p.writer.typeSub.put(p.writer.cur, outgoing{body: r.Body})
		p.writer.cur.flight.add(f, f.Sent(), r.Last.Changed(), p.joined)
		p.writer.cur.flight.news = true
		p.joined, p.afresh = true, p.afresh || p.writer.typeSub.rank == xds.RankCluster
		p.writer.typeSub.progress.led = true
		p.looked += r.Body.Resources()
		p.writer.record(e, false)
		p.writer.record(r.Last, false)
		f.Advance(r.Last)
		f.answered = true
		e = r.Last.Next()
	}
	return e
}
