package cache

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// An incremental server that is asked for a name which stands for nothing may answer with a
// resource that has the name as an alias, and no payload (RES-16). It means that an
// on-demand virtual host does not exist, and Envoy waits for just that: it takes a removal
// for no answer. So the entry is absent, and keeps the answer for as long as the name is
// subscribed to. The server need not tell who asked once that the resource has appeared, so
// each later subscription has it asked again.

// askPause is how often the server is asked again for a name at most.
const askPause = time.Second

// bareAliases applies a resource without payload that has aliases.
func (u *update) bareAliases(t *table, r *wire.Resource) {
	known := false
	for _, alias := range r.Aliases() {
		key, err := keyer.Key(alias)
		if err != nil {
			continue
		}
		e := t.entries[key]
		if e == nil || (e.interest == nil && !e.wanted()) {
			continue
		}
		known = true
		e.mark = t.mark
		unresolve(t, e, r, u.received)
	}
	if !known {
		u.unsolicited++
	}
}

// unresolve notes that a name stands for nothing, with the answer that says so. Those who
// were told it need not be told again.
func unresolve(t *table, e *entry, r *wire.Resource, now time.Time) {
	if e.answer() == nil {
		t.unset(e, absent, nil, now)
		if !e.wanted() {
			return // and is not kept (RES-17)
		}
	}
	t.absences.answer(e, r, now)
}

// appear is called when something is found under a name after all. The answer that said
// that there is nothing cannot be passed on for its other names either: the server is
// asked for them again.
func appear(t *table, e *entry, now time.Time) {
	answer := e.answer()
	t.absences.end(e)
	if answer == nil {
		return
	}
	for _, alias := range answer.Aliases() {
		key, err := keyer.Key(alias)
		if err != nil {
			continue
		}
		o := t.entries[key]
		if o == nil || o.answer() != answer {
			continue
		}
		t.absences.end(o)
		o.state = unknown
		if i := o.interest; i != nil && i.subscribed {
			i.repeat()
			i.startClock(now)
		}
	}
}

// askAgain has the server asked once more for a name that stood for nothing, for who
// subscribes to it later.
func askAgain(e *entry, clock func() time.Time) {
	if e.answer() == nil || e.interest == nil {
		return
	}
	if now := clock(); now.Sub(e.absence.asked) >= askPause {
		e.absence.asked = now
		e.interest.repeat()
	}
}

// repeat has a name asked for once more without a word that it is not wanted: that a server
// might answer with a removal, for everybody (SUB-6, SUB-8).
func (i *interest) repeat() {
	if i.again || !i.subscribed || i.leaving {
		return
	}
	i.again, i.repeats = true, true
	i.mark()
}

// unresolved tells that a name stands for nothing, in the server's words; false if there
// is no room. One answer may be for several names of the client.
func (p *pass) unresolved(e *entry, pushed bool) bool {
	r := e.answer()
	if !p.room(r.Size() + nameOverhead) {
		return false
	}
	if p.first(r.Name) {
		p.cur.Body.Add(r)
	}
	p.taken(e, pushed)
	return true
}

// passesAnswers reports whether the client can be told that a name stands for nothing. The
// state of the world has no word for it.
func (w *watch) passesAnswers() bool { return !w.client.form.State && !w.client.reads() }
