package delivery

import (
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// noSuchResource is the error of a name of which the server said that it does not exist.
var noSuchResource = &wire.ResourceError{Code: codes.NotFound, Message: "the control plane has no such resource"}

// tellsAbsence reports whether a state-of-the-world client is told that the server said there
// is no such resource (ABS-1). A client that may hold the resource is not told: this form
// cannot express a removal (RES-3), and a list without the resource says it.
func (n *nameSub) tellsAbsence() bool {
	return (n.entry.State() == cache.Absent || n.denied() || n.concealed()) && !n.holds
}

// concealed reports whether the client is told that there is no such resource in place of an error.
func (n *nameSub) concealed() bool {
	return n.entry.State() == cache.Failed && !n.holds && n.typeSub.conceals(n.entry.Err())
}

// errorOf is the error that a state-of-the-world client is told with the name, nil if there is
// none.
func (n *nameSub) errorOf() *wire.ResourceError {
	switch {
	case n.entry.State() == cache.Failed && !n.concealed():
		return n.entry.Err()
	case n.tellsAbsence() && !n.knowsAbsent():
		return noSuchResource
	}
	return nil
}

// mayTell reports whether the client may be told an error while removals up to a number may go.
// An error does not go before the removal that came with it.
func (f *follower) mayTell(x *cache.LoggedError, upTo uint64) bool {
	e := f.Collection().Table().Find(x.Key())
	return e == nil || e.Collection() != f.Collection() || !e.Marks().Tombstone || e.Changed() <= max(f.Removed(), upTo)
}

// errorDue reports whether the client is to be told an error while removals up to a number may
// go. While the members are unknown and the client may hold some, no list is due for an error
// alone: the list would be empty (RES-2).
func (f *follower) errorDue(upTo uint64) bool {
	if f.typeSub.list.mayHaveAll() && !f.Collection().Synced() {
		return false
	}
	x := f.Collection().ErrorsAfter(f.errorSent)
	return x != nil && f.mayTell(x, upTo)
}

// errorsBeside tells the errors of names whose content stays.
func (p *delivery) errorsBeside(w *typeSub) {
	for _, sub := range w.changed.errors.sorted() {
		if p.writer.full || !p.writer.tellError(sub.entry.Err(), sub.spelling) {
			return
		}
		w.changed.errors.drop(sub)
	}
}

// collectionErrors sends the errors of a collection and its members after the follower's
// position. The error of a removed member does not go before the removal, and removals may go
// up to a number.
func (p *delivery) collectionErrors(f *follower, upTo uint64) {
	for x := f.Collection().ErrorsAfter(f.errorSent); x != nil && f.mayTell(x, upTo); x = x.Next() {
		if p.writer.full {
			return
		}
		if f.typeSub.subs.tellsError(f, x) {
			if !p.writer.tellError(x.Err(), f.name.ofError(x, f.Collection())) {
				return
			}
			f.doubtFailed(x)
		}
		f.errorSent = x.Number()
	}
}

// doubtFailed records that the client was told an error. With one that takes a resource away the client forgets
// what it said it holds, before it is told the removal: it needs what comes then, also if that is the same (RES-11).
func (f *follower) doubtFailed(x *cache.LoggedError) {
	switch {
	case x.Err().Transient():
	case x.Key() == f.Collection().Key():
		f.held.doubt()
	case f.held.has(x.Key()):
		f.mayHold(x.Key())
	}
}

// errorsDue reports whether an error is to be told with a list without the resources that were
// removed up to a number.
func (w *typeSub) errorsDue(upTo uint64) bool {
	return w.changed.errors.any() || w.subs.collectionErrorDue(upTo) || w.changed.has(func(sub *nameSub) bool {
		return sub.errorOf() != nil && !sub.staysListed(upTo)
	})
}

// collectionErrorDue reports whether an error of a collection is to be told while removals up
// to a number may go.
func (s *subscribed) collectionErrorDue(upTo uint64) bool {
	return s.hasFollower(func(f *follower) bool { return f.errorDue(upTo) })
}
