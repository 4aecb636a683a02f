package cache

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// anyNumber is the limit of who takes all changes.
const anyNumber = math.MaxUint64

// noSuchResource is the error of a name of which the server said that it does not exist.
var noSuchResource = &wire.ResourceError{Code: codes.NotFound, Message: "the control plane has no such resource"}

// tellsAbsence reports whether a state-of-the-world client is told that the server said there
// is no such resource (ABS-1). Of what the client may hold it is not: this form has no word
// for a removal (RES-3), and a list that leaves it out says so.
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

// tell puts an error into the batch (ERR-1), under the client's name for what it is of
// (NAME-4). It reports whether there was room.
func (p *pass) tell(err *wire.ResourceError, name string) bool {
	if !p.room(len(name) + err.Size()) {
		return false
	}
	p.say(err, name)
	return true
}

// say is tell where room was made.
func (p *pass) say(err *wire.ResourceError, name string) {
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

// fail tells the error of a name of which nothing is held. In the incremental form it
// is said in removed_resources too, for clients that do not know errors, if it means
// that there is no such resource, or if the client may hold what went away before it.
func (p *pass) fail(e *entry, sub *nameSub) bool {
	if !p.room(len(sub.shown())*2 + e.err.Size() + nameOverhead) {
		return false
	}
	if c := p.watch.client; !c.form.State && !c.reads() && (sub.takesAway() || !e.err.Transient()) {
		if !p.removeVariant(sub, sub.located(), sub.shown()) {
			return false
		}
	}
	p.say(e.err, sub.shown())
	p.taken(e, sub.pushed)
	return true
}

// ambient tells the errors of names whose content stays.
func (p *pass) ambient(w *watch) {
	for _, sub := range w.failing() {
		if p.full || !p.tell(sub.entry.err, sub.shown()) {
			return
		}
		sub.forgiven()
	}
}

// failing lists the names of whose error the client was not told yet.
func (w *watch) failing() []*nameSub {
	if w.fails == nil {
		return nil
	}
	return slices.SortedFunc(maps.Keys(w.fails), func(a, b *nameSub) int { return strings.Compare(a.spelling, b.spelling) })
}

// failures tells the errors of a collection and its members that came since the cursor. One
// that took a member away comes no sooner than the removal, of which those up to a number
// may go.
func (p *pass) failures(f *cursor, upTo uint64) {
	for el := f.coll.fails.after(f.failed); el != nil && f.mayTell(failureOf(el), upTo); el = el.Next() {
		x := failureOf(el)
		if p.full || (f.tellsFailure(x.key) && !p.tell(x.err, f.spellFailure(x))) {
			return
		}
		f.failed = x.number
	}
}

// stateFailures tells a state-of-the-world client of a type that is sent by what changed
// which names went away with an error, and the errors of what it follows.
func (p *pass) stateFailures(w *watch, upTo uint64) {
	if p.turn(w, byName) {
		p.dirtyNames(w, true, upTo)
		for _, g := range w.globs {
			p.failures(g, upTo)
		}
	}
	if p.turn(w, wholeType) {
		p.failures(w.wildcard, upTo)
	}
}

// listFailures puts the errors into a list that goes out, those that take something
// away up to a number: what came later is still listed (ADS-1).
func (p *pass) listFailures(w *watch, upTo uint64) {
	for _, sub := range w.dirty {
		if err := sub.errorOf(); err != nil && !sub.ended && !w.staysListed(sub, upTo) {
			p.say(err, sub.shown())
		}
	}
	for _, sub := range w.failing() {
		p.say(sub.entry.err, sub.shown())
		sub.forgiven()
	}
	for f := range w.cursors() {
		for el := f.coll.fails.after(f.failed); el != nil && f.mayTell(failureOf(el), upTo); el = el.Next() {
			x := failureOf(el)
			if f.tellsFailure(x.key) {
				p.say(x.err, f.spellFailure(x))
			}
			f.failed = x.number
		}
	}
}

// failuresDue reports whether an error of a collection is to be told that came up to a
// number.
func (w *watch) failuresDue(upTo uint64) bool {
	for f := range w.each() {
		if f.failuresDue(upTo) {
			return true
		}
	}
	return false
}

// errorsDue reports whether an error is to be told with a list that leaves out what was
// removed up to a number.
func (w *watch) errorsDue(upTo uint64) bool {
	return len(w.fails) > 0 || w.failuresDue(upTo) || slices.ContainsFunc(w.dirty, func(sub *nameSub) bool {
		return !sub.ended && sub.errorOf() != nil && !w.staysListed(sub, upTo)
	})
}

// staysListed reports whether a list goes on holding a name that was removed.
func (w *watch) staysListed(sub *nameSub, upTo uint64) bool {
	return sub.takesAway() && sub.last != nil && sub.entry.changed > upTo
}
