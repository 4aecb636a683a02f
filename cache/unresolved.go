package cache

import (
	"strings"
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

// absence is what there is to say of a name that stands for nothing.
type absence struct {
	// answer is the server's, as it came, nil if there is none. It may be the answer for
	// other names, too. asked is when the server was asked last, or answered.
	answer *wire.Resource
	asked  time.Time
	// served is the name of the resource that served the alias until that was removed:
	// its clients know it by that (RES-10).
	served string
}

// answer is the server's answer that the name stands for nothing, nil if there is none.
func (e *entry) answer() *wire.Resource {
	if e.absence == nil {
		return nil
	}
	return e.absence.answer
}

// served is the name of the resource that served the alias, "" if none did.
func (e *entry) served() string {
	if e.absence == nil {
		return ""
	}
	return e.absence.served
}

// setServed notes that it was the removal of that resource that took the alias away.
func (e *entry) setServed(name string) { e.own().absence = &absence{served: strings.Clone(name)} }

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
		t.unresolve(e, r, u.received)
	}
	if !known {
		u.unsolicited++
	}
}

// unresolve notes that a name stands for nothing, with the answer that says so. Those who
// were told it need not be told again.
func (t *table) unresolve(e *entry, r *wire.Resource, now time.Time) {
	if e.answer() == nil {
		t.unset(e, absent, nil, now)
		if !e.wanted() {
			return // and is not kept (RES-17)
		}
		t.answers++
	}
	e.own().absence = &absence{answer: r, asked: now}
}

// resolve forgets what there was to say, which is not true any more, or nobody wants.
func (t *table) resolve(e *entry) {
	if e.absence == nil {
		return
	}
	if e.absence.answer != nil {
		t.answers--
	}
	e.own().absence = nil
	e.tidy()
}

// appear is called when something is found under a name after all. The answer that said
// that there is nothing cannot be passed on for its other names either: the server is
// asked for them again.
func (t *table) appear(e *entry, now time.Time) {
	answer := e.answer()
	t.resolve(e)
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
		t.resolve(o)
		o.state = unknown
		if i := o.interest; i != nil && i.subscribed {
			i.repeat()
			i.startClock(now)
		}
	}
}

// askAgain has the server asked once more for a name that stood for nothing, for who
// subscribes to it later.
func (t *table) askAgain(e *entry) {
	if e.answer() == nil || e.interest == nil {
		return
	}
	if now := t.store.cache.now(); now.Sub(e.absence.asked) >= askPause {
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

func (e *entry) checkUnresolved(c *checker) {
	c.that(e.absence == nil || (e.state == absent && (e.wanted() || e.interest != nil)),
		"%q is %s, and the server said that it stands for nothing", e.key, e.state)
}
