package delivery

import (
	"iter"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/digest"
)

// respelled reports whether two of them may differ in nothing but their spelling.
func (s *subscribed) respelled() bool { return len(s.names.respelled)+len(s.globs.respelled) > 0 }

// each returns all followers, in no order.
func (s *subscribed) each() iter.Seq[*follower] {
	return func(yield func(*follower) bool) {
		if len(s.globs.all) > 0 { // to begin an iteration over no map costs as much as looking at a follower
			for _, g := range s.globs.all {
				if !yield(g) {
					return
				}
			}
		}
		if s.wildcard != nil {
			yield(s.wildcard)
		}
	}
}

// cursors returns all followers, in one order for all clients.
func (s *subscribed) cursors() iter.Seq[*follower] {
	return func(yield func(*follower) bool) {
		for _, g := range s.globs.sorted() {
			if !yield(g) {
				return
			}
		}
		if s.wildcard != nil {
			yield(s.wildcard)
		}
	}
}

// idle reports whether nothing is subscribed to.
func (s *subscribed) idle() bool {
	return s.names.len() == 0 && s.wildcard == nil && len(s.globs.all) == 0
}

// hasFollower reports whether one of the followers is as asked.
func (s *subscribed) hasFollower(asked func(*follower) bool) bool {
	for f := range s.each() {
		if asked(f) {
			return true
		}
	}
	return false
}

// following returns the follower of a collection, nil if there is none.
func (s *subscribed) following(c *cache.Collection) *follower {
	for f := range s.cursors() {
		if f.Collection() == c {
			return f
		}
	}
	return nil
}

// cursorOf is the one that follows the collection of a member.
func (s *subscribed) cursorOf(e *cache.Entry) *follower {
	if e.Collection().Wildcard() {
		return s.wildcard
	}
	return s.globs.of(e.Key())
}

// anyKind is one of the kinds of tables that the client subscribes to.
func (s *subscribed) anyKind() cache.Kind {
	if s.names.len()+len(s.globs.all) > 0 {
		return cache.ByName
	}
	return cache.WholeType
}

// wildcardOnly reports whether "*" is all that is subscribed to.
func (s *subscribed) wildcardOnly() bool {
	return s.wildcard != nil && s.names.len()+len(s.globs.all) == 0
}

// anyKnown reports whether anything is known of what the client subscribes to: a resource, or
// that there is none.
func (s *subscribed) anyKnown() bool {
	return s.idle() || s.names.has(func(n *nameSub) bool { return !n.entry.Open() }) || s.hasFollower(func(f *follower) bool {
		c := f.Collection()
		if s.screen != nil { // members that do not exist to the client are nothing to know
			return c.Answered() || (c.Restored() && c.Len() > 0)
		}
		return c.Synced() || c.Len() > 0 || (c.Len() == 0 && c.Answered())
	})
}

// known reports whether every name is answered and every collection synced, or was given its
// time.
func (s *subscribed) known() bool {
	return !s.open() &&
		!s.names.has(func(n *nameSub) bool { return n.entry.Unanswered() })
}

// open reports whether a collection may have more members, and has not been given its time.
func (s *subscribed) open() bool {
	return s.hasFollower(func(f *follower) bool { return f.Collection().Awaited() })
}

// settles reports whether the server has begun to send a collection, and may have more members.
func (s *subscribed) settles() bool {
	return s.hasFollower(func(f *follower) bool { return f.Collection().Awaited() && f.Collection().Answered() })
}

// has reports whether the client was sent what it subscribes to under a name.
func (s *subscribed) has(name string) bool {
	if sub := s.names.get(name); sub != nil {
		return sub.exists() && !sub.dirty
	}
	return s.hasFollower(func(f *follower) bool {
		e := f.Collection().Table().Find(name)
		return e != nil && f.Passed(e) && !f.hides(e)
	})
}

// digest is the sum of what the client's subscriptions to the type hold, and of something
// extra.
func (s *subscribed) digest(extra digest.Sum) digest.Sum {
	if s.screen != nil {
		return s.screened(extra)
	}
	total := s.names.sum.Plus(extra)
	for _, g := range s.globs.all {
		total = total.Plus(g.Collection().Digest())
	}
	if s.wildcard != nil {
		total = total.Plus(s.wildcard.Collection().Digest())
	}
	return total
}

