package cache

import (
	"cmp"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"google.golang.org/grpc/codes"
)

// recordPut records what an entry holds before it gets other content. coll is the collection that it
// is, or becomes, a member of.
func (t *Table) recordPut(e *Entry, r *wire.Resource, coll *Collection, now time.Time) {
	if r.Restored() || !t.records() {
		return
	}
	c := cmp.Or(coll, e.coll)
	first := e.res == nil && e.state != Absent && (c == nil || e.state == Failed || !c.hasWhole())
	if first && !t.store.changes.past.rollsBack {
		return // the first answer
	}
	t.noteBack(e, r, now)
	t.record(e, now)
}

// recordRemoval records what an entry holds before it is removed. Content whose ttl ran out, or to
// which access was withdrawn, is not given again.
func (t *Table) recordRemoval(e *Entry, err *wire.ResourceError, now time.Time) {
	withdrawn := err != nil && err.Code == codes.PermissionDenied
	if e.res != nil && !withdrawn && !e.extra.life.ranOut() && t.records() {
		t.record(e, now)
	}
}

// records reports whether changes of a table are recorded.
func (t *Table) records() bool {
	s := t.store
	return s.cache.past.generations.Load() > 0 && !assigns(t.typeURL) && t.typeURL != xds.LbEndpointType &&
		!s.source.Resolved && (s.source.Unrecorded == nil || !s.source.Unrecorded(t.typeURL))
}

func (t *Table) record(e *Entry, now time.Time) {
	if e.marks.Alias || e.res != nil && e.res.DoNotCache {
		return
	}
	p, c := &t.store.changes.past, t.store.cache
	b := p.burst(now)
	name := pastName{tableKey{t.typeURL, t.kind}, e.key}
	if _, twice := b.before[name]; !twice {
		if e.res != nil && e.res.Name == e.key {
			name.key = e.res.Name // which lies in the bytes that are kept anyway
		} else {
			name.key = strings.Clone(e.key)
		}
		b.before[name] = e.res
		size := pastOverhead + e.Size()
		b.bytes += size
		c.past.bytes.Add(size)
	}
	limit := c.past.limit.Load()
	for len(p.bursts) > 0 && (len(p.bursts) > int(c.past.generations.Load()) || limit > 0 && c.past.bytes.Load() > limit) {
		c.past.bytes.Add(-p.forget())
	}
}
