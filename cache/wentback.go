package cache

import (
	"bytes"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A control plane that comes back may have older content than clients do: it is a replica that is behind, or an
// operator rolled it back. The relay reports it and passes it on (SUR-7). Older content is content of the same name that
// newer content replaced within wentBackFor; the states that the store remembers have it (past).

// wentBackFor is how long ago content may have been replaced.
const wentBackFor = time.Hour

// wentBack counts the resources that went back with the present stream, until the observer is told.
type wentBack struct {
	names map[string]struct{} // nil after the observer was told
	told  int                 // how many the observer was told of, once a stream; zero: it was not
}

func (w *wentBack) count() int { return max(w.told, len(w.names)) }

// noteBack counts a resource whose content goes back, in the first state of a new stream. The caller has not recorded
// the change yet.
func (t *Table) noteBack(e *Entry, r *wire.Resource, now time.Time) {
	x := &t.upstream
	if e.res == nil || x.back.told > 0 || x.begun.IsZero() || now.After(x.begun.Add(t.store.source.longQuiet())) || !t.store.source.Guard.WentBack {
		return
	}
	if t.store.changes.past.replaced(pastName{tableKey{t.typeURL, t.kind}, e.key}, r, now) {
		x.back.names = with(x.back.names, strings.Clone(e.key))
	}
}

// tellBack tells the observer of content that went back. The caller holds no lock.
func (u *update) tellBack(s *Store) {
	if u.wentBack > 0 {
		s.cache.observer.WentBack(s.source.Upstream, u.response.TypeURL, u.wentBack)
	}
}

// countBack has tellBack tell of a table in which enough names went back.
func (u *update) countBack(t *Table) {
	if x := &t.upstream.back; len(x.names) > 0 && len(x.names) >= t.store.source.Guard.AtLeast {
		x.told, x.names = len(x.names), nil
		u.wentBack += x.told
	}
}

// replaced reports whether a name had the content of a resource before, and newer content replaced it lately.
func (p *past) replaced(name pastName, r *wire.Resource, now time.Time) bool {
	for _, b := range p.bursts {
		if was := b.before[name]; was != nil && now.Sub(b.ended) <= wentBackFor && bytes.Equal(was.Any(), r.Any()) {
			return true
		}
	}
	return false
}