// wait has the next change of each collection ring for the type.
func (s *subscribed) wait() {
	for f := range s.each() {
		f.Wait()
	}
}

// heldDue reports whether the client holds something that is known not to exist.
func (s *subscribed) heldDue() bool { return s.hasFollower((*follower).heldDue) }

// newlySynced lists the globs that are synced and were not when a reader asked last.
func (s *subscribed) newlySynced() []string {
	var all []string
	for _, f := range s.globs.all {
		if f.Collection().Synced() && !f.synced {
			f.synced = true
			all = append(all, f.Collection().Key())
		}
	}
	return all
}

// byName reports whether the client is sent a member by its name, here or in another store, and
// so not by the follower (GLOB-5). Until the name is answered the collection goes on serving
// it: a resource that a client has must not vanish because the client names it too, nor wait
// for a server that does not answer (SUB-1).
func (s *subscribed) byName(f *follower, key string) bool {
	if sub := s.names.one(key); sub != nil {
		return !sub.entry.Open()
	}
	return f.name.wildcard && s.parts.named(key, s)
}

// tellsError reports whether a follower tells the error of a key. It does not if the client
// names the key, here or in another store. That store tells the error (LOC-3), and a client
// that is told NOT_FOUND drops the resource. A member of which the error tells too much is not there.
func (s *subscribed) tellsError(f *follower, x *cache.LoggedError) bool {
	key := x.Key()
	return !s.names.named(key) && !(f.name.wildcard && s.parts.named(key, s)) && !f.hidesKey(key) &&
		(key == f.Collection().Key() || !f.typeSub.conceals(x.Err()))
}

// answerName returns the name under which a member is sent in place of another subscription:
// the name that ended, if a glob has it too.
func (s *subscribed) answerName(e *cache.Entry, n cache.Name) string {
	if !e.Collection().Wildcard() && s.globs.calling(e.Key(), n.Spelling) != nil {
		return n.Spelling
	}
	return s.cursorOf(e).name.of(e)
}

// lookup finds a name in the collections that the client follows. known is false as long as the
// wildcard's members may still be on their way, and where the follower is still to tell the
// removal.
func (s *subscribed) lookup(n cache.Name) (e *cache.Entry, known bool) {
	g := s.globs.of(n.Key)
	if g != nil {
		if e, told := s.lookupIn(g, n.Key); e != nil || told {
			return e, e != nil
		}
	}
	switch {
	case s.wildcard == nil:
		return nil, g != nil && g.Collection().Synced()
	case s.parts.named(n.Key, s):
		return nil, false // it was named again
	}
	e, told := s.lookupIn(s.wildcard, n.Key)
	return e, e != nil || (!told && s.wildcard.Collection().Synced())
}

// star returns the follower of "*" in this store or another; nil if the stream does not follow
// "*".
func (s *subscribed) star() *follower {
	switch {
	case s.wildcard != nil:
		return s.wildcard
	case s.parts == nil:
		return nil
	}
	for _, o := range s.parts.all {
		if o.wildcard != nil {
			return o.wildcard
		}
	}
	return nil
}

// lookupIn finds a member; willTell reports that it was one, and that the follower is still to
// tell of its removal.
func (s *subscribed) lookupIn(f *follower, key string) (e *cache.Entry, willTell bool) {
	e = f.Collection().Table().Find(key)
	switch {
	case e == nil || e.Collection() != f.Collection() || f.hides(e):
		return nil, false
	case e.Marks().Tombstone:
		return nil, e.Changed() > f.Removed()
	}
	return e, false
}

// screened is digest for a client that may not have all that its subscriptions hold.
func (s *subscribed) screened(total digest.Sum) digest.Sum {
	for sub := range s.names.all() {
		if s.screen.allows(Version, sub.spelling, sub.entry.ServedName()) {
			total = total.Plus(sub.entry.Digest())
		}
	}
	for f := range s.cursors() {
		for e := f.Collection().First(); e != nil; e = e.Next() {
			if s.screen.allows(Version, f.name.of(e), e.ServedName()) {
				total = total.Plus(e.Digest())
			}
		}
	}
	return total
}
