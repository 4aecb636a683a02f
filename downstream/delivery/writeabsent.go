package delivery

import "github.com/xdsrelay/xdsrelay/cache"

// absent tells that what a name stood for does not exist: the state of the world has an error
// for it (ABS-1).
func (wr *writer) absent(sub *nameSub) bool {
	e := sub.entry
	if err := wr.typeSub.place.format.absence(); err != nil {
		if !wr.tellError(err, sub.spelling) {
			return false
		}
		wr.record(e, sub.pushed)
		return true
	}
	if !sub.denied() && e.Absence().Answer() != nil && sub.typeSub.place.incremental() {
		if told, room := wr.unresolved(e, sub.pushed); told || !room {
			return room
		}
	}
	if !wr.remove(sub.spelling) {
		return false
	}
	if sub.denied() {
		if name := sub.typeSub.subs.screen.hadServed(sub.spelling); name != "" && sub.holds && sub.typeSub.place.incremental() {
			return wr.removeServed(sub.typeSub, name)
		}
		return true
	}
	if sub.holds && e.Absence().Served() != "" && sub.typeSub.place.incremental() && !wr.removeServed(sub.typeSub, e.Absence().Served()) {
		return false
	}
	wr.record(e, sub.pushed)
	return true
}

// removeServed tells the removal of what served an alias: the client knows it by its own name
// (RES-10).
func (wr *writer) removeServed(w *typeSub, name string) bool {
	if !wr.remove(name) {
		return false
	}
	if w.subs.wildcard != nil {
		w.subs.wildcard.compared(name)
	}
	return true
}

// failed tells the error of a name without content. In the incremental form the name is in
// removed_resources too, for clients that do not know errors, if the error means that there is
// no such resource, or if the client may hold the resource, or was not told that it is gone.
func (wr *writer) failed(e *cache.Entry, sub *nameSub) bool {
	if !wr.room(len(sub.spelling)*2 + e.Err().Size() + nameOverhead) {
		return false
	}
	if c := wr.typeSub.place; c.incremental() && (sub.takesAway() || sub.absenceDue || !e.Err().Transient()) {
		if !wr.remove(sub.spelling) {
			return false
		}
		if g := sub.typeSub.subs.globs.calling(e.Key(), sub.spelling); g != nil {
			g.compared(e.Key()) // the glob would tell the same (RES-4)
		}
	}
	wr.putError(e.Err(), sub.spelling)
	wr.record(e, sub.pushed)
	return true
}

// unresolved tells that a name stands for nothing, in the server's words, unless these are of a
// name that the client may not have. One answer may be for several names of the client.
func (wr *writer) unresolved(e *cache.Entry, pushed bool) (told, room bool) {
	r := e.Absence().Answer()
	if !wr.room(r.Size() + nameOverhead) {
		return false, false
	}
	if wr.first(r.Name) && !wr.typeSub.put(wr.cur, outgoing{format: wr.typeSub.place.format, resource: r, name: r.Name}) {
		return false, true
	}
	wr.record(e, pushed)
	return true, true
}
