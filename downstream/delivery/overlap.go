package delivery

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A stream may have one resource by its name, by a glob and by "*", in one store or in
// several: "*" and opaque names live in the store of a scope, which a rule may choose by the
// name (AGG-1), and xdstp names and globs in that of their upstream. An upstream speaks only for its
// own authorities (Source.Speaks), so an xdstp name means the same in all of them (NAME-2).
// To tell it twice is harmless; only a removal can do harm. Hence the rules:
//
//   - "*" does not tell what the stream names, in any store (follower.byName). As long as the name
//     is not answered in the same store "*" goes on.
//   - When a name ends, the subscription that remains answers: a glob, else "*" (SUB-8, GLOB-5).
//     Likewise a glob answers, in place of a removal, when "*" loses a member of it.
//   - A list holds each resource once, "*" last. "*" goes on listing what is not answered in
//     another store (RES-2, RES-4).

// leaveToGlob has a glob that the stream follows answer for a member of "*" that is gone. It
// reports whether that is instead of the removal: if the glob gives the member another name
// than "*" (NAME-4), the removal is told first. A reader (nil) is told all removals.
func (s *Subscriber) leaveToGlob(f *follower, key, name string) (instead bool) {
	if !f.name.wildcard || s == nil {
		return false
	}
	owe := func(o *subscribed) bool {
		g := o.globs.calling(key, name)
		if instead = g != nil; !instead {
			g = o.globs.of(key)
		}
		if g != nil {
			s.debts = append(s.debts, debt{g.typeSub, g, cache.Name{Spelling: g.name.ofKey(key), Key: key}, instead})
		}
		return instead
	}
	subs := &f.typeSub.subs
	if subs.parts == nil {
		return owe(subs)
	}
	return slices.ContainsFunc(subs.parts.all, owe)
}

// leaveToNames has the names of the stream in other stores answer for a member of "*" that is gone:
// "*" does not tell what they name. A reader (nil) has one store.
func (s *Subscriber) leaveToNames(f *follower, key string) {
	subs := &f.typeSub.subs
	if !f.name.wildcard || !subs.parts.named(key, subs) {
		return
	}
	for _, o := range subs.parts.all {
		if sub := o.names.one(key); o != subs && sub != nil {
			s.debts = append(s.debts, debt{sub.typeSub, nil, cache.Name{Key: key}, true})
		}
	}
}

// settleDebts has globs and names answer for the members that "*" lost in this Collect, and reports
// whether there is any such answer.
func (s *Subscriber) settleDebts() bool {
	debts := s.debts
	s.debts = nil
	for _, d := range debts {
		d.typeSub.place.store.Edit(func() { d.settle() })
	}
	return len(debts) > 0
}

// settle has the glob tell what it holds under a name that the client has from "*", or, if the
// client may have it still, that it holds nothing.
func (d *debt) settle() {
	g, w := d.glob, d.typeSub
	if w.subs.names.named(d.name.Key) {
		if d.instead {
			w.subs.names.lost(d.name.Key)
		}
		return
	}
	switch e := g.Collection().Table().Find(d.name.Key); {
	case e != nil && g.Passed(e):
		w.answers.owe(d.name)
	case d.instead: // told when the follower comes to it, or when nothing is known to be there
		g.mayHold(d.name.Key)
	}
}

// release has the subscriptions that remain answer for names that ended. The caller holds the
// store's lock.
func (u *update) release() {
	star := u.subs.star()
	if star == nil {
		return
	}
	for _, n := range u.ended {
		switch {
		case u.subs.names.named(n.Key):
		case star == u.subs.wildcard, u.subs.globs.of(n.Key) != nil:
			u.typeSub.answers.owe(n)
		default:
			u.others = append(u.others, n)
		}
	}
}

// tellStar has "*" of another store answer for names that ended. If a glob ended, "*" believes
// no version any longer that the client said it holds: the glob may have brought it something
// else since. The caller holds no lock.
func (u *update) tellStar() {
	star := u.subs.star()
	if star == nil || (len(u.others) == 0 && !u.globEnded) {
		return
	}
	star.typeSub.place.store.Edit(func() {
		for _, n := range u.others {
			star.typeSub.answers.owe(n)
		}
		if u.globEnded {
			star.held.doubt()
		}
	})
}
