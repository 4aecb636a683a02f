package cache

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// A stream may have one resource by its name, by a glob and by "*", in one store or in
// several: "*" and opaque names live in the store of a scope, which a rule may choose by the
// name (AGG-1), and xdstp names and globs in that of their upstream. An upstream speaks only for its
// own authorities (Source.Speaks), so an xdstp name means the same in all of them (NAME-2).
// To tell it twice is harmless; only a removal can do harm. Hence the rules:
//
//   - "*" does not tell what the stream names, in any store (cursor.byName). As long as the name
//     is not answered in the same store "*" goes on.
//   - When a name ends, the subscription that remains answers: a glob, else "*" (SUB-8, GLOB-5).
//     Likewise a glob answers, in place of a removal, when "*" loses a member of it.
//   - A list holds each resource once, "*" last. "*" goes on listing what is not answered in
//     another store (RES-2, RES-4).

// maxParts is the number of stores above which the keys that a stream names are counted, so
// that not all stores are looked through for each member of "*".
const maxParts = 16

// parts are the watches of one type that a stream has in several stores. It belongs to the
// stream's goroutine, and so do the names and globs of its watches as far as it reads them.
type parts struct {
	watches []*watch
	// names counts by key the names that are subscribed to; nil up to maxParts.
	names map[string]int
}

// link joins a watch that begins to those of its type in the stream's other stores.
func (s *Subscriber) link(w *watch) {
	if s == nil {
		return
	}
	for _, c := range s.places {
		o := c.find(w.typeURL)
		if o == nil || o == w {
			continue
		}
		if o.parts == nil {
			o.parts = &parts{watches: []*watch{o}}
		}
		w.parts = o.parts
		w.parts.watches = append(w.parts.watches, w)
		w.parts.count()
		return
	}
}

// unlink ends that.
func (w *watch) unlink() {
	if w.parts == nil {
		return
	}
	for sub := range w.names.all() {
		w.parts.add(sub.entry.key, -1)
	}
	w.parts.watches = slices.DeleteFunc(w.parts.watches, func(o *watch) bool { return o == w })
	w.parts = nil
}

// count begins to count names, if there are enough stores.
func (p *parts) count() {
	if p.names != nil || len(p.watches) <= maxParts {
		return
	}
	p.names = make(map[string]int)
	for _, w := range p.watches {
		for sub := range w.names.all() {
			p.add(sub.entry.key, 1)
		}
	}
}

// add counts a name that begins or ends.
func (p *parts) add(key string, n int) {
	if p == nil || p.names == nil {
		return
	}
	if p.names[key] += n; p.names[key] == 0 {
		delete(p.names, key)
	}
}

// namedElsewhere reports whether the stream names a key in another store.
func (w *watch) namedElsewhere(key string) bool {
	switch p := w.parts; {
	case p == nil:
		return false
	case p.names != nil:
		return p.names[key] > 0 && !w.named(key)
	default:
		return slices.ContainsFunc(p.watches, func(o *watch) bool { return o != w && o.names.len() > 0 && o.named(key) })
	}
}

// namesElsewhere reports whether the stream names anything in another store.
func (w *watch) namesElsewhere() bool {
	return w.parts != nil && slices.ContainsFunc(w.parts.watches, func(o *watch) bool { return o != w && o.names.len() > 0 })
}

// star is the watch with which the stream follows "*", in this store or another; nil if it
// does not.
func (w *watch) star() *watch {
	switch {
	case w.wildcard != nil:
		return w
	case w.parts == nil:
		return nil
	}
	for _, o := range w.parts.watches {
		if o.wildcard != nil {
			return o
		}
	}
	return nil
}

// globCalling is the cursor of a glob that gives the client a member under a name; nil if the
// watch has none.
func (w *watch) globCalling(key, name string) *cursor {
	if len(w.globs) == 0 {
		return nil
	}
	glob := keyer.GlobOf(key)
	if g := w.globs[glob]; g != nil && g.spellKey(key) == name {
		return g
	}
	for _, g := range w.respelledGlobs[glob] {
		if g.spellKey(key) == name {
			return g
		}
	}
	return nil
}

// debt is an answer that a glob owes for a member that "*" lost.
type debt struct {
	glob    *cursor
	name    Name
	instead bool // of the removal, which was not told
}

// leaveToGlob has a glob that the stream follows answer for a member of "*" that is gone. It
// reports whether that is instead of the removal: if the glob gives the member another name
// than "*" (NAME-4), the removal is told first.
func (f *cursor) leaveToGlob(key, name string) (instead bool) {
	w, s := f.watch, f.client.sub
	if !f.coll.wildcard() || s == nil {
		return false
	}
	owe := func(o *watch) bool {
		g := o.globCalling(key, name)
		if instead = g != nil; !instead {
			g = o.globFor(key)
		}
		if g != nil {
			s.debts = append(s.debts, debt{g, Name{Spelling: g.spellKey(key), Key: key}, instead})
		}
		return instead
	}
	if w.parts == nil {
		return owe(w)
	}
	return slices.ContainsFunc(w.parts.watches, owe)
}

// settleDebts has globs answer for what "*" lost in the present pass, and reports whether
// there is any such answer.
func (s *Subscriber) settleDebts() bool {
	debts := s.debts
	s.debts = nil
	for _, d := range debts {
		store := d.glob.client.store
		store.mu.Lock()
		d.glob.answerFor(d.name, d.instead)
		store.mu.Unlock()
	}
	return len(debts) > 0
}

// answerFor has a glob tell what it holds under a name that the client has from "*", or, if the
// client may have it still, that it holds nothing.
func (f *cursor) answerFor(n Name, mayHave bool) {
	switch e := f.coll.table.entries[n.Key]; {
	case f.watch.named(n.Key): // its own answer says what became of it
	case e != nil && f.passed(e):
		f.watch.answer(n)
	case mayHave: // told when the cursor comes to it, or when it is known that there is nothing
		f.mayHold(n.Key)
	}
}

// released has the subscriptions that remain answer for names that ended. The caller holds the
// lock of the watch's store. What "*" of another store is to answer is returned.
func (w *watch) released(ended []Name) (others []Name) {
	star := w.star()
	if star == nil {
		return nil
	}
	for _, n := range ended {
		switch {
		case w.named(n.Key):
		case star == w, w.globFor(n.Key) != nil:
			w.answer(n)
		default:
			others = append(others, n)
		}
	}
	return others
}

// tellStar has "*" of another store answer for names that ended. If a glob ended, "*" believes no
// version any longer that the client said it holds: the glob may have brought it something else
// since. The caller holds no lock.
func (w *watch) tellStar(ended []Name, globEnded bool) {
	star := w.star()
	if star == nil || (len(ended) == 0 && !globEnded) {
		return
	}
	store := star.client.store
	store.mu.Lock()
	defer store.mu.Unlock()
	for _, n := range ended {
		star.answer(n)
	}
	if globEnded {
		star.wildcard.versions.doubt()
	}
}
