package cache

import (
	"iter"
	"slices"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// A stream may have places in several stores, and "*" of its scope may bring what it
// also subscribes to in the store of an authority, by name or by glob, or in that of the
// scope that a name has by itself (AGG-1). That authority's upstream says what its names
// stand for (LOC-3), and that scope's what the name does: what the client subscribes to
// there is served from there alone, and from "*" again when that has ended. "*" then answers for
// it (SUB-8): what it has the client keeps, until both subscriptions are gone (GLOB-5).
// Were both to tell, the one's removal would take away what the other has.

// move carries out what a change says of subscriptions in other stores, save answerMembers.
func (w *watch) move(ch Change) {
	if w.wildcard == nil {
		for _, n := range ch.Answer {
			w.answerGlobbed(n)
		}
		return
	}
	for _, n := range ch.Elsewhere {
		w.answered(n.Key)
		if w.elsewhere == nil {
			w.elsewhere = make(map[string]struct{})
		}
		w.elsewhere[n.Key] = struct{}{}
	}
	for _, n := range ch.Kept {
		w.elsewhere = without(w.elsewhere, n.Key)
	}
	for _, n := range ch.Answer {
		w.elsewhere = without(w.elsewhere, n.Key)
		if keyer.IsGlob(n.Key) {
			w.wildcard.doubt(n.Key)
		} else {
			w.answer(n)
		}
	}
}

// doubt has what the cursor has yet to come to under a glob that ended in another store
// told in any case: what the client held of it when the cursor began the other store may
// have replaced since. What the cursor has come to is answered (answerMembers).
func (f *cursor) doubt(glob string) {
	if f.versions != nil {
		f.versions.doubtUnder(glob)
	}
}

// isElsewhere reports whether a key is subscribed to in another store.
func (w *watch) isElsewhere(key string) bool { return meant(w.elsewhere, key) }

// meant reports whether names and globs mean a key.
func meant(subs map[string]struct{}, key string) bool {
	if len(subs) == 0 {
		return false
	}
	_, named := subs[key]
	if !named && keyer.IsXDSTP(key) {
		_, named = subs[keyer.GlobOf(key)]
	}
	return named
}

// answerGlobbed tells what a glob has under a name that "*" of another store brought, or
// that it has not: of a glob that begins, or is in the same store as "*" no longer.
func (w *watch) answerGlobbed(n Name) {
	g := w.globFor(n.Key)
	if g == nil || w.named(n.Key) {
		return
	}
	e := g.coll.table.entries[n.Key]
	switch {
	case e != nil && g.passed(e):
		w.answer(n)
	default:
		g.mayHold(n.Key)
	}
}

// atOnce is how many members of a glob are answered before others have their turn.
const atOnce = 4096

// answerMembers tells what "*" has of globs of another store that ended. There may be as
// many as "*" has members. The caller is the client's stream, which collects nothing
// meanwhile, and holds no lock: what becomes of a member in between is told as well.
func (c *Client) answerMembers(w *watch, ended []Name) {
	f := w.wildcard
	if f == nil {
		return
	}
	passed := func(e *entry) bool { return f.passed(e) && !f.byName(e.key) }
	for _, n := range ended {
		if !keyer.IsGlob(n.Key) {
			continue
		}
		for some := range slices.Chunk(c.under(f, n.Key, passed), atOnce) {
			c.store.mu.Lock()
			for _, member := range some {
				w.answer(member)
			}
			c.store.mu.Unlock()
		}
	}
}

// Brought are the members of globs that "*" of a type has brought to the client, in no
// order, and some maybe twice: also those that are gone, as long as the client was not told.
func (c *Client) Brought(typeURL string, globs []Name) []Name {
	w := c.find(typeURL)
	if w == nil || w.wildcard == nil {
		return nil
	}
	var names []Name
	seen := make(map[string]bool)
	for _, n := range globs {
		if keyer.IsGlob(n.Key) && !seen[n.Key] {
			seen[n.Key] = true
			names = append(names, c.under(w.wildcard, n.Key, w.wildcard.gave)...)
		}
	}
	if len(seen) > 0 {
		names = append(names, w.wildcard.owesGone(seen)...)
	}
	return names
}

// owesGone are the names under globs that the client may hold because of the cursor, and
// that the collection lacks, or may lack.
func (f *cursor) owesGone(globs map[string]bool) []Name {
	var names []Name
	add := func(key string) {
		if keyer.IsXDSTP(key) && globs[keyer.GlobOf(key)] {
			names = append(names, Name{Spelling: key, Key: key})
		}
	}
	s := f.client.store
	s.mu.RLock()
	for e := f.coll.tombs.after(f.removed, f.tomb, f.coll); e != nil; e = e.next {
		if f.mayHave(e) {
			add(e.key)
		}
	}
	s.mu.RUnlock()
	// These change with the client's own stream only, which is the caller.
	for key := range f.versions.keys() {
		add(key)
	}
	return names
}

// Names are the names and globs that the client subscribes to of a type, without "*".
// They must not be changed meanwhile.
func (c *Client) Names(typeURL string) iter.Seq[Name] {
	return func(yield func(Name) bool) {
		w := c.find(typeURL)
		if w == nil {
			return
		}
		for sub := range w.names.all() {
			if !yield(Name{Spelling: sub.spelling, Key: sub.entry.key}) {
				return
			}
		}
		for spelling, g := range w.globs {
			if !yield(Name{Spelling: spelling, Key: g.coll.key}) {
				return
			}
		}
	}
}
