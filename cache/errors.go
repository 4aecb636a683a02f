package cache

import (
	"math"
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// anyNumber is the limit of a client that takes all changes.
const anyNumber = math.MaxUint64

// noSuchResource is the error of a name of which the server said that it does not exist.
var noSuchResource = &wire.ResourceError{Code: codes.NotFound, Message: "the control plane has no such resource"}

// tellsAbsence reports whether a state-of-the-world client is told that the server said there
// is no such resource (ABS-1). A client that may hold the resource is not told: this form
// cannot express a removal (RES-3), and a list without the resource says it.
func (n *nameSub) tellsAbsence() bool { return n.entry.state == absent && !n.holds }

// errorOf is the error that a state-of-the-world client is told with the name, nil if there
// is none.
func (n *nameSub) errorOf() *wire.ResourceError {
	switch {
	case n.entry.state == failed:
		return n.entry.err
	case n.tellsAbsence():
		return noSuchResource
	}
	return nil
}

// mayTell reports whether the client may be told an error while removals up to a number may
// go. An error does not go before the removal that came with it.
func (f *cursor) mayTell(x *loggedError, upTo uint64) bool {
	e := f.coll.table.entries[x.key]
	return e == nil || e.coll != f.coll || !e.dead || e.changed <= max(f.removed, upTo)
}

// errorDue reports whether the client is to be told an error while removals up to a number
// may go. While the members are unknown and the client may hold some, no list is due for an
// error alone: the list would be empty (RES-2).
func (f *cursor) errorDue(upTo uint64) bool {
	if w := f.watch; w.full && w.presented != "" && !w.listed && !f.coll.synced {
		return false
	}
	x := f.coll.errors.after(f.errorSent)
	return x != nil && f.mayTell(x, upTo)
}

// tellsError reports whether the cursor tells the error of a key. It does not if the client
// names the key, here or in another store. That store tells the error (LOC-3), and a client
// that is told NOT_FOUND drops the resource.
func (f *cursor) tellsError(key string) bool {
	return !f.watch.named(key) && !(f.coll.wildcard() && f.watch.namedElsewhere(key))
}

// skipErrors advances past errors that the cursor does not tell.
func (f *cursor) skipErrors() {
	for x := f.coll.errors.after(f.errorSent); x != nil && !f.tellsError(x.key); x = x.next() {
		f.errorSent = x.number
	}
}

// spellError returns the name under which the client expects an error: the collection's as
// the client subscribed to it, a member's as the client is sent it (NAME-4).
func (f *cursor) spellError(x *loggedError) string {
	switch {
	case x.key == f.coll.key:
		return f.name
	case f.coll.wildcard():
		return x.err.Name
	}
	return f.spellKey(x.key)
}

// tellError puts an error into the batch (ERR-1), under the client's name for the resource
// (NAME-4). It reports whether there was room.
func (p *pass) tellError(err *wire.ResourceError, name string) bool {
	if !p.room(len(name) + err.Size()) {
		return false
	}
	p.putError(err, name)
	return true
}

// putError is tellError if there is room.
func (p *pass) putError(err *wire.ResourceError, name string) {
	switch c := p.watch.client; {
	case c.reads():
		x := p.cur.extras()
		x.failed = append(x.failed, Failure{name, *err})
	case c.form.State:
		p.cur.Body.AddStateError(*err, name)
	default:
		p.cur.Body.AddError(*err, name)
	}
}

// failed tells the error of a name without content. In the incremental form the name is in
// removed_resources too, for clients that do not know errors, if the error means that there
// is no such resource, or if the client may hold the resource.
func (p *pass) failed(e *entry, sub *nameSub) bool {
	if !p.room(len(sub.shown())*2 + e.err.Size() + nameOverhead) {
		return false
	}
	if c := p.watch.client; !c.form.State && !c.reads() && (sub.takesAway() || !e.err.Transient()) {
		if !p.removeVariant(sub, sub.located(), sub.shown()) {
			return false
		}
	}
	p.putError(e.err, sub.shown())
	p.taken(e, sub.pushed)
	return true
}

// errorsBeside tells the errors of names whose content stays.
func (p *pass) errorsBeside(w *watch) {
	for _, sub := range w.errors.sorted() {
		if p.full || !p.tellError(sub.entry.err, sub.shown()) {
			return
		}
		w.errors.drop(sub)
	}
}

// collectionErrors tells the errors of a collection and its members that came since the
// cursor. The error of a removed member does not go before the removal, and removals may go
// up to a number.
func (p *pass) collectionErrors(f *cursor, upTo uint64) {
	for x := f.coll.errors.after(f.errorSent); x != nil && f.mayTell(x, upTo); x = x.next() {
		if p.full || (f.tellsError(x.key) && !p.tellError(x.err, f.spellError(x))) {
			return
		}
		f.errorSent = x.number
	}
}

// stateErrors tells a state-of-the-world client, of a type whose responses need not hold
// everything, which names an error removed, and the errors of collections.
func (p *pass) stateErrors(w *watch, upTo uint64) {
	if p.turn(w, byName) {
		p.dirtyNames(w, true, upTo)
		for _, g := range w.globs {
			p.collectionErrors(g, upTo)
		}
	}
	if p.turn(w, wholeType) {
		p.collectionErrors(w.wildcard, upTo)
	}
}

// listErrors puts the errors into a list. The error of a removal after the number upTo waits:
// the list still has the resource (ADS-1).
func (p *pass) listErrors(w *watch, upTo uint64) {
	for _, sub := range w.dirty {
		if err := sub.errorOf(); err != nil && !sub.ended && !w.staysListed(sub, upTo) {
			p.putError(err, sub.shown())
		}
	}
	for _, sub := range w.errors.sorted() {
		p.putError(sub.entry.err, sub.shown())
		w.errors.drop(sub)
	}
	for f := range w.cursors() {
		for x := f.coll.errors.after(f.errorSent); x != nil && f.mayTell(x, upTo); x = x.next() {
			if f.tellsError(x.key) {
				p.putError(x.err, f.spellError(x))
			}
			f.errorSent = x.number
		}
	}
}

// collectionErrorDue reports whether an error of a collection is to be told while removals
// up to a number may go.
func (w *watch) collectionErrorDue(upTo uint64) bool {
	for f := range w.each() {
		if f.errorDue(upTo) {
			return true
		}
	}
	return false
}

// errorsDue reports whether an error is to be told with a list without the resources that
// were removed up to a number.
func (w *watch) errorsDue(upTo uint64) bool {
	return w.errors.any() || w.collectionErrorDue(upTo) || slices.ContainsFunc(w.dirty, func(sub *nameSub) bool {
		return !sub.ended && sub.errorOf() != nil && !w.staysListed(sub, upTo)
	})
}

// staysListed reports whether a list goes on holding a name that was removed.
func (w *watch) staysListed(sub *nameSub, upTo uint64) bool {
	return sub.takesAway() && sub.retained != nil && sub.entry.changed > upTo
}
